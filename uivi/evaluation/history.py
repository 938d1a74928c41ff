"""Reads the history of a fit: columns of equal length, recorded between updates."""

import math
from typing import Any

BOUND = "elbo_lower"
"""Column of the bound. The column `elbo_lower_stderr` holds its standard error."""

SHORT, NEAR, CLOSE = "short", "near", "close"
"""Columns of the looks: whether the fit fell short, whether it did so by little, and whether it was certainly
good."""

History = dict[str, list[Any]]


def gain_of_last_round(history: History) -> tuple[float, float] | None:
    """Returns how much the last round raised the bound, with a standard error; None before the second round."""
    names = ("round", BOUND, f"{BOUND}_stderr")
    rows = zip(*(history.get(name, []) for name in names), strict=False)
    # Later rows replace earlier ones, so the last bound of every round stays.
    ends = {number: (bound, error) for number, bound, error in rows if bound is not None}
    if len(ends) < 2:
        return None
    (before, error_before), (after, error_after) = (ends[number] for number in sorted(ends)[-2:])
    return after - before, math.hypot(error_before, error_after)


def recent_gain(history: History) -> tuple[float, str]:
    """Returns how much the bound rose recently, less two standard errors, and the period that this covers.

    The period is the last round, or the last fifth of the updates for a fit without rounds.
    """
    last_round = gain_of_last_round(history)
    if last_round is not None:
        return last_round[0] - 2 * last_round[1], "the last round"
    rows = zip(history.get(BOUND, []), history.get(f"{BOUND}_stderr", []), strict=False)
    known = [(a, b) for a, b in rows if a is not None and b is not None]
    # A fifth of fewer than ten bounds is one or none: nothing to judge by.
    if len(known) < 10:
        return 0.0, ""
    (before, stderr_before), (after, stderr_after) = known[-1 - len(known) // 5], known[-1]
    return after - before - 2 * math.hypot(stderr_before, stderr_after), "the last fifth"


def last(history: History, name: str) -> Any:
    """Returns the last value of a column that is not taken at every record; None if there is none."""
    known = [value for value in history.get(name, []) if value is not None]
    return known[-1] if known else None


def total(history: History, name: str) -> float:
    """Returns the sum over all updates of a column that holds means per update."""
    steps = [0, *history.get("step", [])]
    sizes = [b - a for a, b in zip(steps[:-1], steps[1:], strict=True)]
    return float(sum(n * v for n, v in zip(sizes, history.get(name, []), strict=True)))
