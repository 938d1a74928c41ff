"""Ctrl-C where there are no updates to end: while a start is searched for, and while a fit is judged."""

import os
import signal
import traceback

import jax
import pytest

import uivi
from tests.tiny import explicit_settings, log_density
from uivi.evaluation import verdict
from uivi.training import progress
from uivi.training.interrupts import deferred_interrupts, explained_interrupts
from uivi.training.progress import AbstractReporter


class PressedAt(AbstractReporter):
    """Presses Ctrl-C when a phase begins."""

    def __init__(self, name):
        self.name, self.last = name, ""

    def phase(self, name):
        self.last = name
        if name == self.name:
            os.kill(os.getpid(), signal.SIGINT)

    def update(self, step, total, rate, bound):
        del step, total, rate, bound


@pytest.fixture(autouse=True)
def _usual_handler():
    """A suite started in the background of a shell ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def fit(**changes):
    return uivi.fit(log_density, 2, key=jax.random.key(0), **(explicit_settings() | changes))


@pytest.mark.parametrize("phase", ["searching for a start", "compiling"])
def test_before_the_first_update(phase, tmp_path):
    changes = {"family": None, "estimator": None} if phase.startswith("searching") else {}
    for directory, left in ((None, "nothing of it is kept"), (tmp_path, f"if any, are in {tmp_path}")):
        with pytest.raises(KeyboardInterrupt, match="interrupted before it had a result: ") as caught:
            fit(progress=PressedAt(phase), checkpoint=directory, **changes)
        assert left in str(caught.value)
        # No frame of a library: what the user sees ends in our words.
        shown = "".join(traceback.format_exception(caught.value))
        assert not any(f"{os.sep}{library}{os.sep}" in shown for library in ("jax", "equinox", "numpy"))


@pytest.mark.usefixtures("quiet_threads")
def test_without_a_checkpoint_none_is_spoken_of_as_there():
    class Reporter(PressedAt):
        def update(self, step, total, rate, bound):
            if step == 7:
                signal.raise_signal(signal.SIGINT)

    with pytest.warns(UserWarning, match="after 7 of at most 20 updates: another call of fit starts anew"):
        posterior = fit(progress=(told := Reporter(None)))
    assert told.last == progress.STOPPED
    assert posterior.status is uivi.Status.INTERRUPTED
    assert posterior.history["step"][-1] == 7


@pytest.mark.usefixtures("quiet_threads")
def test_a_check_that_is_interrupted_costs_no_posterior(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(verdict, "judge", interrupted)
        with pytest.warns(UserWarning, match="the check was interrupted: call posterior.check()"):
            posterior = fit(check=True)
    assert posterior.status is uivi.Status.DONE
    assert posterior.check().lower.num_draws > 0


def test_other_errors_pass_as_they_are():
    with pytest.raises(ZeroDivisionError), explained_interrupts():
        raise ZeroDivisionError


def test_other_threads_have_no_handler():
    with deferred_interrupts() as stop:
        assert not stop.is_set()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
