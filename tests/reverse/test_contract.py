"""What every reverse sampler promises, whatever it does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.reverse.table import LEARNED, SAMPLERS
from uivi.families import MLP, Gaussian, LogScale, SemiImplicit, StandardNormal
from uivi.reverse import ISIR, Exact, FromMixing, Importance, jump
from uivi.testing import (
    Stuck,
    assert_mean,
    assert_not_mean,
    check_reverse_sampler,
    compiled_reverse,
    draw_pairs,
    make_oracle,
)

# The other rows run the same programs with other numbers.
PROGRAMS = [n for n in SAMPLERS if n not in ("hmc-large-step", "hmc-adapted", "isir-untrained")]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_promises_of_a_sampler(name, getkey):
    family = make_oracle(noise_dim=3).family
    check_reverse_sampler(getkey(), SAMPLERS[name].make(family.noise_dim), family)


@pytest.mark.parametrize("name", ["importance-mixing", "importance-learned"])
def test_importance_moments_with_a_declared_bias(name, x64, getkey):
    """Self-normalised weights: a bias of order 1/num_draws, here below 0.03 posterior deviations."""
    oracle = make_oracle()
    sampler = SAMPLERS[name].make(2)
    state = SAMPLERS[name].state(getkey(), sampler, oracle.family)
    pairs = draw_pairs(getkey(), oracle.family, 3_000)
    draws = compiled_reverse(getkey(), sampler, oracle.family, pairs, None, state).draws
    means = jnp.sum(draws.weights[..., None] * draws.eps, 1)
    exact, covariance = jax.vmap(oracle.conditional.reverse)(pairs.z)
    errors = (means - exact) / jnp.sqrt(jax.vmap(jnp.diag)(covariance))
    assert_mean(errors, 0.0, max_stderr=0.02, bias=0.03)
    assert_not_mean(pairs.eps * pairs.z, 0.0)


def test_importance_with_few_draws_is_biased(x64, getkey):
    """The control of the test above: with two proposals the bias is seen."""
    oracle = make_oracle()
    pairs = draw_pairs(getkey(), oracle.family, 20_000)
    sampler = Importance(2, FromMixing())
    draws = compiled_reverse(getkey(), sampler, oracle.family, pairs, None, ()).draws
    means = jnp.sum(draws.weights[..., None] * draws.eps, 1)
    exact, _ = jax.vmap(oracle.conditional.reverse)(pairs.z)
    assert_not_mean((means - exact) * pairs.z, 0.0)


def test_rounds_forget_the_start(getkey):
    """Each round of i-SIR goes on from the one before: the share that never moved falls with them."""
    oracle = make_oracle()
    pairs = draw_pairs(getkey(), oracle.family, 4_000)
    share = {}
    for rounds in (1, 3):
        sampler = ISIR(2, rounds, FromMixing())
        last = compiled_reverse(getkey(), sampler, oracle.family, pairs, None, ()).draws.last
        share[rounds] = np.mean(np.all(last == pairs.eps, 1))
    assert 0.3 < share[1] < 0.8
    assert share[3] < 0.7 * share[1]


def test_learned_proposal_approaches_the_reverse_conditional(x64, getkey):
    """On the oracle r(ε|z) can be exact: the i-SIR weight that leaves the start goes to K/(K + 1)."""
    oracle = make_oracle()
    row = SAMPLERS["isir-trained"]
    sampler = row.make(2)
    pairs = draw_pairs(getkey(), oracle.family, 2_000)
    moved = {}
    for updates in (0, row.num_updates):
        state = row._replace(num_updates=updates).state(getkey(), sampler, oracle.family)
        reverse = compiled_reverse(getkey(), sampler, oracle.family, pairs, None, state)
        moved[updates] = float(jnp.mean(reverse.info.moved))
    assert moved[0] < 0.5 < 0.6 < moved[row.num_updates] <= 0.75


def test_learned_density_is_that_of_its_draws(x64, getkey):
    """E_m[f(ε) q(ε)/m(ε)] = E_q[f(ε)] checks the mixture's log_prob against its sampler."""
    oracle = make_oracle()
    state = LEARNED.init(getkey(), oracle.family)
    state = SAMPLERS["isir-untrained"].disturb(state)
    proposal = LEARNED.at(oracle.family, jnp.array([0.4, -0.9]), None, state)
    eps = proposal.sample(getkey(), 40_000)
    mixing = jax.vmap(oracle.family.mixing.log_prob)(eps)
    weights = jnp.exp(mixing - jax.vmap(proposal.log_prob)(eps))[:, None]
    samples = jnp.concatenate([weights, weights * eps, weights * eps**2], 1)
    assert_mean(samples, [1.0, 0.0, 0.0, 1.0, 1.0], max_stderr=0.02)
    wrong = jnp.exp(mixing - jax.vmap(lambda e: proposal.log_prob(e + 0.1))(eps))[:, None]
    assert_not_mean(wrong, 1.0)


def test_jump_is_zero_when_stuck_and_one_for_independent_draws(getkey):
    oracle = make_oracle()
    pairs = draw_pairs(getkey(), oracle.family, 4_000)
    stuck = compiled_reverse(getkey(), Stuck(), oracle.family, pairs, None, ()).draws
    measure = jax.vmap(lambda d, r: jump(oracle.family, d, r))
    np.testing.assert_array_equal(measure(pairs, stuck), 0.0)
    independent = stuck._replace(eps=jax.random.normal(getkey(), stuck.eps.shape))
    assert_mean(measure(pairs, independent)[:, None], 1.0, max_stderr=0.02)


def test_exact_needs_a_linear_conditional(getkey):
    net = MLP.create(getkey(), 2, 2, width=4)
    family = SemiImplicit(StandardNormal(2), Gaussian(net, LogScale.create(2)))
    with pytest.raises(TypeError, match="LinearGaussian conditional.*got Gaussian: use uivi.ISIR"):
        Exact().init(getkey(), family)
