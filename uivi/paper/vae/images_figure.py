"""Figure 5: images and their reconstructions."""

import base64

import numpy as np
from matplotlib.figure import Figure

from uivi.paper.report import plots
from uivi.paper.results import Result, label

SIDE = 28


def images_figure(result: Result) -> bytes:
    """Draws ten images above their reconstructions (first seed)."""
    exhibit = result["exhibit"]
    strips = [_strip(exhibit[name]) for name in ("images", "reconstructions")]
    figure = Figure(figsize=(7.0, 1.75), layout="constrained")
    axis = figure.subplots()
    axis.imshow(np.concatenate(strips), cmap="gray_r", vmin=0, vmax=255, interpolation="nearest")
    middles = (np.arange(2) + 0.5) * strips[0].shape[0]
    axis.set_yticks(middles, labels=("image", "mean"), fontsize=8)
    axis.set_xticks([])
    axis.tick_params(length=0)
    axis.set_title(plots.plain(f"{result['title']}, {label(result)}"), fontsize=10)
    return plots.png(figure)


def _strip(encoded: str) -> np.ndarray:
    """Returns the images side by side, with a grey line between them."""
    images = np.frombuffer(base64.b64decode(encoded), np.uint8).reshape(-1, SIDE, SIDE)
    framed = np.pad(images, ((0, 0), (1, 1), (1, 1)), constant_values=90)
    return np.concatenate(list(framed), axis=1)
