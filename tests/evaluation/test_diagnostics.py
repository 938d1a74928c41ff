"""Mixing diagnostics on samplers whose mixing is known; k-hat on tails whose shape is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from tests.helpers import assert_mean, make_oracle
from uivi._types import ReverseDraws, ReverseInfo
from uivi.evaluation import diagnostics
from uivi.reverse import AbstractReverseSampler, Exact

NUM_KEYS = 20


class Lazy(AbstractReverseSampler):
    """Stays at the generating ε with probability `stay`, else draws exactly."""

    stay: jax.Array

    def init(self, key, family):
        del key, family
        return ()

    def kernel(self, key, family, draw, context, state):
        del context, state
        stay_key, draw_key = jax.random.split(key)
        fresh = family.conditional.sample_reverse(draw_key, draw.z)
        eps = jnp.where(jax.random.bernoulli(stay_key, self.stay), draw.eps, fresh)
        zero = jnp.zeros((), eps.dtype)
        return ReverseDraws(eps[None], zero[None], eps), ReverseInfo(zero + 0.25, zero + 0.75, zero), ()

    def adapt(self, state, draws, contexts, memos):
        del draws, contexts, memos
        return state


def mixing(key, sampler):
    """One diagnosis on the oracle's family."""
    return diagnostics.mixing(key, sampler, (), make_oracle().family, num_draws=256, num_reference=256)


def repeated(sampler, getkey):
    """`Mixing` at many keys, one column per field."""
    found = [mixing(key, sampler) for key in jax.random.split(getkey(), NUM_KEYS)]
    return diagnostics.Mixing(*np.array(found).T)


@pytest.mark.parametrize("stay", [0.0, 0.5, 1.0])
def test_dependence_is_the_probability_to_stay_and_recovered_its_complement(stay, getkey):
    found = repeated(Lazy(jnp.asarray(stay)), getkey)
    assert_mean(found.dependence, stay, max_stderr=0.015, bias=0.01)
    assert_mean(found.recovered, 1 - stay, max_stderr=0.03, bias=0.01)


def test_exact_draws_are_independent_and_recover_the_gradient(getkey):
    found = repeated(Exact(4), getkey)
    assert_mean(found.dependence, 0.0, max_stderr=0.01, bias=0.01)
    assert_mean(found.recovered, 1.0, max_stderr=0.02, bias=0.01)


def test_a_stuck_sampler_is_exactly_stuck(getkey):
    found = mixing(getkey(), Lazy(jnp.asarray(1.0)))
    assert found.jump == 0
    assert found.dependence == pytest.approx(1, abs=1e-5)
    assert found.recovered == pytest.approx(0, abs=1e-5)


def test_jump_is_that_of_the_reverse_conditional(getkey):
    """Two independent draws of q(ε|z) differ by twice its variance, in units of twice that of q(ε)."""
    oracle = make_oracle()
    expected = jnp.trace(oracle.conditional.reverse(jnp.zeros(2))[1]) / 2
    assert_mean(repeated(Lazy(jnp.asarray(0.0)), getkey).jump, expected, max_stderr=0.01)


def test_acceptance_and_moved_are_the_samplers_own(getkey):
    found = mixing(getkey(), Lazy(jnp.asarray(0.5)))
    assert (found.acceptance, found.moved) == (0.25, 0.75)


@pytest.mark.parametrize("shape", [0.2, 0.5, 0.9])
def test_pareto_k_finds_the_shape_of_generalised_pareto_weights(shape):
    rng = np.random.default_rng(7)
    weights = scipy.stats.genpareto(shape).rvs((40, 4_000), random_state=rng)
    found = [diagnostics.pareto_k(jnp.asarray(np.log(w), dtype=jnp.float32)) for w in weights]
    assert_mean(np.array(found), shape, max_stderr=0.03, bias=0.03)


def test_pareto_k_tells_light_from_heavy_tails():
    normal = np.random.default_rng(8).standard_normal(4_000).astype(np.float32)
    assert diagnostics.pareto_k(jnp.asarray(0.1 * normal)) < 0.3
    assert diagnostics.pareto_k(jnp.asarray(5 * normal)) > 0.7


def test_pareto_k_does_not_see_the_constant_of_the_density():
    log_weights = 2 * np.random.default_rng(9).standard_normal(1_000).astype(np.float32)
    found = [diagnostics.pareto_k(jnp.asarray(log_weights + c)) for c in (0.0, -512.0, 512.0)]
    assert found[1:] == pytest.approx([found[0]] * 2, abs=1e-3)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_pareto_k_of_a_non_finite_weight_is_infinite(bad):
    log_weights = jnp.zeros(100).at[3].set(bad)
    assert diagnostics.pareto_k(log_weights) == np.inf


def test_pareto_k_of_too_few_weights_is_infinite_and_of_equal_weights_minus_infinite():
    assert diagnostics.pareto_k(jnp.arange(24.0)) == np.inf
    assert diagnostics.pareto_k(jnp.full((100,), -3.0)) == -np.inf


def gaps_of(key, shift, scale, num_draws=4_000):
    """q = N(0, I₃); the posterior differs in its last coordinate: N(shift, scale²)."""
    z = np.asarray(jax.random.normal(key, (num_draws, 3)), np.float64)
    last = scipy.stats.norm(shift, scale).logpdf(z[:, 2])
    return diagnostics.moment_gaps(jnp.asarray(z), jnp.asarray(last - scipy.stats.norm.logpdf(z[:, 2])))


@pytest.mark.parametrize(("shift", "scale"), [(0.2, 1.0), (0.0, 0.85), (-0.15, 0.9), (0.0, 1.15)])
def test_moment_gaps_are_those_of_the_posterior(shift, scale, getkey):
    """Within their standard errors, which are right: over many keys, z-scores have a spread of one."""
    found = [gaps_of(key, shift, scale) for key in jax.random.split(getkey(), 40)]
    mean, sd, mean_stderr, sd_stderr, _ = np.array(found).T
    if shift:
        assert_mean(mean, abs(shift) / scale, max_stderr=0.01)
        assert 0.7 < np.std(mean) / np.mean(mean_stderr) < 1.4
    if scale != 1:
        assert_mean(sd, abs(1 / scale - 1), max_stderr=0.01)
        assert 0.7 < np.std(sd) / np.mean(sd_stderr) < 1.4


def test_the_largest_of_many_gaps_may_be_chance(getkey):
    """Noise in a thousand weights and a thousand quantities; a true gap stands out."""
    noise_key, draw_key = jax.random.split(getkey())
    log_weights = 0.5 * jax.random.normal(noise_key, (2_000,))
    draws = jax.random.normal(draw_key, (2_000, 1_000))
    noise = diagnostics.moment_gaps(draws, log_weights)
    assert noise.is_chance(noise.mean, noise.mean_stderr)
    assert noise.is_chance(noise.sd, noise.sd_stderr)
    found = diagnostics.moment_gaps(draws.at[:, 3].set(log_weights), log_weights)
    assert not found.is_chance(found.mean, found.mean_stderr)


def test_constants_have_no_gaps():
    draws = jnp.stack([jnp.linspace(-1.0, 1.0, 100), jnp.full(100, 2.0), jnp.zeros(100)], 1)
    found = diagnostics.moment_gaps(draws, jnp.linspace(0.0, 0.5, 100))
    assert found.num == 1
    assert 0 < found.mean < 1


def test_draws_of_the_posterior_itself_have_no_gaps(getkey):
    found = gaps_of(getkey(), 0.0, 1.0)
    assert found.mean < 1e-6
    assert found.sd < 1e-6
