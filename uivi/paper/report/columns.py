"""What a kind of experiment gives to the report."""

import dataclasses
from collections.abc import Callable

from uivi.paper import results as reading
from uivi.paper.results import Result, median

LARGE = 1e9
"""From here on a number has failed, and its digits say nothing."""


def _never(result: Result) -> bool:
    del result
    return False


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        header: names the side where the value is a bound.
        cell: the text for one result.
        on_terminal: whether there is room for it there, after the name of the run.
        flagged: whether the cell of one result is highlighted.
    """

    header: str
    cell: Callable[[Result], str]
    on_terminal: bool = False
    flagged: Callable[[Result], bool] = _never


@dataclasses.dataclass(frozen=True)
class Section:
    """One part of the page.

    Attributes:
        title: its heading.
        columns: of its table, on the page and on the terminal.
        body: the HTML below the heading.
        summary: what one run gave, for one line.
        deviations: where the preset `paper` differs from the paper.
    """

    title: str
    columns: tuple[Column, ...]
    body: Callable[[list[Result]], str]
    summary: Callable[[Result], str]
    deviations: tuple[str, ...]


def number(value: float | int | None, digits: int) -> str:
    """Fixed digits, an exponent where they would fill the line, or a dash."""
    if value is None:
        return "–"
    text = f"{value:.3g}" if abs(value) >= LARGE else f"{value:,.{digits}f}"
    return text.replace("-", "−")


def plus_minus(value: float | int | None, stderr: float | int | None, digits: int) -> str:
    """With its standard error where known."""
    if value is None or stderr is None:
        return number(value, digits)
    return f"{number(value, digits)} ± {number(stderr, digits)}"


def bound(result: Result, digits: int, *path: str) -> str:
    """The mean under `path` and its standard error, medians over the seeds."""
    return plus_minus(median(result, *path, "mean"), median(result, *path, "stderr"), digits)


def value_column(header: str, digits: int, *path: str, on_terminal: bool = False) -> Column:
    """A number of every seed, the median of them."""
    return Column(header, lambda result: number(median(result, *path), digits), on_terminal)


def bound_column(header: str, digits: int, *path: str, on_terminal: bool = False) -> Column:
    """A bound with its standard error."""
    return Column(header, lambda result: bound(result, digits, *path), on_terminal)


def _milliseconds(result: Result) -> str:
    seconds = reading.seconds_per_update(result)
    return number(None if seconds is None else 1e3 * seconds, 3)


def which(what: str) -> tuple[Column, ...]:
    """The columns that say which run it is; `what` was fitted."""
    return (
        Column(what, lambda result: result["title"]),
        Column("preset", reading.preset),
        Column("method", lambda result: result["config"]["method"]),
    )


COST = (
    Column("seeds", lambda result: str(len(result["config"]["seeds"]))),
    Column("updates", lambda result: f"{result['config']['num_steps']:,}"),
    Column("ms per update", _milliseconds),
    Column("s per fit, compilation included", lambda result: number(result["seconds_per_fit"], 1)),
)
