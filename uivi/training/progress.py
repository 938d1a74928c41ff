"""Progress on the terminal; nothing else in the library prints."""

import abc
import contextlib
from collections.abc import Iterator
from typing import Any

from uivi.evaluation.check import Check


class AbstractReporter(abc.ABC):
    """Hears of every phase of a fit, and of every chunk of updates."""

    @abc.abstractmethod
    def phase(self, name: str) -> None:
        """Reports that something without a known end begins, such as a search or a compilation."""

    @abc.abstractmethod
    def update(self, step: int, total: int, rate: float, bound: str) -> None:
        """Reports `step` of `total` updates, at `rate` updates per second, with a readable bound."""


class Silent(AbstractReporter):
    """Shows nothing."""

    def phase(self, name: str) -> None:
        """Ignores the report."""
        del name

    def update(self, step: int, total: int, rate: float, bound: str) -> None:
        """Ignores the report."""
        del step, total, rate, bound


class Bar(AbstractReporter):
    """A Rich progress bar with rate, time and a bound. It moves and counts seconds in every phase."""

    def __init__(self, progress: Any, task: Any, label: str):
        """Wraps a running Rich task."""
        self._progress, self._task, self._label = progress, task, label

    def phase(self, name: str) -> None:
        """Names the phase. The bar pulses until the first update, and keeps its numbers afterwards."""
        self._progress.update(self._task, description=name)

    def update(self, step: int, total: int, rate: float, bound: str) -> None:
        """Redraws the bar."""
        numbers = {"count": f"{step:,}/{total:,}", "rate": f"{rate:,.0f} updates/s", "bound": bound}
        self._progress.update(self._task, description=self._label, completed=step, total=total, **numbers)


@contextlib.contextmanager
def reporter(progress: object, *, label: str = "fitting") -> Iterator[AbstractReporter]:
    """Shows a bar on standard error while the context lasts, or nothing.

    Args:
        progress: whether to show the bar, or a reporter to use in its place.
        label: what the bar calls the updates.
    """
    if isinstance(progress, AbstractReporter):
        yield progress
        return
    if not progress:
        yield Silent()
        return
    # Imported here, so that `import uivi` does not wait for it.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[count]}"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[bound]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(f"{label}: compiling", total=None, count="", rate="", bound="")
        yield Bar(bar, task, label)


def print_verdict(check: Check) -> None:
    """Prints verdict and advice on standard error."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    console.print(f"[bold]verdict: {check.verdict}[/bold]; posterior.check() has the numbers")
    for words in check.advice:
        console.print(f"  - {words}", markup=False)
