"""IWHVI against quadrature of its own bound, against SIVI, and against the ELBO where τ is exact."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.estimators.test_sivi import (
    NUM_ESTIMATES,
    bound_gradient,
    elbo_gradient,
)
from uivi.estimators import IWHVI, SIVI
from uivi.evaluation import bracket, evaluate
from uivi.families import LinearGaussian
from uivi.reverse import AbstractProposal, Amortised, FromMixing, Learned, LearnedFlow, from_mixing
from uivi.reverse.proposals import AbstractProposalAt
from uivi.testing import (
    assert_mean,
    assert_not_mean,
    exact_gradient,
    flat,
    gauss_hermite,
    gradient_samples,
    line_log_density,
    make_line_oracle,
    make_oracle,
    negative_elbo,
)


class NormalAt(AbstractProposalAt):
    """N(mean, factor factorᵀ)."""

    mean: jax.Array
    factor: jax.Array

    def sample(self, key, num):
        return self.mean[None] + jax.random.normal(key, (num, len(self.mean))) @ self.factor.T

    def log_prob(self, eps):
        u = jnp.linalg.solve(self.factor, eps - self.mean)
        log_det = jnp.linalg.slogdet(self.factor)[1]
        return -0.5 * jnp.sum(u**2) - log_det - 0.5 * len(u) * jnp.log(2 * jnp.pi)


class AbstractTau(AbstractProposal):
    """A proposal that learns nothing from pairs."""

    def inputs(self, family, z, context):
        del family, z, context
        return ()

    def adapt(self, state, eps, inputs):
        del eps, inputs
        return state


class AffineTau(AbstractTau):
    """N(slope z + shift, scale²) for one ε and one z, a little off the reverse conditional."""

    def init(self, key, family):
        del key, family
        return jnp.array([0.4, 0.1, -0.3])

    def at(self, family, z, context, state):
        del family, context
        slope, shift, log_scale = state
        return NormalAt(slope * z + shift, jnp.exp(log_scale)[None, None])


class ExactTau(AbstractTau):
    """The reverse conditional of a `LinearGaussian`, with its mean turned by a factor; it is not trained."""

    turn: float = eqx.field(static=True, default=1.0)

    def init(self, key, family):
        del key, family
        return ()

    def at(self, family, z, context, state):
        del context, state
        # Held: a learned τ does not know the parameters of q either.
        mean, covariance = jax.lax.stop_gradient(family.conditional).reverse(z)
        return NormalAt(self.turn * mean, jnp.linalg.cholesky(covariance))


class SiviAt(AbstractProposalAt):
    """Draws of q(ε) by the very numbers that SIVI uses."""

    mixing: eqx.Module

    def sample(self, key, num):
        return jax.vmap(self.mixing.sample)(jax.random.split(key, num))

    def log_prob(self, eps):
        return self.mixing.log_prob(eps)


class SiviTau(AbstractTau):
    def init(self, key, family):
        del key, family
        return ()

    def at(self, family, z, context, state):
        del z, context, state
        return SiviAt(family.mixing)


def negative_bound(conditional: LinearGaussian, tau, num_proposals: int):
    """The bound by Gauss-Hermite quadrature over u, ε and the draws of τ."""
    points, weights = gauss_hermite(2 + num_proposals)
    normal = lambda x: -0.5 * x**2 - 0.5 * jnp.log(2 * jnp.pi)

    def integrand(point):
        u, eps, v = point[0], point[1], point[2:]
        z = conditional.weight[0, 0] * eps + conditional.bias[0] + conditional.scale[0] * u
        mean, scale = tau[0] * z + tau[1], jnp.exp(tau[2])
        every = jnp.concatenate([eps[None], mean + scale * v])
        residual = (z - conditional.weight[0, 0] * every - conditional.bias[0]) / conditional.scale[0]
        log_tau = normal((every - mean) / scale) - tau[2]
        log_weights = normal(residual) - jnp.log(conditional.scale[0]) + normal(every) - log_tau
        return line_log_density(z[None]) - jax.nn.logsumexp(log_weights) + jnp.log(1.0 + num_proposals)

    return -jnp.sum(weights * jax.vmap(integrand)(points))


def params():
    return tuple(make_line_oracle())


def both_gradients(key, estimator, num):
    """Independent gradients in the family and in τ. Adam's first moment holds a tenth of the latter."""
    state = estimator.init(key, *params())

    def one(key):
        estimate = estimator.estimate(key, params(), (), jnp.asarray(0), state)
        return jnp.concatenate([flat(estimate.grads[0]), 10 * flat(estimate.state.opt_state[0].mu)])

    return jax.jit(jax.vmap(one))(jax.random.split(key, num))


@pytest.mark.parametrize("num_proposals", [0, 1])
def test_gradient_of_the_bound_in_family_and_proposal(num_proposals, x64, getkey):
    """K = 0 is the hierarchical variational model. All are biased for the ELBO, visibly."""
    estimator = IWHVI(4, num_proposals, AffineTau())
    samples = both_gradients(getkey(), estimator, NUM_ESTIMATES)
    tau = AffineTau().init(None, None)
    exact = jax.grad(negative_bound, (0, 1))(make_line_oracle().conditional, tau, num_proposals)
    assert_mean(samples, flat(exact), max_stderr=0.015)
    assert_not_mean(samples[:, :3], elbo_gradient())
    other = jax.grad(negative_bound, (0, 1))(make_line_oracle().conditional, tau, 1 - num_proposals)
    assert_not_mean(samples, flat(other))


def test_draws_of_the_mixing_distribution_make_it_sivi(x64, getkey):
    """Draw by draw with the same numbers, and on average with its own."""
    key = getkey()
    ours = gradient_samples(key, IWHVI(4, 2, SiviTau()), params(), 20)
    np.testing.assert_allclose(ours, gradient_samples(key, SIVI(4, 2), params(), 20), rtol=1e-10)
    samples = gradient_samples(getkey(), IWHVI(4, 2, FromMixing()), params(), NUM_ESTIMATES)
    assert_mean(samples, bound_gradient(2), max_stderr=0.015)
    assert_not_mean(samples, bound_gradient(1))


@pytest.mark.parametrize("num_proposals", [0, 1, 5])
def test_the_reverse_conditional_makes_the_bound_tight(num_proposals, x64, getkey):
    oracle = make_oracle()
    exact = exact_gradient(negative_elbo, oracle.conditional)
    run = lambda tau: gradient_samples(getkey(), IWHVI(4, num_proposals, tau), tuple(oracle), NUM_ESTIMATES)
    assert_mean(run(ExactTau()), exact, max_stderr=0.04)
    assert_not_mean(run(ExactTau(turn=-1.0)), exact)


def test_bias_falls_with_the_number_of_proposals(x64, getkey):
    """About as 1/K: a fault of 0.04 at K = 20 is one of 0.005 at K = 160."""
    few, many = (
        gradient_samples(getkey(), IWHVI(4, num, AffineTau()), params(), NUM_ESTIMATES) for num in (20, 160)
    )
    assert_not_mean(few, elbo_gradient())
    assert_mean(few, elbo_gradient(), max_stderr=0.015, bias=0.05)
    assert_mean(many, elbo_gradient(), max_stderr=0.015, bias=0.008)


@eqx.filter_jit
def trained_proposal(key, estimator, num_updates):
    """The state after so many updates with a fixed family."""

    def update(state, key):
        return estimator.estimate(key, params(), (), jnp.asarray(0), state).state, None

    return jax.lax.scan(update, estimator.init(key, *params()), jax.random.split(key, num_updates))[0]


def test_the_bound_trains_a_good_proposal(x64, getkey):
    """With two draws of the trained τ the largest bias falls from 0.51 to 0.07; what is left is noise in τ."""
    estimator = IWHVI(32, 2, Amortised(width=16, depth=1), learning_rate=5e-3)
    state = trained_proposal(getkey(), estimator, 2_000)
    samples = gradient_samples(getkey(), estimator, params(), NUM_ESTIMATES, state=state)
    assert_mean(samples, elbo_gradient(), max_stderr=0.015, bias=0.08)
    fresh = gradient_samples(getkey(), estimator, params(), NUM_ESTIMATES)
    with pytest.raises(AssertionError, match="mean is off by"):
        assert_mean(fresh, elbo_gradient(), max_stderr=0.015, bias=0.08)
    fitted, plain = estimator.fitted_proposal(state), from_mixing()
    assert gap(getkey(), fitted) < 0.02
    assert gap(getkey(), plain) > 0.1


def gap(key, proposal):
    """Width of the library's bracket of the ELBO with five draws of a proposal."""
    lower, upper = bracket(evaluate(key, *params(), proposal=proposal, num_draws=4_096, num_mixing=5))
    return upper.mean - lower.mean


def test_bad_arguments():
    for proposal in (Learned(), LearnedFlow()):
        name = type(proposal).__name__
        with pytest.raises(TypeError, match=f"can train, got {name}, .*use uivi.reverse.Amortised"):
            IWHVI(proposal=proposal)
    with pytest.raises(ValueError, match="`num_proposals` to be a positive whole number, got -1"):
        IWHVI(num_proposals=-1)
    with pytest.raises(ValueError, match="`width` to be a positive whole number, got 0"):
        Amortised(width=0)
