"""Tests the mixing of samplers whose mixing is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uivi._types import ReverseDraws, ReverseInfo
from uivi.evaluation import reverse_mixing
from uivi.reverse import AbstractPerDrawSampler, Exact, from_mixing
from uivi.testing import assert_mean, make_oracle

NUM_KEYS = 20


class Lazy(AbstractPerDrawSampler):
    """Stays at the generating ε with probability `stay`, and draws exactly otherwise."""

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
        return (
            ReverseDraws(eps[None], zero[None] + 1, eps),
            ReverseInfo(zero + 0.25, zero + 0.75, zero + 3, zero),
            (),
        )

    def adapt(self, state, draws, contexts, memos):
        del draws, contexts, memos
        return state

    def fitted_proposal(self, state):
        del state
        return from_mixing()


def mixing(key, sampler):
    """Measures the mixing once on the oracle's family."""
    return reverse_mixing.measure_mixing(
        key, sampler, (), make_oracle().family, num_draws=256, num_reference=256
    )


def repeated(sampler, getkey):
    """Returns `ReverseMixing` at many keys, as one array per field."""
    found = [mixing(key, sampler) for key in jax.random.split(getkey(), NUM_KEYS)]
    return reverse_mixing.ReverseMixing(*np.array(found).T)


@pytest.mark.parametrize("stay", [0.0, 0.5, 1.0])
def test_dependence_is_the_probability_to_stay_and_recovered_its_complement(stay, getkey):
    found = repeated(Lazy(jnp.asarray(stay)), getkey)
    assert_mean(found.dependence, stay, max_stderr=0.015, bias=0.01)
    assert_mean(found.recovered, 1 - stay, max_stderr=0.03, bias=0.01)


def test_exact_draws_are_independent_and_recover_the_gradient(getkey):
    found = repeated(Exact(4), getkey)
    assert_mean(found.dependence, 0.0, max_stderr=0.01, bias=0.01)
    assert_mean(found.recovered, 1.0, max_stderr=0.02, bias=0.01)


def test_the_standard_error_of_recovered_is_its_spread(getkey):
    found = repeated(Lazy(jnp.asarray(0.5)), getkey)
    assert 0.7 < np.std(found.recovered, ddof=1) / np.mean(found.recovered_stderr) < 1.4


def test_a_stuck_sampler_is_exactly_stuck(getkey):
    found = mixing(getkey(), Lazy(jnp.asarray(1.0)))
    assert found.jump == 0
    assert found.dependence == pytest.approx(1, abs=1e-5)
    assert found.recovered == pytest.approx(0, abs=1e-5)


def test_jump_is_that_of_the_reverse_conditional(getkey):
    """Independent draws differ by twice the variance: of q(ε|z) for the sampler, of q(ε) for the unit."""
    oracle = make_oracle()
    expected = jnp.trace(oracle.conditional.reverse(jnp.zeros(2))[1]) / 2
    assert_mean(repeated(Lazy(jnp.asarray(0.0)), getkey).jump, expected, max_stderr=0.01)


def test_acceptance_and_moved_are_the_samplers_own(getkey):
    found = mixing(getkey(), Lazy(jnp.asarray(0.5)))
    assert (found.acceptance, found.moved, found.steps) == (0.25, 0.75, 3)
