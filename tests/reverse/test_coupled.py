"""Coupled chains: means over q(ε|z) without any bias, where i-SIR from the start has one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.reverse.faulty import ExactMean
from uivi._types import Draw
from uivi.estimators import UIVI
from uivi.reverse import ISIR, Coupled, FromMixing, Learned
from uivi.testing import (
    assert_mean,
    assert_not_mean,
    compiled_reverse,
    draw_pairs,
    gradient_samples,
    make_oracle,
    trained_state,
)

NUM_PAIRS = 60_000
NUM_PROPOSALS = 12
WIDE = Learned(width=16, learning_rate=1e-2, inflation=1.2)


def errors(draws, pairs, conditional):
    """Errors of the mean of ε in sds, alone, times z, and times the generating ε: all zero on average."""
    mean, covariance = jax.vmap(conditional.reverse)(pairs.z)
    sd = jnp.sqrt(jax.vmap(jnp.diag)(covariance))
    error = (jnp.sum(draws.weights[..., None] * draws.eps, 1) - mean) / sd
    return jnp.concatenate([error, error * pairs.z, error * (pairs.eps - mean) / sd], 1)


def sampled(key, sampler, oracle, num_updates):
    state_key, pair_key, run_key = jax.random.split(key, 3)
    state = trained_state(state_key, sampler, oracle.family, num_updates)
    pairs = draw_pairs(pair_key, oracle.family, NUM_PAIRS)
    reverse = compiled_reverse(run_key, sampler, oracle.family, pairs, None, state)
    return errors(reverse.draws, pairs, oracle.conditional), reverse.info


PROPOSALS = {"mixing": (FromMixing(), 0, 0.03), "learned": (WIDE, 200, 0.005)}
"""A proposal, the updates that it learns from, and the largest standard error of a test with it."""
NAMES = ["learned", pytest.param("mixing", marks=pytest.mark.slow)]


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_is_unbiased_and_independent_of_the_generating_noise(name, x64, getkey):
    """The control: i-SIR with as many proposals fails, with the start's weight and with its square."""
    proposal, num_updates, max_stderr = PROPOSALS[name]
    key, oracle = getkey(), make_oracle()
    found, info = sampled(key, Coupled(NUM_PROPOSALS, proposal), oracle, num_updates)
    assert_mean(found, 0.0, max_stderr=max_stderr)
    assert 2 <= np.mean(info.steps) < 3
    assert np.all(info.nonfinite == 0)
    for power in (1.0, 2.0):
        biased, _ = sampled(key, ISIR(NUM_PROPOSALS, 1, proposal, start_power=power), oracle, num_updates)
        assert_not_mean(biased, 0.0)


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_is_unbiased(name, x64, getkey):
    """In every component, against the gradient with the exact score at the same draws z.

    The latter is unbiased (tests/estimators), and the difference has little noise. i-SIR fails.
    """
    proposal, num_updates, max_stderr = PROPOSALS[name]
    oracle, key = make_oracle(), getkey()
    state = trained_state(getkey(), Coupled(NUM_PROPOSALS, proposal), oracle.family, num_updates)
    params = (oracle.family, oracle.target)

    def differences(sampler):
        samples = lambda sampler, state: gradient_samples(key, UIVI(64, sampler), params, 2_000, state=state)
        return samples(sampler, state) - samples(ExactMean(), ())

    assert_mean(differences(Coupled(NUM_PROPOSALS, proposal)), 0.0, max_stderr=max_stderr)
    for power in (1.0, 2.0):
        assert_not_mean(differences(ISIR(NUM_PROPOSALS, 1, proposal, start_power=power)), 0.0)


def run(sampler, oracle, pairs, key=None):
    return compiled_reverse(jax.random.key(5) if key is None else key, sampler, oracle.family, pairs, None, ())


def test_proposals_that_miss_have_no_weight(getkey):
    """The mean is then the ε that made z. The control starts elsewhere, as chains from fresh proposals do."""
    oracle = make_oracle()
    narrow = eqx.tree_at(lambda f: f.conditional.scale, oracle.family, 1e-4 * oracle.conditional.scale)
    pairs = draw_pairs(getkey(), narrow, 200)

    def mean_from(start):
        found = compiled_reverse(getkey(), Coupled(4, FromMixing()), narrow, Draw(pairs.z, start), None, ())
        return jnp.sum(found.draws.weights[..., None] * found.draws.eps, 1), found.info.steps

    mean, steps = mean_from(pairs.eps)
    np.testing.assert_allclose(mean, pairs.eps, atol=1e-5)
    assert np.all(steps == 2)
    elsewhere, _ = mean_from(pairs.eps + 3)
    assert np.median(np.abs(elsewhere - pairs.eps)) > 0.1


def test_draws_have_chains_of_their_own(getkey):
    """How long the chains of one draw take has no effect on those of another, whatever block they are in."""
    oracle = make_oracle()
    pairs = draw_pairs(getkey(), oracle.family, 40)
    sampler, keys = Coupled(2, FromMixing()), jax.random.split(getkey(), 40)
    sample = eqx.filter_jit(sampler.sample)
    both, info, _ = sample(keys, oracle.family, pairs, None, ())
    assert len(np.unique(info.steps)) > 3
    few = slice(30, 33)
    alone, _, _ = sample(keys[few], oracle.family, Draw(pairs.z[few], pairs.eps[few]), None, ())
    np.testing.assert_allclose(alone.weights, both.weights[few], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(alone.eps, both.eps[few], rtol=1e-5)


def test_fits_side_by_side(getkey):
    """Under vmap, where the lanes end at different times, each lane is as it is alone."""
    oracle = make_oracle()
    sampler, keys = Coupled(2, FromMixing()), jax.random.split(getkey(), (3, 20))
    pairs = draw_pairs(getkey(), oracle.family, 60)
    lanes = jax.tree.map(lambda x: x.reshape(3, 20, 2), pairs)
    one = lambda keys, pairs: sampler.sample(keys, oracle.family, pairs, None, ())[:2]
    together, info = jax.jit(jax.vmap(one))(keys, lanes)
    assert len(np.unique(np.max(info.steps, 1))) > 1
    for lane in range(3):
        alone, _ = jax.jit(one)(keys[lane], jax.tree.map(lambda x, lane=lane: x[lane], lanes))
        np.testing.assert_allclose(alone.weights, together.weights[lane], rtol=1e-5, atol=1e-6)


def test_chains_that_are_given_up_are_counted(getkey):
    oracle = make_oracle()
    pairs = draw_pairs(getkey(), oracle.family, 500)
    info = run(Coupled(1, FromMixing(), most_steps=3), oracle, pairs).info
    assert np.max(info.steps) == 3
    assert 0 < np.sum(info.nonfinite) < 250
    assert np.sum(run(Coupled(1, FromMixing(), most_steps=1_000), oracle, pairs).info.nonfinite) == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_proposals": 0}, "`num_proposals` to be a positive whole number, got 0"),
        ({"most_steps": 1}, "`most_steps` of at least 2, got 1"),
        ({"proposal": Learned(inflation=0.8)}, "got inflation=0.8: narrow proposals"),
    ],
)
def test_settings_of_no_use(settings, message):
    with pytest.raises(ValueError, match=message):
        Coupled(**settings)
