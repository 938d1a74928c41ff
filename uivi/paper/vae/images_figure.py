"""Figure 5: images and their reconstructions."""

import numpy as np
from matplotlib.figure import Figure

from uivi.paper.images import framed, strip
from uivi.paper.report import plots
from uivi.paper.results import Result, label

PER_ROW = 5
"""Number of images side by side, so that a phone shows the figure whole."""


def images_figure(result: Result) -> bytes:
    """Draws ten images above their reconstructions (first seed)."""
    exhibit = result["exhibit"]
    images, means = (framed(exhibit[name]) for name in ("images", "reconstructions"))
    strips = [strip(some[i : i + PER_ROW]) for i in range(0, len(images), PER_ROW) for some in (images, means)]
    figure = Figure(figsize=(plots.WIDTH, 0.86 * len(strips) + 0.3), layout="constrained")
    axis = figure.subplots()
    axis.imshow(np.concatenate(strips), cmap="gray_r", vmin=0, vmax=255, interpolation="nearest")
    middles = (np.arange(len(strips)) + 0.5) * strips[0].shape[0]
    labels = [("image", "mean")[i % 2] for i in range(len(strips))]
    axis.set_yticks(middles, labels=labels, fontsize=plots.TICK)
    axis.set_xticks([])
    axis.tick_params(length=0)
    axis.set_title(plots.plain(f"{result['title']}, {label(result)}"), fontsize=plots.LABEL)
    return plots.png(figure)
