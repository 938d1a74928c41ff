"""Commands say what goes on: beside a clock on a terminal, in lines elsewhere, and never on standard output."""

import io
import time

import pytest
from rich.console import Console

from uivi.cli.busy import Busy, busy


class Terminal(io.StringIO):
    def isatty(self):
        return True


def make(said, *, quiet=False):
    printed = Console(file=io.StringIO(), markup=False)
    console = Console(file=said, force_terminal=said.isatty(), width=80, _environ={"TERM": "xterm"})
    return Busy(printed, console, quiet=quiet), printed.file


def test_lines_off_a_terminal():
    said = io.StringIO()
    says, printed = make(said)
    says.phase("reading [/] results")
    says.print("a row")
    says.phase("drawing")
    says.rest()
    assert said.getvalue() == "reading [/] results\ndrawing\n"
    assert printed.getvalue() == "a row\n"


def test_a_clock_on_a_terminal():
    said = Terminal()
    says, printed = make(said)
    says.phase("reading [/] results")
    time.sleep(1.2)
    says.print("a row")
    says.rest()
    assert "reading [/] results" in said.getvalue()
    assert "0:00:00" in said.getvalue()
    assert "0:00:01" in said.getvalue()
    assert "a row" not in said.getvalue()
    assert printed.getvalue() == "a row\n"
    length = len(said.getvalue())
    time.sleep(0.3)
    assert len(said.getvalue()) == length, "the clock has stopped"


def test_a_note_has_no_clock():
    said = Terminal()
    says, _ = make(said)
    says.note("downloading")
    assert said.getvalue() == "downloading\n"


def test_quiet():
    said = Terminal()
    says, printed = make(said, quiet=True)
    says.phase("reading")
    says.note("downloading")
    says.print("a row")
    assert (said.getvalue(), printed.getvalue()) == ("", "a row\n")


def test_an_error_stops_the_clock(monkeypatch):
    rested = []
    monkeypatch.setattr(Busy, "rest", lambda self: rested.append(self))
    with pytest.raises(ValueError, match="broken"), busy(Console(file=io.StringIO()), quiet=True) as says:
        raise ValueError("broken")
    assert rested == [says]
