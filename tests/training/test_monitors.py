"""Monitors of a run: when they look, what they see, what is recorded, and the best state."""

import math
import os
import signal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import uivi
from tests.tiny import log_density
from uivi import _types
from uivi.evaluation.look import look
from uivi.fitting.fit import default_monitors, posteriors
from uivi.storage.checkpoints import Checkpoints
from uivi.targets import Density
from uivi.training import driver
from uivi.training.monitors import AbstractMonitor, ElboMonitor
from uivi.training.optimisers import AveragedState, with_average
from uivi.training.progress import AbstractReporter, Silent
from uivi.training.update import (
    Method,
    averaged_state,
    initial_state,
    run_updates,
    stack_states,
    unstack_states,
)

PLAIN = Method(uivi.Explicit(num_draws=2), optax.adam(0.05))
AVERAGED = Method(uivi.Explicit(num_draws=2), with_average(optax.adam(0.05), 0.9))


def make_state(seed=0, method=PLAIN):
    return initial_state(jax.random.key(seed), method, uivi.ExplicitGaussian.create(2), Density(log_density, 2))


def run(state, num_steps, method=PLAIN, reporter=None, **kwargs):
    return driver.drive(method, state, num_steps, reporter=reporter or Silent(), **kwargs)


class Peak(AbstractMonitor):
    """Largest at update number `at`; remembers what it was shown."""

    every: int = eqx.field(static=True)
    at: int = eqx.field(static=True)
    seen: list = eqx.field(static=True, default_factory=list)
    name: str = eqx.field(static=True, default="height")

    def __call__(self, method, state):
        self.seen.append((int(state.step), np.asarray(state.family.encoder)))
        return {self.name: -jnp.abs(state.step - self.at).astype(float)}

    @property
    def steps(self):
        return [step for step, _ in self.seen]


def encoder(state):
    return np.asarray(state.family.encoder)


def encoder_after(num_steps, seed=0):
    return encoder(run_updates(PLAIN, make_state(seed), num_steps)[0])


def present(column):
    """Row number (from 1) and value, where there is one."""
    return {i: value for i, value in enumerate(column, start=1) if value is not None}


def test_monitors_look_when_due_and_at_the_end():
    often, seldom = Peak(4, 0), Peak(6, 0, name="other")
    driven = run(make_state(), 23, monitors=(often, seldom))
    assert often.steps == [4, 8, 12, 16, 20, 23]
    assert seldom.steps == [6, 12, 18, 23]
    assert present(driven.history["height"]) == {n: -float(n) for n in often.steps}
    assert present(driven.history["other"]) == {n: -float(n) for n in seldom.steps}
    assert {len(c) for c in driven.history.values()} == {23}
    assert driven.history["height"][0] is None


def test_monitors_do_not_change_the_fit():
    plain, watched = run(make_state(), 20), run(make_state(), 20, monitors=(Peak(3, 0), ElboMonitor(5)))
    np.testing.assert_array_equal(encoder(plain.state), encoder(watched.state))
    assert plain.history["log_joint"] == watched.history["log_joint"]


@pytest.mark.parametrize(
    ("num_steps", "intervals", "expected"),
    [
        (1_000, (), 5),
        (1_000, (50,), 5),
        (1_000, (7,), 1),
        (2_000, (100, 25), 5),
        (2_000, (8,), 8),
        (40, (20,), 1),
    ],
)
def test_records_are_taken_when_a_monitor_is_due(num_steps, intervals, expected):
    """At most `num_steps / 200` updates between two records, a divisor of every interval."""
    assert driver._chunk(num_steps, [[Peak(every, 0)] for every in intervals]) == expected


def test_a_monitor_between_two_records():
    """1,000 updates: a record every 5 of them, but for a monitor every 8 one every 4."""
    monitor = Peak(8, 0)
    driven = run(make_state(), 1_000, monitors=(monitor,))
    assert driven.history["step"] == list(range(4, 1_001, 4))
    assert monitor.steps == list(range(8, 1_001, 8))


def test_stacked_fits_are_looked_at_one_by_one():
    """A monitor of its own for each, or one for all."""
    own, common = [Peak(5, 1), Peak(5, 100)], Peak(10, 0, name="common")
    driven = run(stack_states([make_state(0), make_state(1)]), 10, monitors=(own, common))
    assert present(driven.history["height"]) == {5: [-4.0, -95.0], 10: [-9.0, -90.0]}
    assert present(driven.history["common"]) == {10: [-10.0, -10.0]}
    assert [m.steps for m in own] == [[5, 10]] * 2
    assert common.steps == [10, 10]
    for lane, state in enumerate(unstack_states(driven.state)):
        np.testing.assert_array_equal(own[lane].seen[-1][1], encoder(state))
        np.testing.assert_array_equal(common.seen[lane][1], encoder(state))
    second = posteriors(driven, jnp.zeros(2))[1]
    assert present(second.history["height"]) == {5: -95.0, 10: -90.0}


def test_a_list_of_monitors_needs_one_for_each_fit():
    with pytest.raises(ValueError, match="zip"):
        run(stack_states([make_state(0), make_state(1)]), 5, monitors=([Peak(5, 1)],))


def test_the_best_state_is_kept():
    driven = run(make_state(), 30, monitors=(Peak(2, 13),), keep_best="height")
    # 12 and 14 are equally near: the first one stays.
    assert driven.best is not None
    assert driven.best.values == [-1.0]
    assert driven.best.state.step == driven.chosen.step == 12
    assert driven.state.step == 30
    np.testing.assert_array_equal(encoder(driven.chosen), encoder_after(12))
    np.testing.assert_array_equal(encoder(driven.state), encoder_after(30))
    posterior = posteriors(driven, jnp.zeros(2))[0]
    np.testing.assert_array_equal(posterior.family.encoder, encoder(driven.chosen))


def test_without_keep_best_the_last_state_is_chosen():
    driven = run(make_state(), 10, monitors=(Peak(2, 4),))
    assert driven.best is None
    np.testing.assert_array_equal(encoder(driven.chosen), encoder_after(10))


@pytest.mark.parametrize(("num_steps", "monitors"), [(100, (Peak(4, 0),)), (3, (Peak(4, 0),)), (100, ())])
def test_an_unknown_column_to_choose_by_is_refused_at_the_first_look(num_steps, monitors):
    """Otherwise the fit would end with the state it started from."""
    with pytest.raises(ValueError, match="expected `keep_best` to be a monitor's column, .* got 'hight'"):
        run(make_state(), num_steps, monitors=monitors, keep_best="hight")
    assert all(m.steps == [min(4, num_steps)] for m in monitors)


class Nothing(AbstractMonitor):
    """NaN, but for one update."""

    every: int = eqx.field(static=True, default=2)

    def __call__(self, method, state):
        return {"height": jnp.where(state.step == 4, -1e30, jnp.nan)}


def test_nan_is_never_the_best():
    driven = run(make_state(), 10, monitors=(Nothing(),), keep_best="height")
    assert driven.chosen.step == 4
    assert driven.status == [_types.Status.DONE]


def test_a_fit_that_could_never_be_judged_is_not_called_done():
    driven = run(make_state(), 3, monitors=(Nothing(),), keep_best="height")
    assert driven.chosen.step == 3
    assert driven.status == [_types.Status.DIVERGED]


def stacked_states():
    return stack_states([make_state(0), make_state(1), make_state(2)])


def peaks():
    return [Peak(5, 5), Peak(5, 15), Peak(5, 100)]


def test_each_fit_keeps_its_own_best():
    driven = run(stacked_states(), 20, monitors=(peaks(),), keep_best="height")
    assert driven.best is not None
    assert driven.best.values == [0.0, 0.0, -80.0]
    chosen = unstack_states(driven.chosen)
    assert [int(s.step) for s in chosen] == [5, 15, 20]
    for seed, (state, step) in enumerate(zip(chosen, (5, 15, 20), strict=True)):
        np.testing.assert_allclose(encoder(state), encoder_after(step, seed), rtol=1e-5, atol=1e-6)
        assert jax.random.key_data(state.key).tolist() == jax.random.key_data(make_state(seed).key).tolist()


class Interrupter(AbstractReporter):
    """Presses Ctrl-C when `step` is done."""

    def __init__(self, step):
        self.step = step

    def phase(self, name):
        del name

    def update(self, step, total, rate, bound):
        if step == self.step:
            os.kill(os.getpid(), signal.SIGINT)


def bits(state):
    state = eqx.tree_at(lambda s: s.key, state, jax.random.key_data(state.key))
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(eqx.filter(state, eqx.is_array))]


@pytest.mark.parametrize("broken_at", [3, 11, 17])
def test_the_best_survives_an_interrupt(broken_at, tmp_path):
    """Before a first look, before the peak of the second fit and after it."""
    settings = {"monitors": (peaks(),), "keep_best": "height"}
    whole = run(stacked_states(), 20, **settings)
    checkpoints = Checkpoints(tmp_path, "f")
    broken = run(stacked_states(), 20, reporter=Interrupter(broken_at), checkpoints=checkpoints, **settings)
    assert broken.status == [_types.Status.INTERRUPTED] * 3
    resumed = run(stacked_states(), 20, checkpoints=checkpoints, **settings)
    again = run(stacked_states(), 20, checkpoints=checkpoints, **settings)
    assert whole.best is not None
    for driven in (resumed, again):
        assert driven.status == [_types.Status.DONE] * 3
        assert driven.best is not None
        assert driven.best.values == whole.best.values
        assert bits(driven.state) == bits(whole.state)
        assert bits(driven.best.state) == bits(whole.best.state)
        assert bits(driven.chosen) == bits(whole.chosen)
        assert driven.history["height"] == whole.history["height"]


def test_averaged_parameters_are_judged_and_chosen():
    monitor = Peak(4, 8)
    driven = run(make_state(method=AVERAGED), 12, AVERAGED, monitors=(monitor,), keep_best="height")
    assert isinstance(driven.state.opt_state, AveragedState)
    state, _ = run_updates(AVERAGED, make_state(method=AVERAGED), 8)
    average = encoder(averaged_state(state))
    assert not np.allclose(average, encoder(state), atol=1e-3)
    np.testing.assert_array_equal(monitor.seen[1][1], average)
    np.testing.assert_array_equal(encoder(driven.chosen), average)
    # Training goes on from the parameters, not from their average.
    assert driven.best is not None
    np.testing.assert_array_equal(encoder(driven.best.state), encoder(state))
    last = encoder(averaged_state(driven.state))
    np.testing.assert_array_equal(monitor.seen[2][1], last)


def test_averages_of_stacked_fits():
    states = [make_state(seed, AVERAGED) for seed in (0, 1)]
    driven = run(stack_states(states), 6, AVERAGED)
    chosen = unstack_states(driven.chosen)
    for state, last in zip(chosen, unstack_states(driven.state), strict=True):
        np.testing.assert_array_equal(encoder(state), encoder(averaged_state(last)))


def test_without_an_average_the_state_is_itself():
    state = make_state()
    assert averaged_state(state) is state


def test_the_elbo_monitor_is_the_bound_and_repeats_itself():
    state, _ = run_updates(PLAIN, make_state(), 3)
    monitor = ElboMonitor(5)
    seen = monitor(PLAIN, state)
    fit = (state.family, state.target, PLAIN.estimator, state.est_state)
    evaluated = look(state.key, *fit, num_draws=1_024, first=-16 * 4).evaluated
    terms = evaluated.log_p - evaluated.log_q_high
    np.testing.assert_allclose(seen["elbo_lower"], terms.mean(), rtol=1e-5)
    np.testing.assert_allclose(seen["elbo_lower_stderr"], terms.std() / 1_024**0.5, rtol=1e-3)
    assert monitor(PLAIN, state)["elbo_lower"] == seen["elbo_lower"]
    later = eqx.tree_at(lambda s: s.step, state, state.step + 1)
    assert monitor(PLAIN, later)["elbo_lower"] != seen["elbo_lower"]
    assert math.isfinite(seen["elbo_lower"])


def test_default_monitors_are_for_plain_densities():
    state = make_state()
    (monitor,) = default_monitors(state.family, state.target, 1_000)
    assert isinstance(monitor, ElboMonitor)
    assert monitor.every == 50
    amortised = uivi.ExplicitGaussian(uivi.families.MLP.create(jax.random.key(0), 3, 4, width=2))
    assert default_monitors(amortised, state.target, 1_000) == ()
