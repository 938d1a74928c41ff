"""Progress on the terminal; nothing else in the library prints."""

import abc
import contextlib
import textwrap
import time
from collections.abc import Callable, Iterator
from typing import Any

from uivi.evaluation.check import Check

DONE = "done"
"""The phase after the last one."""
STOPPED = "stopped"
"""The phase after the last one of a fit that ended before its last update."""
UPDATES = "updates"
"""The phase of the updates of a fit without rounds. The seconds of rounds are counted under this name too."""
CHECKING = "checking"
"""The phase of the check at the end. The seconds of looks at the ends of rounds are counted with it."""
LOOKING = f"{CHECKING} round "
"""What the phase of a look at the end of a round begins with."""
ROOM = 108
"""Columns behind the label from which the bar is long and has a rate."""
LITTLE_ROOM = 75
"""Columns behind the label below which there is no bar, only its numbers."""


class AbstractReporter(abc.ABC):
    """Hears of every phase of a fit, and of every chunk of updates."""

    @abc.abstractmethod
    def phase(self, name: str) -> None:
        """Reports that a phase begins, such as a search, a compilation or a round of updates."""

    @abc.abstractmethod
    def update(self, step: int, total: int, rate: float, bound: str) -> None:
        """Reports `step` of at most `total` updates, at `rate` updates per second, with a readable bound."""


class Silent(AbstractReporter):
    """Shows nothing."""

    def phase(self, name: str) -> None:
        """Ignores the report."""
        del name

    def update(self, step: int, total: int, rate: float, bound: str) -> None:
        """Ignores the report."""
        del step, total, rate, bound


class Lines(AbstractReporter):
    """One line for each phase, with the seconds so far: for a file or a pipe, where a bar cannot be redrawn."""

    def __init__(self, stream: Any, label: str = "", clock: Callable[[], float] = time.monotonic):
        """Starts to count the seconds. The stream is a text file."""
        self._stream, self._label, self._clock = stream, label, clock
        self._began, self._bound, self._last = clock(), "", ""

    def phase(self, name: str) -> None:
        """Writes the line, unless the phase goes on."""
        if name == self._last:
            return
        self._last = name
        words = f"{_titled(self._label, name)}" + (f"  ({self._bound})" if self._bound else "")
        print(f"{self._clock() - self._began:8.1f} s  {words}", file=self._stream, flush=True)

    def update(self, step: int, total: int, rate: float, bound: str) -> None:
        """Keeps the bound for the next line."""
        del step, total, rate
        self._bound = bound


class Bar(AbstractReporter):
    """A Rich progress bar with rate, time and a bound. It moves and counts seconds in every phase."""

    def __init__(self, progress: Any, task: Any, label: str):
        """Wraps a running Rich task."""
        self._progress, self._task, self._label, self._step = progress, task, label, 0

    def phase(self, name: str) -> None:
        """Names the phase. The bar pulses until the first update, and keeps its numbers afterwards."""
        # A fit may need fewer updates than it could have had: it is done all the same.
        done = {"total": self._step, "count": f"{self._step:,} updates", "rate": ""}
        end = done if name in (DONE, STOPPED) and self._step else {}
        self._progress.update(self._task, description=_titled(self._label, name), **end)

    def update(self, step: int, total: int, rate: float, bound: str) -> None:
        """Redraws the bar."""
        self._step = step
        whole = f"{total:,}"
        # As wide as it will be: a longer count would shorten the bar, which then seems to jump back.
        numbers = {"count": f"{step:>{len(whole)},}/{whole}", "rate": f"{rate:,.0f} updates/s", "bound": bound}
        self._progress.update(self._task, completed=step, total=total, **numbers)


class Timed(AbstractReporter):
    """Counts the seconds of every phase and passes all reports on.

    Attributes:
        seconds: the seconds of each phase so far. Their sum is the time since the beginning, up to the last
            report of a phase. All rounds count as `UPDATES`, the looks at their ends as `CHECKING`.
    """

    def __init__(self, inner: AbstractReporter, began: float, clock: Callable[[], float] = time.monotonic):
        """Counts from `began`, a reading of the clock."""
        self._inner, self._clock, self._since = inner, clock, began
        self._part = ""
        self.seconds: dict[str, float] = {}

    def phase(self, name: str) -> None:
        """Ends the phase that went on."""
        now = self._clock()
        # What comes before the first phase is short, and belongs to it.
        if self._part:
            self.seconds[self._part] = self.seconds.get(self._part, 0.0) + now - self._since
            self._since = now
        self._part = _part(name)
        self._inner.phase(name)

    def update(self, step: int, total: int, rate: float, bound: str) -> None:
        """Passes the report on."""
        self._inner.update(step, total, rate, bound)


@contextlib.contextmanager
def reporter(progress: object, *, label: str = "") -> Iterator[AbstractReporter]:
    """Shows a bar on standard error while the context lasts, lines if that is no terminal, or nothing.

    Args:
        progress: whether to show anything, or a reporter to use in its place.
        label: what comes before the name of each phase.
    """
    if isinstance(progress, AbstractReporter):
        yield progress
        return
    if not progress:
        yield Silent()
        return
    # Imported here, so that `import uivi` does not wait for it.
    from rich.console import Console

    console = Console(stderr=True)
    # Rich's own answer depends on FORCE_COLOR, which makes no terminal of a file.
    if console.is_dumb_terminal or not console.file.isatty():
        yield Lines(console.file, label)
        return
    from rich.progress import BarColumn, Progress, TextColumn

    # A label is the user's text, and may look like Rich's markup.
    plain = lambda text: TextColumn(text, markup=False)
    room = console.width - len(_titled(label, ""))
    columns = (
        plain("{task.description}"),
        *((BarColumn(bar_width=24 if room >= ROOM else 8),) if room >= LITTLE_ROOM else ()),
        plain("{task.fields[count]}"),
        *((plain("{task.fields[rate]}"),) if room >= ROOM else ()),
        # Rich's own clock stops when the bar is full, but the check comes after the last update.
        plain("{task.elapsed:,.0f} s"),
        plain("{task.fields[bound]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(_titled(label, "starting"), total=None, count="", rate="", bound="")
        yield Bar(bar, task, label)


def print_verdict(check: Check) -> None:
    """Prints verdict and advice on standard error, folded to the width of the terminal."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    console.print(f"[bold]verdict: {check.verdict}[/bold]; print(posterior) shows the variables")
    for words in check.advice:
        folded = textwrap.fill(words, console.width, initial_indent="  - ", subsequent_indent="    ")
        console.print(folded, markup=False, soft_wrap=True)


def _part(name: str) -> str:
    """Returns the name under which the seconds of a phase are counted."""
    if name.startswith(LOOKING):
        return CHECKING
    return UPDATES if name.startswith("round ") else name


def _titled(label: str, name: str) -> str:
    return f"{label}: {name}" if label else name
