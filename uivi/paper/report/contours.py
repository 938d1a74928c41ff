"""Draws over the contours of a target in the plane."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from uivi.paper.report import plots
from uivi.paper.results import Result, label

View = tuple[tuple[float, float], tuple[float, float]]
"""Limits of the horizontal and of the vertical axis."""
POINTS = 150
"""Points of the grid in each direction."""


def draws_figure(results: list[Result], view: View, log_density: Callable | None) -> bytes:
    """Draws the first seed's draws of each result over contours, one pair of axes for each.

    Args:
        results: results on one target.
        view: what is seen of the plane.
        log_density: log density of the target; None if nobody knows it, which leaves out the contours.
    """
    columns = min(2, len(results))
    rows = -(-len(results) // columns)
    side = plots.WIDTH / 2
    figure = Figure(figsize=(side * columns, (side + 0.1) * rows + 0.2), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flat
    grid = np.stack(np.meshgrid(*(np.linspace(*limits, POINTS) for limits in view)), -1)
    contours = None if log_density is None else _on_grid(log_density, grid)
    for axis, result in zip(axes, results, strict=False):
        _draw(axis, result, view, grid, contours)
        axis.set_title(plots.plain(label(result)), fontsize=plots.LABEL)
    for axis in list(axes)[len(results) :]:
        axis.set_visible(False)
    figure.suptitle(plots.plain(results[0]["title"]), fontsize=plots.TITLE)
    return plots.png(figure)


def _draw(axis: Any, result: Result, view: View, grid: np.ndarray, contours: np.ndarray | None) -> None:
    axis.set(xlim=view[0], ylim=view[1], xticks=[], yticks=[])
    if contours is not None:
        levels = contours.max() - np.array([8.0, 5.0, 3.0, 1.5, 0.5])
        look: dict[str, Any] = {"colors": plots.ORANGE, "linewidths": 0.9, "linestyles": "solid"}
        axis.contour(grid[..., 0], grid[..., 1], contours, levels=levels, **look)
    draws = np.asarray(result["exhibit"].get("draws") or np.empty((0, 2)))
    axis.plot(draws[:, 0], draws[:, 1], ".", color=plots.BLUE, markersize=2.5, alpha=0.7)


def _on_grid(log_density: Callable, grid: np.ndarray) -> np.ndarray:
    # Compiled whole: one operation after the other takes seconds.
    density = jax.jit(jax.vmap(jax.vmap(log_density)))
    return np.asarray(density(jnp.asarray(grid, dtype=float)))
