"""The fit loop: one program, the same numbers however it is cut, and honest about bad updates."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from uivi import presets
from uivi.estimators import SIVI, UIVI, Explicit
from uivi.families import ExplicitGaussian
from uivi.reverse import ISIR, Coupled, Learned
from uivi.targets import AbstractTarget, Density
from uivi.testing import make_oracle
from uivi.training import optimisers
from uivi.training.optimisers import adam_cosine, paper_rmsprop
from uivi.training.update import (
    Method,
    all_finite,
    initial_state,
    one_update,
    run_updates,
    stack_states,
    unstack_states,
)

METHODS = {
    "uivi-learned": lambda: Method(UIVI(4, ISIR(4, 1, Learned(width=8))), adam_cosine(100)),
    "sivi": lambda: Method(SIVI(4, 3), paper_rmsprop()),
}


def start(method, seed=0):
    return initial_state(jax.random.key(seed), method, *make_oracle())


def arrays_of(state):
    """All arrays but the key, as NumPy."""
    state = eqx.tree_at(lambda s: s.key, state, jax.random.key_data(state.key))
    return [np.asarray(x) for x in jax.tree.leaves(eqx.filter(state, eqx.is_array))]


def test_chunks_do_not_change_the_numbers():
    """10 updates = 4 + 6 updates, bit by bit. Of every method: `uivi.testing.check_estimator`."""
    method = METHODS["uivi-learned"]()
    whole, whole_info = run_updates(method, start(method), 10)
    first, a = run_updates(method, start(method), 4)
    second, b = run_updates(method, first, 6)
    for x, y in zip(arrays_of(whole), arrays_of(second), strict=True):
        np.testing.assert_array_equal(x, y)
    mean = (4 * a.mean.log_joint + 6 * b.mean.log_joint) / 10
    np.testing.assert_allclose(whole_info.mean.log_joint, mean, rtol=1e-5)
    assert whole.step == 10
    assert whole_info.skipped == 0


def test_fits_side_by_side_equal_separate_fits():
    method = METHODS["uivi-learned"]()
    stacked, info = run_updates(method, stack_states([start(method, seed) for seed in (1, 2)]), 5)
    assert info.mean.log_joint.shape == info.skipped.shape == (2,)
    together = unstack_states(stacked)
    assert len(together) == 2
    for seed, state in zip((1, 2), together, strict=True):
        alone, _ = run_updates(method, start(method, seed), 5)
        for x, y in zip(arrays_of(alone), arrays_of(state), strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-4, atol=1e-6)
    assert not np.allclose(arrays_of(together[0])[1], arrays_of(together[1])[1])


@pytest.mark.slow
def test_coupled_chains_break_in_none_of_many_updates():
    """A hundred thousand updates of the narrow part of a banana: no NaN, no skipped update, no lost chain."""

    def log_density(z):
        return -0.5 * (z[0] ** 2 + ((z[1] + z[0] ** 2 + 1) / 0.1) ** 2)

    method = Method(UIVI(8, Coupled(12, Learned(width=8))), adam_cosine(100_000))
    state = initial_state(
        jax.random.key(0), method, presets.paper_family(jax.random.key(1), 2), Density(log_density, 2)
    )
    state, info = run_updates(method, state, 100_000)
    assert info.skipped == 0
    assert info.mean.nonfinite == 0
    assert all_finite(state)
    assert 2 <= info.mean.steps < 3


def test_a_single_fit_unstacks_to_itself():
    method = METHODS["sivi"]()
    state = start(method)
    assert unstack_states(state) == [state]


def test_every_update_draws_afresh():
    """With the parameters held, two updates see different draws, and the same ones when run again."""
    method = Method(Explicit(4), optax.set_to_zero())
    means = []
    for _ in range(2):
        state = initial_state(jax.random.key(0), method, ExplicitGaussian.create(2), make_oracle().target)
        for _ in range(3):
            state, info = run_updates(method, state, 1)
            means.append(float(info.mean.log_joint))
    assert means[:3] == means[3:]
    assert len(set(means)) == 3


def test_no_updates_change_nothing():
    method = METHODS["sivi"]()
    state, info = run_updates(method, start(method), 0)
    for x, y in zip(arrays_of(state), arrays_of(start(method)), strict=True):
        np.testing.assert_array_equal(x, y)
    assert info.skipped == 0


def test_the_precision_of_updates_is_that_of_the_method():
    """On a CPU it changes nothing, so look at the program."""
    for precision in (None, "tensorfloat32"):
        method = Method(SIVI(4, 3), paper_rmsprop(), precision)
        step = lambda state, method=method: one_update(method, state)
        program = str(eqx.filter_make_jaxpr(step)(start(method))[0])
        assert ("Precision.HIGH," in program) is (precision is not None)


def test_the_callers_family_survives():
    """The buffers of the state are given up, those of the family it was made from are not."""
    oracle = make_oracle()
    method = METHODS["sivi"]()
    before = np.array(oracle.conditional.weight)
    run_updates(method, initial_state(jax.random.key(0), method, oracle.family, oracle.target), 2)
    np.testing.assert_array_equal(oracle.conditional.weight, before)


class BadAtStep(AbstractTarget):
    """A normal target whose slope is `value` at update number 3."""

    value: float = eqx.field(static=True)
    dim = 2
    num_sites = 1

    def sites(self, key, step):
        return step[None]

    def context(self, site):
        return None

    def log_joint(self, z, site):
        factor = jnp.where(site == 3, self.value, 1.0).astype(z.dtype)
        return -0.5 * factor * jnp.sum((z - 1) ** 2)


def encoder_after(method, target, num_steps):
    state = initial_state(jax.random.key(0), method, ExplicitGaussian.create(2), target)
    state, info = run_updates(method, state, num_steps)
    return np.asarray(state.family.encoder), info


def clipped_sgd():
    return optax.chain(optax.clip(1.0), optax.sgd(0.1))


@pytest.mark.parametrize(
    ("make", "value"),
    [
        pytest.param(paper_rmsprop, jnp.nan, id="paper-nan"),
        pytest.param(paper_rmsprop, jnp.inf, id="paper-inf"),
        pytest.param(lambda: adam_cosine(100), jnp.nan, id="adam-nan"),
        pytest.param(lambda: adam_cosine(100), jnp.inf, id="adam-inf"),
        pytest.param(clipped_sgd, jnp.nan, id="clipped-nan"),
        pytest.param(clipped_sgd, jnp.inf, id="clipped-inf"),
    ],
)
def test_nonfinite_gradients_are_skipped_and_counted(make, value):
    """Update 3 leaves the parameters as they were; the next one goes on."""
    method = Method(Explicit(1), make())
    target = BadAtStep(float(value))
    (before, _), (at, info), (after, later) = (encoder_after(method, target, n) for n in (3, 4, 5))
    np.testing.assert_array_equal(before, at)
    assert info.skipped == later.skipped == 1
    assert info.mean.nonfinite * 4 == 1
    assert np.all(np.isfinite(after))
    assert np.all(after != at)


@pytest.mark.parametrize("large", [2, 4, 100])
def test_a_single_bad_number_is_found_in_any_array(large, monkeypatch):
    monkeypatch.setattr(optimisers, "LARGE", large)
    tree = {"a": jnp.zeros((2, 3)), "b": jnp.zeros(()), "c": jnp.zeros(4), "n": jnp.arange(3), "name": "x"}
    assert all_finite(tree)
    assert all_finite({})
    for name, place in (("a", (0, 0)), ("a", (1, 2)), ("b", ()), ("c", 0), ("c", 3)):
        for bad in (jnp.nan, jnp.inf, -jnp.inf):
            assert not all_finite(tree | {name: tree[name].at[place].set(bad)})
