"""Images from the model, one row for each prior."""

import numpy as np
from matplotlib.figure import Figure

from uivi.paper.images import framed, strip
from uivi.paper.report import plots
from uivi.paper.results import Result, grouped, label


def generated_figures(results: list[Result]) -> list[bytes]:
    """Draws one figure for each data set, from the results that have images."""
    shown = [result for result in results if result["exhibit"].get("generated")]
    return [_figure(title, found) for title, found in grouped(shown, lambda r: r["title"]).items()]


def _figure(title: str, results: list[Result]) -> bytes:
    strips = [strip(framed(result["exhibit"]["generated"])) for result in results]
    # A file of another make may have fewer images.
    width = min(row.shape[1] for row in strips)
    figure = Figure(figsize=(1.4 * plots.WIDTH, 0.55 * len(strips) + 0.4), layout="constrained")
    axis = figure.subplots()
    axis.imshow(
        np.concatenate([row[:, :width] for row in strips]),
        cmap="gray_r",
        vmin=0,
        vmax=255,
        interpolation="nearest",
        aspect="auto",
    )
    middles = (np.arange(len(strips)) + 0.5) * strips[0].shape[0]
    axis.set_yticks(middles, labels=[plots.plain(label(result)) for result in results], fontsize=plots.TICK)
    axis.set_xticks([])
    axis.tick_params(length=0)
    axis.set_title(plots.plain(title), fontsize=plots.LABEL)
    return plots.png(figure)
