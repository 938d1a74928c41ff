"""Tests both sides of the ELBO against the closed form of the linear-Gaussian oracle."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uivi.evaluation import bounds
from uivi.families import MLP, ExplicitGaussian, LogScale, SemiImplicit, StandardNormal
from uivi.families.conditionals import Gaussian
from uivi.reverse import Learned
from uivi.reverse.proposals import FittedProposal
from uivi.targets import Density
from uivi.testing import (
    assert_mean,
    assert_not_mean,
    draw_pairs,
    expected_log_density,
    make_oracle,
    negative_elbo,
    z_threshold,
)

NUM_DRAWS = 2**14
FEW, MANY = 4, 32
"""Numbers of mixing draws. Most tests use the same, so that one compiled program serves them."""


def evaluate(key, oracle, num_mixing, proposal=None):
    """Returns the evaluation and, for each draw, the errors of the high and the low log q(z)."""
    evaluated = bounds.evaluate(key, oracle.family, oracle.target, NUM_DRAWS, num_mixing, proposal)
    exact = jax.vmap(oracle.conditional.marginal_log_prob)(evaluated.z)
    return evaluated, evaluated.log_q_high - exact, evaluated.log_q_low - exact


def assert_positive(samples):
    """Checks that the mean is above zero by more than the suite's threshold."""
    samples = np.asarray(samples)
    stderr = samples.std(ddof=1) / np.sqrt(samples.size)
    assert samples.mean() > z_threshold(1) * stderr


def test_draws_and_log_p_give_the_elbo_with_the_exact_log_q(x64, getkey):
    oracle = make_oracle()
    evaluated = evaluate(getkey(), oracle, FEW)[0]
    log_q = jax.vmap(oracle.conditional.marginal_log_prob)(evaluated.z)
    elbo = -negative_elbo(oracle.conditional)
    assert_mean(evaluated.log_p - log_q, elbo, max_stderr=0.04)


def test_the_sides_bracket_the_elbo_and_close_with_more_mixing_draws(x64, getkey):
    oracle = make_oracle()
    elbo = -negative_elbo(oracle.conditional)
    errors = []
    for num_mixing in (FEW, MANY):
        evaluated, high, low = evaluate(getkey(), oracle, num_mixing)
        assert_positive(high)
        assert_positive(-low)
        lower, upper = bounds.bracket(evaluated)
        assert lower.mean <= elbo + z_threshold(2) * lower.stderr
        assert upper.mean >= elbo - z_threshold(2) * upper.stderr
        errors.append((high, -low))
    for few, many in zip(*errors, strict=True):
        assert_positive(few - 3 * many)
        assert_mean(many, 0.0, max_stderr=0.01, bias=0.1)


def test_without_the_generating_noise_the_lower_side_is_not_lower(x64, getkey):
    """Must-fail control: the same estimate with the generating ε left out lies above the ELBO."""
    oracle = make_oracle()
    evaluated, _, _ = evaluate(getkey(), oracle, FEW)
    elbo = -negative_elbo(oracle.conditional)
    excluded = evaluated.log_p - evaluated.log_q_low
    assert_not_mean(excluded, elbo)
    assert np.mean(excluded) > elbo


def test_a_learned_proposal_is_tighter_than_the_prior(x64, getkey):
    oracle = make_oracle()
    proposal = Learned(width=16, depth=1, learning_rate=1e-2)

    @jax.jit
    def train(state, keys):
        def learn(state, key):
            pairs = draw_pairs(key, oracle.family, 64)
            inputs = jax.vmap(lambda z: proposal.inputs(oracle.family, z, None))(pairs.z)
            return proposal.adapt(state, pairs.eps, inputs), None

        return jax.lax.scan(learn, state, keys)[0]

    state = train(proposal.init(getkey(), oracle.family), jax.random.split(getkey(), 200))
    _, high, low = evaluate(getkey(), oracle, FEW, FittedProposal(proposal, state))
    _, prior_high, prior_low = evaluate(getkey(), oracle, FEW)
    assert_positive(prior_high - 2 * high)
    assert_positive(2 * low - prior_low)
    assert_positive(high)
    assert_positive(-low)


def explicit_problem():
    """Returns a Gaussian q, the oracle's Gaussian target, and their ELBO."""
    family = ExplicitGaussian(jnp.array([0.2, -0.4, jnp.log(0.8), jnp.log(1.3)]))
    loc, log_scale = family.parameters()
    covariance = jnp.diag(jnp.exp(2 * log_scale))
    entropy = jnp.sum(log_scale) + jnp.log(2 * jnp.pi * jnp.e)
    return family, make_oracle().target, expected_log_density(loc, covariance) + entropy


def test_an_explicit_family_is_exact(x64, getkey):
    family, target, elbo = explicit_problem()
    evaluated = bounds.evaluate(getkey(), family, target, NUM_DRAWS, 3)
    assert np.array_equal(evaluated.log_q_high, evaluated.log_q_low)
    assert_mean(evaluated.log_p - evaluated.log_q_high, elbo, max_stderr=0.04)


def repeated(keys, family, target, **budget):
    return np.array([bounds.paper_elbo(key, family, target, **budget).mean for key in keys])


def test_the_papers_estimator_is_above(x64, getkey):
    oracle = make_oracle()
    budget = {"num_draws": 64, "num_mixing": FEW}
    values = repeated(jax.random.split(getkey(), 100), oracle.family, oracle.target, **budget)
    assert_positive(values + negative_elbo(oracle.conditional))
    value = bounds.paper_elbo(getkey(), oracle.family, oracle.target, **budget)
    assert (value.side, value.num_draws) == ("upper", 64)
    assert "paper" in value.name


def test_the_papers_estimator_is_exact_for_an_explicit_family(x64, getkey):
    family, target, elbo = explicit_problem()
    values = repeated(jax.random.split(getkey(), 30), family, target, num_draws=400, num_mixing=1)
    assert_mean(values, elbo, max_stderr=0.05)


@pytest.mark.parametrize("side", ["lower", "upper"])
def test_the_bracket_reports_side_error_and_size(side, x64, getkey):
    oracle = make_oracle()
    evaluated = bounds.evaluate(getkey(), oracle.family, oracle.target, NUM_DRAWS, FEW)
    value = dict(zip(("lower", "upper"), bounds.bracket(evaluated), strict=True))[side]
    log_q = evaluated.log_q_high if side == "lower" else evaluated.log_q_low
    terms = np.asarray(evaluated.log_p - log_q)
    assert value.mean == pytest.approx(terms.mean())
    assert value.stderr == pytest.approx(terms.std(ddof=1) / np.sqrt(NUM_DRAWS))
    assert (value.side, value.num_draws) == (side, NUM_DRAWS)
    assert f"ELBO = {value.mean:.4f} ± {value.stderr:.4f} ({side} side)" == str(value)


def test_an_estimate_without_a_side_is_called_no_bound():
    assert str(bounds.BoundValue("log p(x)", "none", 1.0, 0.5, 3)) == "log p(x) = 1.0000 ± 0.5000 (no bound)"


def test_a_single_draw_has_a_finite_standard_error(getkey):
    """JSON has no NaN."""
    family, target, _ = explicit_problem()
    lower, upper = bounds.bracket(bounds.evaluate(getkey(), family, target, 1, 1))
    assert (lower.stderr, upper.stderr) == (0.0, 0.0)


def test_high_and_low_are_log_means_with_and_without_the_generating_noise():
    weights = np.random.default_rng(0).normal(size=(5, 7))
    own, fresh = weights[:, 0], weights[:, 1:]
    log_sum = np.logaddexp.reduce(fresh, 1)
    high, low = bounds.high_and_low(log_sum, own, 6)
    assert isinstance(high, np.ndarray)
    assert high.dtype == low.dtype == np.float64
    np.testing.assert_allclose(high, np.log(np.mean(np.exp(weights), 1)))
    np.testing.assert_allclose(low, np.log(np.mean(np.exp(fresh), 1)))
    compiled = jax.jit(bounds.high_and_low, static_argnums=2)
    made = compiled(jnp.asarray(log_sum), jnp.asarray(own), 6)
    for found, expected in zip(made, (high, low), strict=True):
        assert isinstance(found, jax.Array)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(("draws", "mixing", "name"), [(0, 5, "num_draws"), (5, -1, "num_mixing")])
def test_counts_must_be_positive(draws, mixing, name, getkey):
    oracle = make_oracle()
    with pytest.raises(ValueError, match=f"`{name}` to be a positive whole number"):
        bounds.evaluate(getkey(), oracle.family, oracle.target, draws, mixing)
    with pytest.raises(ValueError, match=f"`{name}` to be a positive whole number"):
        bounds.paper_elbo(getkey(), oracle.family, oracle.target, num_draws=draws, num_mixing=mixing)


def test_amortised_families_are_refused(getkey):
    net = MLP.create(getkey(), 1, 2, context_dim=3, width=4)
    family = SemiImplicit(StandardNormal(1), Gaussian(net, LogScale.create(2)))
    with pytest.raises(ValueError, match="family without context"):
        bounds.evaluate(getkey(), family, Density(jnp.sum, 2), 5, 5)


class WithoutDensity(eqx.Module):
    """A family that no bound knows."""


def test_families_without_density_are_refused():
    with pytest.raises(TypeError, match="expected a family with a density or a SemiImplicit"):
        bounds.need_known.__wrapped__(WithoutDensity())
