"""The score ∇_z log q(z) from reverse draws, against its closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.reverse.table import LEARNED
from uivi._types import ReverseDraws
from uivi.estimators.marginal_score import score, scores
from uivi.families import MLP, Exponential, SemiImplicit, StandardNormal
from uivi.reverse import HMC, ISIR, Coupled, Exact, FixedStep, FromMixing, Importance
from uivi.testing import (
    Blind,
    Negated,
    assert_mean,
    assert_not_mean,
    compiled_reverse,
    draw_pairs,
    make_oracle,
    trained_state,
)

NUM_PAIRS = 5_000
SAMPLERS = {
    "exact": (Exact(3), 0, 0.0),
    "isir-mixing": (ISIR(20, 1, FromMixing()), 0, 0.0),
    "coupled": (Coupled(60, FromMixing()), 0, 0.0),
    "isir-learned": (ISIR(10, 1, LEARNED), 200, 0.0),
    "hmc": (HMC(3, 3, 3, FixedStep(0.4)), 0, 0.0),
    "importance": (Importance(300, FromMixing()), 0, 0.05),
}


def score_errors(key, sampler, num_updates=0):
    """Error of the score at each z, and its product with each coordinate of z."""
    oracle = make_oracle()
    state_key, draw_key, reverse_key = jax.random.split(key, 3)
    state = trained_state(state_key, sampler, oracle.family, num_updates)
    pairs = draw_pairs(draw_key, oracle.family, NUM_PAIRS)
    reverse = compiled_reverse(reverse_key, sampler, oracle.family, pairs, None, state).draws
    errors = scores(oracle.family, pairs.z, reverse, None) - jax.vmap(oracle.conditional.score)(pairs.z)
    products = errors[:, :, None] * pairs.z[:, None, :]
    return jnp.concatenate([errors, products.reshape(NUM_PAIRS, -1)], 1)


@pytest.mark.parametrize("name", SAMPLERS)
def test_score_is_unbiased(name, x64, getkey):
    """Right on average over ε given z, since the chain starts in stationarity."""
    sampler, num_updates, bias = SAMPLERS[name]
    errors = score_errors(getkey(), sampler, num_updates)
    assert_mean(errors, 0.0, max_stderr=0.04, bias=bias)


@pytest.mark.parametrize("sampler", [Blind(), Negated()], ids=lambda s: type(s).__name__)
def test_wrong_reverse_draws_are_noticed(sampler, x64, getkey):
    assert_not_mean(score_errors(getkey(), sampler), 0.0)


def test_one_score_for_the_batch_is_noticed(x64, getkey):
    oracle = make_oracle()
    pairs = draw_pairs(getkey(), oracle.family, NUM_PAIRS)
    exact = jax.vmap(oracle.conditional.score)(pairs.z)
    errors = jnp.mean(exact, 0, keepdims=True) - exact
    assert_mean(errors, 0.0, max_stderr=0.04)
    assert_not_mean(errors * pairs.z, 0.0)


def test_weights_are_used_and_zero_weights_ignored(x64):
    """Weighted average of (W ε′ + b - z)/σ²; a draw of weight zero does not count."""
    oracle = make_oracle()
    conditional = oracle.conditional
    z = jnp.array([0.3, -0.4])
    eps = jnp.array([[0.1, 0.2], [-1.0, 0.5], [7.0, 7.0]])
    weights = jnp.array([0.25, 0.75, 0.0])
    each = (eps @ conditional.weight.T + conditional.bias[None] - z[None]) / conditional.scale[None] ** 2
    expected = 0.25 * each[0] + 0.75 * each[1]
    value = score(oracle.family, z, ReverseDraws(eps, weights, eps[0]))
    np.testing.assert_allclose(value, expected, rtol=1e-12)


def test_rejected_draws_cannot_spoil_the_score(getkey):
    """A far proposal whose rate overflows has weight zero; its slope in z is infinite."""
    net = MLP.create(getkey(), 1, 1, width=2, skip=jnp.ones((1, 1)))
    family = SemiImplicit(StandardNormal(1), Exponential(net))
    eps = jnp.array([[0.1], [1e3]])
    z = jnp.array([0.5])
    energies = jax.vmap(family.reverse_log_density(z, eps[0]))(eps)
    assert energies[1] == -jnp.inf
    weights = jax.nn.softmax(energies)
    value = score(family, z, ReverseDraws(eps, weights, eps[0]))
    alone = score(family, z, ReverseDraws(eps[:1], jnp.ones(1), eps[0]))
    np.testing.assert_allclose(value, alone, rtol=1e-5)
