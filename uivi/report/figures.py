"""Figures, as PNG bytes."""

import io
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from uivi.report.results import Result
from uivi.targets.base import AbstractTarget

VIEW = {"banana": ((-3.5, 3.5), (-10, 3)), "multimodal": ((-5.5, 5.5), (-4, 4))}
DEFAULT_VIEW = ((-5.0, 5.0), (-5.0, 5.0))
DRAWS, CONTOUR, LINES = "#1f5fa8", "#e08214", ("#1f5fa8", "#b2182b", "#4d9221", "#762a83")


def draws_figure(targets: Mapping[str, AbstractTarget], results: list[Result]) -> bytes:
    """The paper's Figure 2: contours of each target with 300 draws, a column per method."""
    names = list(dict.fromkeys(r["config"]["experiment"] for r in results))
    columns = list(dict.fromkeys(_label(r) for r in results))
    figure = Figure(figsize=(2.6 * len(columns) + 0.4, 2.6 * len(names) + 0.3), layout="constrained")
    axes = figure.subplots(len(names), len(columns), squeeze=False)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    for result in results:
        row, column = names.index(result["config"]["experiment"]), columns.index(_label(result))
        axis = axes[row, column]
        _draw_target(axis, targets[names[row]], names[row])
        draws = np.asarray(result["draws"])
        axis.plot(draws[:, 0], draws[:, 1], ".", color=DRAWS, markersize=2.5, alpha=0.7)
    for column, label in enumerate(columns):
        axes[0, column].set_title(label, fontsize=9)
    for row, name in enumerate(names):
        axes[row, 0].set_ylabel(name, fontsize=9)
    return _png(figure)


def history_figure(results: list[Result]) -> bytes:
    """The recorded ELBO (lower side, first seed) against time spent in updates."""
    names = list(dict.fromkeys(r["config"]["experiment"] for r in results))
    figure = Figure(figsize=(4.2 * len(names), 3.0), layout="constrained")
    axes = figure.subplots(1, len(names), squeeze=False)[0]
    for axis, name in zip(axes, names, strict=True):
        for number, result in enumerate(r for r in results if r["config"]["experiment"] == name):
            _plot_history(axis, result, LINES[number % len(LINES)])
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("seconds in updates (all seeds)", fontsize=8)
        axis.set_yscale("symlog", linthresh=1e-2)
        axis.axhline(0, color="black", linewidth=0.5)
        axis.tick_params(labelsize=7)
        axis.legend(fontsize=7)
    axes[0].set_ylabel("ELBO, lower side (0 is exact)", fontsize=8)
    return _png(figure)


def _plot_history(axis: Any, result: Result, color: str) -> None:
    history = result["history"]
    columns = (history.get(c, []) for c in ("seconds", "elbo_lower"))
    known = [(s, b) for s, b in zip(*columns, strict=True) if b is not None]
    if known:
        axis.plot(*zip(*known, strict=True), color=color, label=_label(result), linewidth=1.2)


def _draw_target(axis: Any, target: AbstractTarget, name: str) -> None:
    (left, right), (bottom, top) = VIEW.get(name, DEFAULT_VIEW)
    xs, ys = np.meshgrid(np.linspace(left, right, 150), np.linspace(bottom, top, 150))
    grid = jnp.asarray(np.stack([xs, ys], -1), dtype=float)
    log_p = np.asarray(jax.vmap(jax.vmap(lambda z: target.log_joint(z, ())))(grid))
    levels = log_p.max() - np.array([8.0, 5.0, 3.0, 1.5, 0.5])
    axis.contour(xs, ys, log_p, levels=levels, colors=CONTOUR, linewidths=0.9, linestyles="solid")
    axis.set_xlim(left, right)
    axis.set_ylim(bottom, top)


def _label(result: Result) -> str:
    return f"{result['config']['method']} ({result['config']['preset']})"


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()
