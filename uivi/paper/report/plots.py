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
WIDTH = 4.6
"""Width of a figure in inches. A phone shows such a figure whole, with text that can be read."""
TITLE, LABEL, TICK = 11, 10, 9
"""Sizes of text in points."""


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


def curves_figures(stacks: Sequence[Sequence[Panel]], height: float = 3.0) -> list[bytes]:
    """Draws one figure for each stack of panels, with a legend below it.

    A method has the same colour in all figures. `height` is the height of a panel in inches.
    """
    styles = _styles([result for stack in stacks for panel in stack for result in panel.results])
    return [_stack(panels, styles, height) for panels in stacks]


def _stack(panels: Sequence[Panel], styles: dict[str, dict[str, Any]], height: float) -> bytes:
    here = {label(result) for panel in panels for result in panel.results}
    lines = distinct(line for panel in panels for line in panel.lines if line.meaning)
    handles = [Line2D([], [], label=plain(name), **styles[name]) for name in styles if name in here]
    handles += [Line2D([], [], label=k.meaning, color=GREY, linewidth=k.width, alpha=k.alpha) for k in lines]
    per_row = 2
    # The figure grows by the rows of the legend.
    below = 0.25 * -(-len(handles) // per_row) + 0.2
    figure = Figure(figsize=(WIDTH, height * len(panels) + below), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False)
    for axis, panel in zip(axes.flat, panels, strict=True):
        _draw(axis, panel, styles)
    legend_below(figure, handles, per_row)
    return png(figure)


def legend_below(figure: Figure, handles: Sequence[Any], per_row: int) -> None:
    """Adds one legend for all axes, below them."""
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=min(per_row, len(handles)),
        fontsize=TICK,
        frameon=False,
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
    axis.set_title("\n".join(textwrap.fill(line, 40) for line in plain(title).splitlines()), fontsize=TITLE)
    axis.set_xlabel(plain(across), fontsize=LABEL)
    axis.set_ylabel(plain(up), fontsize=LABEL)
    axis.tick_params(labelsize=TICK)


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
