"""The driver: history, one trace, interrupts, statuses, resuming."""

import contextlib
import errno
import re
import signal
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import uivi
from tests.tiny import explicit_settings, log_density
from uivi import _types
from uivi.fitting.fit import default_monitors
from uivi.storage import archive
from uivi.storage.checkpoints import Checkpoints
from uivi.targets import Density
from uivi.training import driver
from uivi.training.progress import AbstractReporter, Silent
from uivi.training.update import Method, initial_state, run_updates, stack_states

METHOD = Method(uivi.Explicit(num_draws=4), optax.adam(0.05))


def make_state(seed=0, density=log_density):
    family = uivi.ExplicitGaussian.create(2)
    return initial_state(jax.random.key(seed), METHOD, family, Density(density, 2))


def run(state, num_steps, **kwargs):
    return driver.drive(METHOD, state, num_steps, reporter=kwargs.pop("reporter", Silent()), **kwargs)


def monitored(state, num_steps, **kwargs):
    """With the ELBO, as `uivi.fit` does it."""
    return run(state, num_steps, monitors=default_monitors(state.family, state.target, num_steps), **kwargs)


def values(state):
    leaves = jax.tree.leaves((state.family, state.opt_state, state.step))
    return [np.asarray(x).tobytes() for x in leaves]


class Interrupter(AbstractReporter):
    """Presses Ctrl-C, `times` times, when `step` is done; remembers all it was told."""

    def __init__(self, step, times=1):
        self.step, self.times, self.told = step, times, []

    def phase(self, name):
        del name

    def update(self, step, total, rate, bound):
        self.told.append((step, rate, bound))
        if step == self.step:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)


def test_history_has_full_columns():
    driven = monitored(make_state(), 50)
    assert driven.status == [_types.Status.DONE]
    columns = {
        "step",
        "round",
        "effort",
        *uivi.estimators.Info._fields,
        "skipped",
        "seconds",
        "elbo_lower",
        "elbo_lower_stderr",
        "bracket",
        "recovered",
    }
    assert driven.history.keys() == columns
    assert {len(c) for c in driven.history.values()} == {50}
    assert driven.history["step"] == list(range(1, 51))
    assert [i + 1 for i, b in enumerate(driven.history["elbo_lower"]) if b is not None] == [10, 20, 30, 40, 50]
    assert np.all(np.diff(driven.history["seconds"]) > 0)
    assert driven.seconds == driven.history["seconds"][-1]


def test_without_monitors_there_is_no_bound():
    reporter = Interrupter(None)
    driven = run(make_state(), 3, reporter=reporter)
    assert driven.history.keys() == {
        "step",
        "round",
        "effort",
        *uivi.estimators.Info._fields,
        "skipped",
        "seconds",
    }
    assert {bound for *_, bound in reporter.told} == {""}
    assert driven.best is None
    assert driven.chosen is driven.state


def test_long_runs_keep_two_hundred_records():
    driven = monitored(make_state(), 1_001)
    assert driven.history["step"] == [*range(5, 1_001, 5), 1_001]
    assert len([b for b in driven.history["elbo_lower"] if b is not None]) == 21
    assert driven.history["elbo_lower"][-1] is not None


def test_the_reporter_hears_of_every_chunk():
    reporter = Interrupter(None)
    monitored(make_state(), 40, reporter=reporter)
    steps, rates, bounds = zip(*reporter.told, strict=True)
    # Before a look it hears that the updates are done, after it of the bound.
    assert steps == tuple(sorted([*range(1, 41), 10, 20, 30, 40]))
    assert min(rates) > 0
    assert bounds[:10] == ("",) * 10
    assert all(re.fullmatch(r"ELBO -?\d+\.\d{3} ± \d+\.\d{3}", b) for b in bounds[10:])
    assert len(set(bounds[10:])) == 4


def test_one_trace_serves_all_chunks():
    """The log density is Python code: it runs when JAX traces, and only then."""
    traces = []

    def counted(z):
        traces.append(z)
        return log_density(z)

    state = make_state(density=counted)
    state = run(state, 10).state
    first = len(traces)
    state = run(state, 60).state
    assert len(traces) == first
    assert first <= 6


def test_updates_do_not_depend_on_the_chunks():
    """The same total in chunks of 1, of 5 and of 5 after a first part of 3."""
    plain = make_state()
    for _ in range(1_000):
        plain, _ = run_updates(METHOD, plain, 1)
    chunked = run(make_state(), 1_000).state
    started, _ = run_updates(METHOD, make_state(), 3)
    assert values(plain) == values(chunked) == values(run(started, 1_000).state)


def test_an_interrupt_ends_after_the_chunk_and_resumes_to_the_same_bits(tmp_path):
    whole = monitored(make_state(), 60)
    reporter = Interrupter(17)
    checkpoints = Checkpoints(tmp_path, "f")
    before = signal.getsignal(signal.SIGINT)
    driven = monitored(make_state(), 60, reporter=reporter, checkpoints=checkpoints)
    assert signal.getsignal(signal.SIGINT) is before
    assert driven.status == [_types.Status.INTERRUPTED]
    assert driven.history["step"][-1] == 17
    assert [p.name for p in tmp_path.glob("*.ckpt")] == ["step-0000000017.ckpt"]
    again = monitored(make_state(), 60, checkpoints=checkpoints)
    assert again.status == [_types.Status.DONE]
    assert values(again.state) == values(whole.state)
    for name in set(whole.history) - {"seconds"}:
        expected = np.array(whole.history[name], float)
        np.testing.assert_array_equal(np.array(again.history[name], float), expected)
    assert again.seconds > driven.seconds


@pytest.mark.usefixtures("quiet_threads")
def test_an_interrupted_fit_gives_a_posterior_and_resumes(tmp_path, monkeypatch):
    fit = lambda directory: uivi.fit(
        log_density, 2, key=jax.random.key(0), checkpoint=directory, **explicit_settings(30)
    )
    whole = fit(tmp_path / "whole")
    with monkeypatch.context() as patch:
        shown = lambda *_, **__: contextlib.nullcontext(Interrupter(12))
        patch.setattr(sys.modules["uivi.fitting.fit"], "reporter", shown)
        with pytest.warns(UserWarning, match="interrupted after 12 of at most 30 updates: call fit again with"):
            broken = fit(tmp_path / "broken")
    assert broken.status is uivi.Status.INTERRUPTED
    assert "the fit was interrupted: if it had a checkpoint=" in broken.summary()
    resumed = fit(tmp_path / "broken")
    assert resumed.history["step"] == whole.history["step"] == list(range(1, 31))
    draws = [np.asarray(p.sample(jax.random.key(1), 20)).tobytes() for p in (whole, resumed, broken)]
    assert draws[0] == draws[1] != draws[2]


def test_a_second_interrupt_is_immediate():
    # A suite started in the background of a shell ignores Ctrl-C: have the usual handler here.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(make_state(), 60, reporter=Interrupter(5, times=2))
    finally:
        signal.signal(signal.SIGINT, before)


def full(*arguments):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.usefixtures("quiet_threads")
def test_a_full_disk_costs_no_update(tmp_path, monkeypatch):
    """One warning that names the place, and the fit ends as if the disk had room."""
    checkpoints = Checkpoints(tmp_path, "f", seconds=0.0)
    with monkeypatch.context() as patch:
        patch.setattr(archive, "write", full)
        with pytest.warns(UserWarning, match="cannot save") as warned:
            driven = run(make_state(), 10, checkpoints=checkpoints)
    words = [str(w.message) for w in warned]
    assert len(words) == 1
    assert re.search(f"cannot save a checkpoint in {tmp_path} .No space left.*continues without", words[0])
    assert driven.status == [_types.Status.DONE]
    assert values(driven.state) == values(run(make_state(), 10).state)


@pytest.mark.usefixtures("quiet_threads")
def test_a_disk_that_has_room_again_gets_the_next_checkpoint(tmp_path, monkeypatch):
    write, calls = archive.write, []

    def sometimes(*arguments):
        calls.append(arguments)
        return full() if len(calls) in (2, 3, 5) else write(*arguments)

    monkeypatch.setattr(archive, "write", sometimes)
    with pytest.warns(UserWarning, match="cannot save") as warned:
        run(make_state(), 10, checkpoints=Checkpoints(tmp_path, "f", seconds=0.0))
    assert len(warned) == 2  # one for each time that the disk was full
    assert sorted(p.name for p in tmp_path.glob("*.ckpt")) == [f"step-{n:010d}.ckpt" for n in (9, 10)]


def cliff(z):
    """Fine at the start, NaN where the fit wants to go."""
    return jnp.where(jnp.sum(z) > 8, jnp.nan, 1.0) * (3 * jnp.sum(z) - 0.01 * jnp.sum(z**2))


@pytest.fixture(scope="module")
def fallen():
    """A fit that walks over the cliff."""
    return run(make_state(density=cliff), 2_000)


def test_nan_on_the_way_stops_with_a_status(fallen):
    assert fallen.status == [_types.Status.NONFINITE]
    assert fallen.history["step"][-1] < 2_000
    assert fallen.history["skipped"][-1] > 0
    assert fallen.history["nonfinite"][-1] > 0
    leaves = jax.tree.leaves((fallen.state.family, fallen.state.opt_state))
    assert all(np.all(np.isfinite(x)) for x in leaves)


def test_a_failed_fit_leaves_no_checkpoint_of_its_failure(tmp_path):
    checkpoints = Checkpoints(tmp_path, "f", seconds=1e9)
    driven = run(make_state(density=cliff), 2_000, checkpoints=checkpoints)
    assert driven.status == [_types.Status.NONFINITE]
    assert not list(tmp_path.glob("*.ckpt"))


def two_states():
    """One near the cliff and one far from it, side by side."""
    near, far = (make_state(seed, cliff) for seed in (0, 1))
    family = uivi.ExplicitGaussian(jnp.array([-50.0, -50.0, -3.0, -3.0]))
    return stack_states([near, initial_state(jax.random.key(1), METHOD, family, far.target)])


@pytest.fixture(scope="module")
def stacked(tmp_path_factory):
    """A stacked run that is done, and its checkpoints."""
    checkpoints = Checkpoints(tmp_path_factory.mktemp("stacked"), "f")
    return run(two_states(), 400, checkpoints=checkpoints), checkpoints


def test_stacked_fits_have_a_status_and_a_history_each(stacked):
    driven, _ = stacked
    assert driven.status == [_types.Status.NONFINITE, _types.Status.DONE]
    assert {len(c) for c in driven.history.values()} == {200}
    assert np.shape(driven.history["log_joint"]) == (200, 2)


def test_stacked_fits_keep_their_status_when_loaded_again(stacked):
    driven, checkpoints = stacked
    assert run(two_states(), 400, checkpoints=checkpoints).status == driven.status


def test_checkpoints_are_saved_on_the_way(tmp_path):
    saved = []

    class Watched(Checkpoints):
        def save(self, state, step, extra):
            super().save(state, step, extra)
            saved.append(step)

    run(make_state(), 30, checkpoints=Watched(tmp_path, "f", seconds=0.0, keep=4))
    assert saved == list(range(1, 31))
    assert len(list(tmp_path.glob("*.ckpt"))) == 4


def test_num_steps_must_be_positive():
    with pytest.raises(ValueError, match="`num_steps` to be a positive whole number, got 0"):
        run(make_state(), 0)
