"""The progress bar, and the lines in its place where there is no terminal."""

import dataclasses
import io
import re
import sys

import jax
import pytest

import uivi
from tests.evaluation.examples import GOOD
from tests.tiny import explicit_settings, implicit_settings, log_density
from uivi.training import progress
from uivi.training.rounds import Rounds


class Terminal(io.StringIO):
    """A standard error that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def opened(monkeypatch):
    """Returns a function that opens a terminal: pytest sets standard error anew after the fixtures."""
    return lambda: opened_terminal(monkeypatch)


def opened_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def test_the_bar_shows_phase_steps_rate_and_bound(capsys, opened):
    terminal = opened()
    with progress.reporter(True, label="banana [/]") as shown:
        shown.phase("searching for a start")
        shown.phase("round 1 of at most 4")
        shown.update(1_000, 2_000, 1234.5, "ELBO -1.234 ± 0.010")
        shown.update(2_000, 2_000, 1234.5, "ELBO -1.200 ± 0.010")
    assert capsys.readouterr().out == ""
    text = " ".join(terminal.getvalue().split())
    for words in ("banana [/]: round 1 of at most 4", "2,000/2,000", "1,234 updates/s", "-1.200 ± 0.010"):
        assert words in text


def last_line(terminal):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue()).splitlines()[-1].rpartition("\r")[2]


@pytest.mark.parametrize(
    ("columns", "label", "bar", "has_rate"),
    [(80, "", 8, False), (80, "banana", 0, False), (108, "", 24, True), (108, "banana", 8, False)],
)
def test_nothing_is_cut_on_a_terminal_of_80_columns(columns, label, bar, has_rate, opened, monkeypatch):
    terminal = opened()
    monkeypatch.setenv("COLUMNS", str(columns))
    with progress.reporter(True, label=label) as shown:
        shown.phase("round 2 of at most 4")
        shown.update(12_000, 22_500, 1234.5, "ELBO -31.825 ± 0.003")
    line = last_line(terminal)
    assert "…" not in line
    assert len(re.findall("[━╸╺]", line)) == bar
    assert ("updates/s" in line) == has_rate
    assert "12,000/22,500 " in line
    assert line.endswith(" 0 s ELBO -31.825 ± 0.003")


def test_the_bar_does_not_shrink_with_the_count(opened):
    terminal = opened()
    with progress.reporter(True) as shown:
        places = []
        for step in (900, 9_900, 10_000):
            shown.update(step, 22_500, 1.0, "")
            shown._progress.refresh()
            places.append(last_line(terminal).find("/22,500"))
    assert len(set(places)) == 1


def test_the_clock_goes_on_after_the_last_update(opened):
    """The check of a fit, and the evaluation of a run, come after it."""
    terminal = opened()
    with progress.reporter(True) as shown:
        shown.update(10, 10, 1.0, "")
        shown._progress.tasks[0].start_time -= 65
        shown.phase("checking")
    assert " 65 s" in last_line(terminal)


def test_the_verdict_is_folded_under_its_bullets(opened, monkeypatch):
    terminal = opened()
    monkeypatch.setenv("COLUMNS", "40")
    advice = ("a word " * 12 + "[/]", "short")
    progress.print_verdict(dataclasses.replace(GOOD, verdict=uivi.Verdict.CARE, advice=advice))
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue()).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  - "))
    assert lines[0].startswith("verdict: use with care")
    assert [line[:4] for line in lines[start:]] == ["  - ", "    ", "    ", "  - "]
    assert max(map(len, lines)) <= 40
    assert lines[-2].endswith("[/]")


def test_the_bar_names_a_phase_before_the_first_report(opened):
    terminal = opened()
    with progress.reporter(True):
        pass
    assert "starting" in terminal.getvalue()


def test_the_bar_is_full_when_the_fit_is_done_early(opened):
    opened()
    with progress.reporter(True) as shown:
        shown.update(1_500, 22_500, 100.0, "")
        assert "1,500/22,500" in shown._progress.tasks[0].fields["count"]
        shown.phase(progress.DONE)
        (task,) = shown._progress.tasks
        assert (task.completed, task.total, task.description) == (1_500, 1_500, "done")
        assert (task.fields["count"], task.fields["rate"]) == ("1,500 updates", "")


def test_the_bar_goes_away_with_an_error(opened):
    terminal = opened()
    with pytest.raises(KeyError), progress.reporter(True):
        raise KeyError
    with progress.reporter(True) as shown:
        shown.update(10, 10, 1.0, "")
    assert "10/10" in terminal.getvalue()


@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
def test_off_a_terminal_there_is_one_line_a_phase(kind, monkeypatch):
    """A dumb terminal counts as none."""
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(sys, "stderr", kind())
    with progress.reporter(True, label="banana") as shown:
        shown.phase("compiling")
        shown.phase("compiling")
        shown.phase("round 1 of at most 4")
        shown.update(1_000, 2_000, 1234.5, "ELBO -1.234 ± 0.010")
        shown.phase("round 2 of at most 4")
    written = sys.stderr.getvalue()
    assert [re.sub(r"^ +\d+\.\d s  ", "", line) for line in written.splitlines()] == [
        "banana: compiling",
        "banana: round 1 of at most 4",
        "banana: round 2 of at most 4  (ELBO -1.234 ± 0.010)",
    ]
    assert written.replace("\n", "").isprintable()


def test_silent_means_silent(capsys):
    with progress.reporter(False) as shown:
        shown.phase("compiling")
        shown.update(10, 10, 1.0, "bound")
    assert capsys.readouterr() == ("", "")


def test_a_reporter_of_ones_own_is_used_as_it_is():
    own = progress.Silent()
    with progress.reporter(own) as shown:
        assert shown is own


def test_a_reporter_must_say_how_to_update():
    with pytest.raises(TypeError, match="abstract"):
        progress.AbstractReporter()


def test_the_seconds_of_all_phases_are_the_wait():
    times = iter([1.0, 3.0, 7.0, 7.5, 8.0, 16.0, 18.0])
    timed = progress.Timed(progress.Silent(), 0.5, clock=lambda: next(times))
    first, second = "round 1 of at most 2", "round 2 of at most 2"
    for name in ("reading", first, "checking round 1", "compiling", second, "checking", progress.DONE):
        timed.phase(name)
        timed.update(1, 2, 1.0, "")
    assert timed.seconds == {"reading": 2.5, progress.UPDATES: 12.0, "checking": 2.5, "compiling": 0.5}
    assert sum(timed.seconds.values()) == 17.5


class Told(progress.AbstractReporter):
    """Remembers all it was told."""

    def __init__(self):
        self.phases, self.totals, self.steps = [], [], {}

    def phase(self, name):
        self.phases.append(name)

    def update(self, step, total, rate, bound):
        self.totals.append(total)
        self.steps.setdefault(self.phases[-1], []).append(step)


def test_a_fit_names_its_phases_and_counts_their_seconds():
    told = Told()
    rounds = Rounds(first=4, number=2, gain=-1e9, good_gain=-1e9)
    settings = implicit_settings() | {"num_steps": rounds, "progress": told, "check": True}
    posterior = uivi.fit(log_density, 2, key=jax.random.key(0), **settings)
    assert told.phases == [
        "reading the model", "compiling", "round 1 of at most 2", "checking round 1", "round 2 of at most 2",
        "checking round 2", "checking", "done",
    ]  # fmt: skip
    assert set(told.totals) == {12}  # the bar never jumps backwards
    assert told.steps["round 1 of at most 2"][-1] == 4  # the last update is there before the look at the round
    assert list(posterior.phases) == ["reading the model", "compiling", "updates", "checking"]
    assert posterior.phases["updates"] >= posterior.seconds > 0


def test_a_fit_without_rounds_has_one_phase_of_updates(tmp_path):
    told = Told()
    posterior = uivi.fit(log_density, 2, key=jax.random.key(0), **explicit_settings() | {"progress": told})
    assert told.phases == ["reading the model", "compiling", "updates", "done"]
    posterior.save(tmp_path / "fit")
    assert uivi.load(tmp_path / "fit").phases == posterior.phases
