"""Progress on the terminal; nothing else in the library prints."""

import contextlib
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from uivi.evaluation.verdict import Check


class Reporter:
    """Told of every chunk of updates."""

    def update(self, step: int, total: int, rate: float, bound: str) -> None:
        """Show `step` of `total` updates done, `rate` updates a second, and a bound in words."""
        raise NotImplementedError


class Silent(Reporter):
    """Shows nothing."""

    def update(self, step: int, total: int, rate: float, bound: str) -> None:
        """Ignore."""
        del step, total, rate, bound


class Bar(Reporter):
    """A Rich progress bar with rate, time left and a bound."""

    def __init__(self, progress: Progress, task):
        """Wrap a running Rich task."""
        self._progress, self._task = progress, task

    def update(self, step: int, total: int, rate: float, bound: str) -> None:
        """Redraw."""
        self._progress.update(
            self._task, completed=step, total=total, rate=f"{rate:,.0f} updates/s", bound=bound
        )


@contextlib.contextmanager
def reporter(num_steps: int, *, show: bool, label: str = "fitting") -> Iterator[Reporter]:
    """A bar on standard error for as long as the context lasts, or a silent one."""
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


def tell_verdict(found: Check) -> None:
    """Print verdict and advice on standard error."""
    console = Console(stderr=True, highlight=False)
    console.print(f"[bold]verdict: {found.verdict}[/bold]; posterior.check() has the numbers")
    for words in found.advice:
        console.print(f"  - {words}", markup=False)
