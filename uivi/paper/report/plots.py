"""Figures with curves, and the style that all figures share. A figure is returned as PNG bytes."""

import dataclasses
import io
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from uivi.paper.results import EFFORTS, Result, curve, distinct, label

BLUE, RED, GREEN, ORANGE, PURPLE, GREY = "#1f5fa8", "#b2182b", "#4d9221", "#e08214", "#762a83", "#555555"
COLORS = {"uivi": BLUE, "sivi": RED, "explicit": GREEN}
SPARE = (BLUE, RED, GREEN, ORANGE, PURPLE, GREY)
DASHES = {"paper": "solid", "default": "dashed"}
SETTLED = 0.8
"""Share of each curve, from its end, that the vertical axis must hold."""
FEW = 10
"""Curves with fewer points than this get markers."""


@dataclasses.dataclass(frozen=True)
class Line:
    """A column of the history and how it is drawn.

    Attributes:
        column: name of the column.
        meaning: text in the legend; empty if a panel has only one line per result.
        width: width of the line.
        alpha: opacity.
    """

    column: str
    meaning: str = ""
    width: float = 1.4
    alpha: float = 1.0


BELOW = Line("elbo_lower", "lower bound", width=4.0, alpha=0.35)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Panel:
    """One pair of axes that shows the same columns of several results.

    Attributes:
        title: title, or an empty string.
        labels: labels of the horizontal and the vertical axis; empty strings for none.
        results: results to draw, with one colour per method and one dash style per preset.
        lines: lines to draw for each result.
        against: column on the horizontal axis.
        window: number of values in the rolling mean.
        last: share of the horizontal axis to show, from its end.
        log_from: distance from 0 beyond which the vertical axis is logarithmic; it also marks 0.
    """

    title: str
    labels: tuple[str, str]
    results: list[Result]
    lines: tuple[Line, ...]
    against: str = "step"
    window: int = 1
    last: float = 1.0
    log_from: float | None = None


def curves_figure(grid: Sequence[Sequence[Panel]], height: float = 3.0) -> bytes:
    """Draws a grid of panels with one legend below. `height` is the height of a panel in inches."""
    rows, columns = len(grid), max(len(row) for row in grid)
    everything = [result for row in grid for panel in row for result in panel.results]
    styles = _styles(everything)
    lines = distinct(line for row in grid for panel in row for line in panel.lines if line.meaning)
    entries = len(styles) + len(lines)
    width = 5.2 * columns if columns > 1 else 7.0
    # An entry of the legend is about 2.2 inches wide. The figure grows by the rows of the legend.
    per_row = max(1, int(width // 2.2))
    below = 0.25 * -(-entries // per_row) + 0.2
    figure = Figure(figsize=(width, height * rows + below), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis, panel in zip(axes.flat, (panel for row in grid for panel in row), strict=True):
        _draw(axis, panel, styles)
    handles = [Line2D([], [], label=plain(name), **style) for name, style in styles.items()]
    handles += [Line2D([], [], label=k.meaning, color=GREY, linewidth=k.width, alpha=k.alpha) for k in lines]
    legend_below(figure, handles, per_row)
    return png(figure)


def legend_below(figure: Figure, handles: Sequence[Any], per_row: int) -> None:
    """Adds one legend for all axes, below them."""
    figure.legend(
        handles=handles, loc="outside lower center", ncols=min(per_row, len(handles)), fontsize=8, frameon=False
    )


def rolling(values: Sequence[float], window: int) -> np.ndarray:
    """Returns the mean of the last `window` values at each position, of fewer at the beginning."""
    total = np.cumsum(np.concatenate([[0.0], np.asarray(values, float)]))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(0, ends - window)
    return (total[ends] - total[starts]) / (ends - starts)


def settled_limits(curves: Sequence[np.ndarray], share: float = SETTLED) -> tuple[float, float] | None:
    """Returns limits that hold the last part of every curve: the first values may be a million nats away."""
    late = [y[-max(1, round(share * len(y))) :] for y in curves if len(y)]
    if not late:
        return None
    low, high = min(y.min() for y in late), max(y.max() for y in late)
    margin = 0.06 * (high - low) or 0.01 * abs(high) or 1.0
    return low - margin, high + margin


def dress(axis: Any, title: str, across: str, up: str) -> None:
    """Sets title and labels in the sizes that all figures use."""
    axis.set_title("\n".join(textwrap.fill(line, 44) for line in plain(title).splitlines()), fontsize=10)
    axis.set_xlabel(plain(across), fontsize=9)
    axis.set_ylabel(plain(up), fontsize=9)
    axis.tick_params(labelsize=8)


def plain(text: str) -> str:
    """Returns a text that Matplotlib shows as it is: a name is not mathematical markup, even with dollars."""
    return text.replace("\\$", "$").replace("$", "\\$")


def with_commas(axis: Any) -> None:
    """Formats the ticks of an axis with commas."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}".replace("-", "−")))


def png(figure: Figure) -> bytes:
    """Returns the figure as the bytes of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def _draw(axis: Any, panel: Panel, styles: dict[str, dict[str, Any]]) -> None:
    drawn = []
    for line in panel.lines:
        for result in panel.results:
            x, y = curve(result, line.column, panel.against)
            smooth = rolling(y, panel.window)
            marker = "o" if len(x) < FEW else ""
            look = styles[label(result)] | {"linewidth": line.width, "alpha": line.alpha}
            axis.plot(x, smooth, marker=marker, markersize=3, **look)
            drawn.append((result["config"]["effort"], smooth))
    dress(axis, panel.title, *panel.labels)
    with_commas(axis.xaxis)
    axis.grid(visible=True, color="#e5e5e5", linewidth=0.6)
    if panel.log_from is None:
        with_commas(axis.yaxis)
        limits = settled_limits(_fullest(drawn), min(SETTLED, panel.last))
        if limits:
            axis.set_ylim(*limits)
        if panel.last < 1:
            left, right = axis.get_xlim()
            axis.set_xlim(right - panel.last * (right - left), right)
    else:
        axis.set_yscale("symlog", linthresh=panel.log_from)
        axis.axhline(0, color="black", linewidth=0.6)


def _fullest(drawn: list[tuple[str, np.ndarray]]) -> list[np.ndarray]:
    """Returns the curves that set the limits: those with the fullest effort."""
    for effort in EFFORTS:
        found = [y for e, y in drawn if e == effort and len(y)]
        if found:
            return found
    return []


def _styles(results: list[Result]) -> dict[str, dict[str, Any]]:
    """Returns the style of each label: one colour per method, one dash style per preset."""
    others = [m for m in distinct(r["config"]["method"] for r in results) if m not in COLORS]
    colors = COLORS | {method: SPARE[i % len(SPARE)] for i, method in enumerate(others)}
    return {
        label(r): {
            "color": colors[r["config"]["method"]],
            "linestyle": DASHES.get(r["config"]["preset"], "dotted"),
        }
        for r in results
    }
