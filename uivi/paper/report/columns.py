"""Columns of the tables, and how they format numbers."""

import dataclasses
from collections.abc import Callable
from typing import Literal

from uivi.paper import results as reading
from uivi.paper.results import Result, median

LARGE = 1e9
"""A fit that diverged gives numbers beyond this. Their digits mean nothing, so an exponent replaces them."""


def _never(result: Result) -> bool:
    del result
    return False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table.

    Attributes:
        header: text of the header; for a bound it names the side.
        cell: returns the text of the cell for one result.
        on_terminal: whether the column is also shown on the terminal, where space is short.
        kind: what the page does with it: numbers are aligned on the right, `text` on the left, and the text of
            a `text name` stays in sight while the others scroll.
        flagged: returns whether to highlight the cell of one result.
    """

    header: str
    cell: Callable[[Result], str]
    on_terminal: bool = False
    kind: Literal["", "text", "text name"] = ""
    flagged: Callable[[Result], bool] = _never


def number(value: float | int | None, digits: int) -> str:
    """Formats a number with `digits` decimals, a huge one with an exponent, and None as a dash."""
    if value is None:
        return "–"
    text = f"{value:.3g}" if abs(value) >= LARGE else f"{value:,.{digits}f}"
    return text.replace("-", "−")


def plus_minus(value: float | int | None, stderr: float | int | None, digits: int) -> str:
    """Formats a number with its standard error, if that is known."""
    if value is None or stderr is None:
        return number(value, digits)
    return f"{number(value, digits)} ± {number(stderr, digits)}"


def bound(result: Result, digits: int, *path: str) -> str:
    """Formats the mean under `path` with its standard error. Both are medians over the seeds."""
    return plus_minus(median(result, *path, "mean"), median(result, *path, "stderr"), digits)


def value_column(header: str, digits: int, *path: str, on_terminal: bool = False) -> Column:
    """Returns a column with the median over the seeds of the number under `path`."""
    return Column(
        header=header, cell=lambda result: number(median(result, *path), digits), on_terminal=on_terminal
    )


def bound_column(header: str, digits: int, *path: str, on_terminal: bool = False) -> Column:
    """Returns a column with the bound under `path` and its standard error."""
    return Column(header=header, cell=lambda result: bound(result, digits, *path), on_terminal=on_terminal)


def _milliseconds(result: Result) -> str:
    seconds = reading.seconds_per_update(result)
    return number(None if seconds is None else 1e3 * seconds, 3)


def run_columns(subject: str) -> tuple[Column, ...]:
    """Returns the columns that identify a run. `subject` heads the first one: a data set or a target."""
    return (
        Column(header=subject, kind="text", cell=lambda result: result["title"]),
        Column(header="preset", kind="text", cell=reading.preset_label),
        Column(header="method", kind="text name", cell=lambda result: result["config"]["method"]),
    )


COST = (
    Column(header="seeds", cell=lambda result: str(len(result["config"]["seeds"]))),
    Column(header="updates", cell=lambda result: f"{result['config']['num_steps']:,}"),
    Column(header="ms per update", cell=_milliseconds),
    Column(header="s per fit, compilation included", cell=lambda result: number(result["seconds_per_fit"], 1)),
)
