"""Says what a command is doing, so that it is never silent for long."""

import contextlib
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Busy:
    """Names what goes on, on standard error: beside a clock on a terminal, in a line of its own elsewhere."""

    def __init__(self, printed: Console, said: Console, *, quiet: bool):
        """Starts with nothing to say.

        Args:
            printed: console of what the command is asked for.
            said: console of what goes on.
            quiet: whether to say nothing.
        """
        self._printed, self._said, self._quiet = printed, said, quiet
        self._clock: Progress | None = None

    def note(self, words: str) -> None:
        """Says what goes on from now, without a clock."""
        self.rest()
        if not self._quiet:
            print(words, file=self._said.file, flush=True)

    def phase(self, words: str) -> None:
        """Says what goes on from now, with a clock on a terminal."""
        if self._quiet or self._said.is_dumb_terminal or not self._said.file.isatty():
            self.note(words)
            return
        self.rest()
        # Standard output may go to a file, which Rich's redirection would empty into the terminal.
        columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
        self._clock = Progress(
            *columns, console=self._said, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._clock.add_task(words, total=None)
        self._clock.start()

    def print(self, shown: Any) -> None:
        """Prints a part of what the command is asked for. The clock goes on below it."""
        if self._clock is None:
            self._printed.print(shown)
            return
        self._clock.stop()
        self._printed.print(shown)
        self._clock.start()

    def rest(self) -> None:
        """Removes the clock: the phase is over."""
        if self._clock is not None:
            self._clock.stop()
            self._clock = None


@contextlib.contextmanager
def busy(printed: Console, *, quiet: bool = False) -> Iterator[Busy]:
    """Gives a `Busy` that is at rest after the context, also after an error."""
    says = Busy(printed, Console(stderr=True), quiet=quiet)
    try:
        yield says
    finally:
        says.rest()
