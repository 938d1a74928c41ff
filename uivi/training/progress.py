"""Progress on the terminal; nothing else in the library prints."""

import abc
import contextlib
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from uivi.evaluation.check import Check


class AbstractReporter(abc.ABC):
    """Hears of every chunk of updates."""

    @abc.abstractmethod
    def update(self, step: int, total: int, rate: float, bound: str) -> None:
        """Reports `step` of `total` updates, at `rate` updates per second, with a readable bound."""


class Silent(AbstractReporter):
    """Shows nothing."""

    def update(self, step: int, total: int, rate: float, bound: str) -> None:
        """Ignores the report."""
        del step, total, rate, bound


class Bar(AbstractReporter):
    """A Rich progress bar with rate, time left and a bound."""

    def __init__(self, progress: Progress, task):
        """Wraps a running Rich task."""
        self._progress, self._task = progress, task

    def update(self, step: int, total: int, rate: float, bound: str) -> None:
        """Redraws the bar."""
        self._progress.update(
            self._task, completed=step, total=total, rate=f"{rate:,.0f} updates/s", bound=bound
        )


@contextlib.contextmanager
def reporter(num_steps: int, *, show: bool, label: str = "fitting") -> Iterator[AbstractReporter]:
    """Shows a bar on standard error while the context lasts, or nothing."""
    if not show:
        yield Silent()
        return
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[bound]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield Bar(progress, progress.add_task(label, total=num_steps, rate="compiling", bound=""))


def print_verdict(check: Check) -> None:
    """Prints verdict and advice on standard error."""
    console = Console(stderr=True, highlight=False)
    console.print(f"[bold]verdict: {check.verdict}[/bold]; posterior.check() has the numbers")
    for words in check.advice:
        console.print(f"  - {words}", markup=False)
