"""The type that describes one section of the report."""

import dataclasses
from collections.abc import Callable

from uivi.paper.report.columns import Column
from uivi.paper.results import Result


@dataclasses.dataclass(frozen=True, kw_only=True)
class Section:
    """One section of the report: what it shows of the results of one kind of experiment.

    Attributes:
        title: heading of the section.
        columns: columns of its table, on the page and on the terminal.
        body: makes the HTML below the heading.
        summary: describes one result in one line.
        deviations: where the preset `paper` differs from the paper.
    """

    title: str
    columns: tuple[Column, ...]
    body: Callable[[list[Result]], str]
    summary: Callable[[Result], str]
    deviations: tuple[str, ...]
