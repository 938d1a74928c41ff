"""The figure that shows how the estimators of log p(x) drift with their budget."""

from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from uivi.paper.report import plots
from uivi.paper.results import Result, grouped, label, look_up, look_up_number

ESTIMATORS = {
    "paper": ("Reds", "o", "paper's estimator (no bound)"),
    "lower": ("Blues", "s", "generating ε included (lower bound)"),
}
WIDTH = 5.6
"""Width of a figure in inches: it has two panels side by side."""
REFERENCE: dict[str, Any] = {"color": "black", "linestyle": "dotted", "linewidth": 1.2}


def drift_figures(results: list[Result]) -> list[bytes]:
    """Draws both estimators against M, with one line per S, one figure per data set and one panel per method.

    Leaves out results with a single M: explicit families have no ε.
    """
    varied = [result for result in results if len(_budgets(result, "mixing")) > 1]
    sizes = sorted({size for result in varied for size in _budgets(result, "draws")})
    return [_figure(title, found, sizes) for title, found in grouped(varied, lambda r: r["title"]).items()]


def _figure(title: str, results: list[Result], sizes: list[int]) -> bytes:
    columns = min(2, len(results))
    rows = -(-len(results) // columns)
    handles = _handles(sizes, references=any(map(_reference, results)))
    below = 0.22 * len(handles) + 0.6
    figure = Figure(figsize=(WIDTH, 2.7 * rows + below), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    _equal_spans([(axis, _draw(axis, result, sizes)) for axis, result in zip(axes, results, strict=False)])
    for axis, result in zip(axes, results, strict=False):
        plots.dress(axis, label(result), "M, number of fresh ε", "log p(x) in nats")
    for axis in axes[len(results) :]:
        axis.set_visible(False)
    figure.suptitle(plots.plain(title), fontsize=plots.TITLE)
    plots.legend_below(figure, handles, 1)
    return plots.png(figure)


def _rows(result: Result) -> list[dict[str, Any]]:
    return look_up(result["seeds"][0], "drift") or []


def _budgets(result: Result, name: str) -> list[int]:
    return sorted({row[name] for row in _rows(result)})


def _reference(result: Result) -> float | None:
    """Returns AIS on the test images, or None if it was run on other images than the estimators."""
    truth = look_up(result["seeds"][0], "truth")
    same = look_up(truth, "images") == look_up(result["config"], "task", "budget", "drift_images")
    return look_up_number(truth, "real", "ais_lower", "mean") if same else None


def _draw(axis: Any, result: Result, sizes: list[int]) -> list[float]:
    """Draws all lines and returns the values drawn."""
    drawn = []
    for name, (colors, marker, _) in ESTIMATORS.items():
        for size in sizes:
            rows = [r for r in _rows(result) if r["draws"] == size and r[name] is not None]
            points = sorted((row["mixing"], row[name]) for row in rows)
            color = _shade(colors, size, sizes)
            axis.plot(
                *zip(*points, strict=True) if points else ([], []), color=color, marker=marker, markersize=3
            )
            drawn += [float(value) for _, value in points]
    reference = _reference(result)
    if reference is not None:
        axis.axhline(reference, **REFERENCE)
        drawn.append(reference)
    budgets = _budgets(result, "mixing")
    axis.set_xscale("log")
    axis.set_xticks(budgets, labels=[f"{m:,}" for m in budgets])
    axis.minorticks_off()
    axis.grid(visible=True, color="#e5e5e5", linewidth=0.6)
    return drawn


def _equal_spans(drawn: Sequence[tuple[Any, list[float]]]) -> None:
    """Gives all axes the same height in nats, so that slopes can be compared."""
    ends = [(axis, min(values), max(values)) for axis, values in drawn if values]
    span = 1.1 * max((high - low for _, low, high in ends), default=0.0) or 1.0
    for axis, low, high in ends:
        middle = (low + high) / 2
        axis.set_ylim(middle - span / 2, middle + span / 2)
        plots.with_commas(axis.yaxis)


def _shade(colors: str, size: int, sizes: list[int]) -> Any:
    """Returns a darker shade for more draws."""
    return matplotlib.colormaps[colors](0.45 + 0.5 * (sizes.index(size) + 1) / len(sizes))


def _handles(sizes: list[int], *, references: bool) -> list[Line2D]:
    """Returns one column of the legend per estimator, with the reference below the first."""
    paper, lower = (
        [
            _handle(f"{text}, S = {s:,}", color=_shade(colors, s, sizes), marker=marker, markersize=3)
            for s in sizes
        ]
        for colors, marker, text in ESTIMATORS.values()
    )
    return [
        *paper,
        *([_handle("AIS on the same images (lower bound)", **REFERENCE)] if references else []),
        *lower,
    ]


def _handle(text: str, **look: Any) -> Line2D:
    return Line2D([], [], label=plots.plain(text), **look)
