"""Plots of a posterior. Matplotlib is imported when one is drawn."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from uivi.evaluation.check import Check
from uivi.evaluation.findings import GOOD_ERROR
from uivi.evaluation.history import BOUND, History
from uivi.fitting.tables import Variable, shortened, worst

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_POINTS = 1_000
"""Largest number of draws in a scatter plot."""
LONGEST_LABEL = 20
"""Largest number of letters of a label: more would not fit beside a plot."""
MOST_ERRORS = 20
"""Largest number of entries in a plot of errors."""


def pairs(table: list[Variable], names: Sequence[str] | None, most: int, *, dark: bool) -> "Figure":
    """Draws histograms of some entries and scatter plots of their pairs.

    Args:
        table: the variables.
        names: variables (`theta`) or entries (`theta[0]`); by default the entries with the largest errors.
        most: largest number of entries.
        dark: whether to draw on a dark ground.
    """
    if not table:
        raise ValueError(
            "expected a posterior without context: of an amortised one, plot draws for one data point, "
            "posterior.sample(key, num_draws, context=x)"
        )
    entries = _chosen(table, names)[:most]
    side = 2.2 * len(entries) + 0.6
    with _figure(dark=dark, size=(side, side)) as figure:
        axes = figure.subplots(len(entries), len(entries), squeeze=False, sharex="col")
        for i, (label, draws) in enumerate(entries):
            for j, (_, across) in enumerate(entries):
                axis = axes[i, j]
                if j > i:
                    axis.set_axis_off()
                elif j == i:
                    axis.hist(draws[np.isfinite(draws)], 40, histtype="stepfilled", alpha=0.7)
                    axis.set(title=_plain(label), yticks=[])
                    axis.spines["left"].set_visible(False)
                else:
                    axis.plot(across[:MOST_POINTS], draws[:MOST_POINTS], ".", markersize=2, alpha=0.6)
                    axis.set_ylabel(_plain(label) if j == 0 else "")
    return figure


def bound(history: History, *, dark: bool) -> "Figure":
    """Draws the ELBO between its two sides over the updates, with a line at the end of each round."""
    names = ("step", BOUND, f"{BOUND}_stderr", "bracket", "round")
    if not any(value is not None for value in history.get(BOUND, [])):
        raise ValueError(
            "expected a history with a bound, found none: the fit ended before its first look, or it is "
            "amortised and has no single ELBO"
        )
    length = len(history["step"])
    columns = [history.get(name, [None] * length) for name in names]
    rows = [row for row in zip(*columns, strict=True) if row[1] is not None]
    step, lower, stderr, width = (np.array([row[i] or 0.0 for row in rows], float) for i in range(4))
    with _figure(dark=dark, size=(6.4, 3.6)) as figure:
        axis = figure.subplots()
        # A density that is known has one side only.
        sides = {"from below": lower, "from above": lower + width} if np.any(width) else {"ELBO": lower}
        for name, side in sides.items():
            axis.errorbar(step, side, 2 * stderr, marker=".", capsize=2, label=f"{name}, ± 2 standard errors")
        ends = [a for a, b, *_ in _changes(columns[0], columns[4])]
        for place in ends:
            words = "end of a round" if place == ends[0] else None
            axis.axvline(place, linestyle=":", color="gray", label=words)
        # The first bounds may be lower by orders of magnitude and would hide all others.
        finite = lower[np.isfinite(lower)]
        if len(finite) > 4 and np.ptp(finite) > 50 * max(np.ptp(finite[len(finite) // 2 :]), 1e-6):
            axis.set_yscale("symlog")
        axis.set(xlabel="updates", ylabel="ELBO", xlim=(0, 1.05 * step.max()))
        figure.legend(loc="outside upper left", ncols=3, frameon=False, fontsize="small")
    return figure


def errors(found: Check, table: list[Variable], *, unknown: str, dark: bool) -> "Figure":
    """Draws the largest errors of the variables against the limit of a good fit, and both sides of the ELBO.

    Args:
        found: the check.
        table: the variables.
        unknown: why errors are unknown, if they are.
        dark: whether to draw on a dark ground.
    """
    known = [(error, label) for error, label, _ in worst(table) if np.isfinite(error)][:MOST_ERRORS]
    with _figure(dark=dark, size=(7.6, 1.6 + 0.22 * max(len(known), 6))) as figure:
        left, right = figure.subplots(1, 2, width_ratios=[3, 1])
        places, lengths = np.arange(len(known))[::-1], [error for error, _ in known]
        left.barh(places, lengths, height=0.6, color=["C1" if x > GOOD_ERROR else "C0" for x in lengths])
        left.set_yticks(places, [_plain(label) for _, label in known])
        left.axvline(GOOD_ERROR, linestyle=":", color="gray")
        end = 1.1 * max([GOOD_ERROR, *lengths])
        left.set(xlim=(0, end), xlabel="error of the mean (in sds) or of the sd (relative)")
        # Above the axes, where no bar hides the words, and on the side that has room for them.
        side, above = ("left" if end > 2 * GOOD_ERROR else "right"), left.get_xaxis_transform()
        left.text(GOOD_ERROR, 1.02, "limit of a good fit", ha=side, fontsize="small", transform=above)
        if not known:
            left.text(0.5, 0.5, f"unknown:\n{unknown}", ha="center", transform=left.transAxes)
        figure.suptitle(f"verdict: {found.verdict}")
        sides = [found.lower, found.upper]
        right.errorbar(
            [0, 1], [side.mean for side in sides], [2 * side.stderr for side in sides], fmt="o", capsize=3
        )
        right.set_xticks([0, 1], ["from\nbelow", "from\nabove"])
        right.set(xlim=(-0.6, 1.6), ylabel="ELBO")
    return figure


@contextlib.contextmanager
def _figure(*, dark: bool, size: tuple[float, float]) -> Iterator[Any]:
    """Yields a figure that no window shows: a notebook displays it as the value of its cell."""
    import matplotlib
    import matplotlib.style
    from matplotlib.figure import Figure

    if "IPython" in sys.modules:
        # This is what tells a notebook how to display figures.
        import matplotlib.pyplot
    style = matplotlib.style.context("dark_background") if dark else contextlib.nullcontext()
    with style, matplotlib.rc_context({"axes.spines.top": False, "axes.spines.right": False}):
        yield Figure(figsize=size, layout="constrained")


def _chosen(table: list[Variable], names: Sequence[str] | None) -> list[tuple[str, np.ndarray]]:
    if names is None:
        return [(label, draws) for _, label, draws in worst(table)]
    names = [names] if isinstance(names, str) else list(names)
    whole = {v.name: list(zip(v.labels, v.draws.T, strict=True)) for v in table}
    single = {label: [(label, draws)] for v in table for label, draws in zip(v.labels, v.draws.T, strict=True)}
    known = {**single, **whole}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        entries = next((f", or entries such as {label}" for label in single if label not in whole), "")
        raise ValueError(f"expected names among {list(whole)}{entries}, got {unknown}")
    return [entry for name in names for entry in known[name]]


def _changes(steps: list[Any], rounds: list[Any]) -> list[tuple[int, int]]:
    """Returns the last step of every round but the last."""
    pairs = list(zip(steps, rounds, strict=True))
    return [before for before, after in zip(pairs, pairs[1:], strict=False) if after[1] != before[1]]


def _plain(label: str) -> str:
    """Shortens a name, and keeps Matplotlib from reading mathematics in it."""
    return shortened(label, LONGEST_LABEL).replace("$", r"\$")
