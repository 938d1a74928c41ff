"""Large posteriors are tried from two starts, and fitted from the better one."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import uivi
from tests.fitting.starts.test_search import funnel_along
from uivi.estimators import Explicit
from uivi.families import ExplicitGaussian
from uivi.fitting.problem import problem_of
from uivi.fitting.starts import candidates, comparison
from uivi.fitting.starts.comparison import ahead
from uivi.fitting.starts.search import Start
from uivi.targets import Density
from uivi.training.progress import Silent
from uivi.training.rounds import Rounds
from uivi.training.update import Method, initial_state

METHOD = Method(Explicit(4), optax.adam(1e-3))
ROTATION = jnp.asarray(np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0], jnp.float32)


def start_at(place):
    family = ExplicitGaussian(jnp.array([place, place, 0.0, 0.0]))
    return initial_state(jax.random.key(0), METHOD, family, Density(lambda z: -0.5 * jnp.sum(z**2), 2))


def test_the_fit_with_the_larger_bound_is_ahead():
    states = [start_at(9.0), start_at(0.0), start_at(5.0)]
    winner, index = ahead(METHOD, states, 3, Silent())
    assert (index, int(winner.step)) == (1, 3)
    assert ahead(METHOD, states[::2], 3, Silent())[1] == 1
    assert [int(state.step) for state in states] == [0, 0, 0], "the starts are left as they are"


def test_without_a_finite_bound_it_is_the_first():
    states = [start_at(jnp.nan), start_at(jnp.nan)]
    assert ahead(METHOD, states, 2, Silent())[1] == 0
    assert ahead(METHOD, [*states, start_at(5.0)], 2, Silent())[1] == 2


@pytest.fixture
def trials(monkeypatch):
    """Every posterior of two dimensions or more is large, and the second start wins."""
    seen = []

    def second(method, states, num_steps, reporter):
        seen.append((len(states), num_steps))
        return states[1], 1

    monkeypatch.setattr(candidates, "TURNED_ABOVE", 1)
    monkeypatch.setattr(comparison, "ahead", second)
    return seen


def factor(posterior):
    return np.asarray(posterior.family.conditional.factor())


def test_the_winner_is_fitted_and_resumed(trials, tmp_path):
    """Its axes are not those of the first start, and a resumed fit has them without another trial."""
    settings = {"dim": 3, "key": jax.random.key(0), "num_steps": 8, "check": False, "progress": False}
    made = uivi.fit(funnel_along(ROTATION), **settings, checkpoint=tmp_path)
    assert trials == [(2, 4)]
    assert np.any(np.abs(np.triu(factor(made), 1)) > 0.01), "a factor of the first start is triangular"
    again = uivi.fit(funnel_along(ROTATION), **settings, checkpoint=tmp_path)
    assert len(trials) == 1
    np.testing.assert_array_equal(factor(again), factor(made))
    np.testing.assert_array_equal(*(p.sample(jax.random.key(1), 5) for p in (made, again)))


@pytest.mark.parametrize(("dim", "number"), [(1, 1), (2, 2), (3, 2), (4, 1)])
def test_large_covariances_have_two_starts(dim, number, trials, monkeypatch):
    monkeypatch.setattr(candidates.presets, "FULL_COVARIANCE_UP_TO", 3)
    monkeypatch.setattr(candidates, "find_start", lambda key, probe, points, **_: Start(*points[:2]))
    monkeypatch.setattr(candidates, "turned", lambda key, start, probe: start._replace(name="turned"))
    problem = problem_of(lambda z: -0.5 * jnp.sum(z**2), jax.random.key(0), dim=dim)
    assert len(candidates.find_starts(jax.random.key(1), problem, problem.target)) == number


def test_very_short_fits_have_no_trial(trials):
    states = [start_at(9.0), start_at(0.0)]
    assert comparison.pick_start(METHOD, states, Rounds(1), Silent()) is states[0]
    assert not trials
    assert comparison.pick_start(METHOD, states, Rounds(10_000), Silent()) is states[1]
    assert comparison.pick_start(METHOD, states, Rounds(400), Silent()) is states[1]
    assert [number for _, number in trials] == [500, 200]
