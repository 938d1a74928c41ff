"""Gradients with an implicit prior, in its parameters and in those of q, against closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.estimators.table import explicit_family
from tests.priors.table import rows, vamp
from tests.reverse.table import LEARNED
from uivi._types import ReverseDraws, ReverseInfo
from uivi.estimators import UIVI, PriorScore
from uivi.estimators.marginal_score import surrogate
from uivi.estimators.prior_score import _Scored
from uivi.priors import Bounded, FixedImplicit, Implicit, NoisySite
from uivi.reverse import AbstractPerDrawSampler, Coupled, Exact, FromMixing, Importance, Learned, from_mixing
from uivi.targets import Observed
from uivi.testing import (
    Blind,
    Negated,
    assert_mean,
    assert_not_mean,
    flat,
    gradient_samples,
    make_doubly_oracle,
    make_linear_prior,
    make_oracle,
    negative_doubly_elbo,
)
from uivi.trainable import Frozen

NUM_ESTIMATES = 6_000
MAX_STDERR = 0.04
INNER = UIVI(4, Exact(2))
BOUND_BIAS = 0.15
"""Declared bias of the gradient of the bound with 50 draws, in any parameter of q or of the prior."""
LEARNED_BIAS = 0.13
"""The same of six importance draws, half of them from a learned proposal."""


def exact():
    """Closed form of the gradient in the parameters of q, then in those of the prior."""
    conditionals = make_doubly_oracle().family.conditional, make_linear_prior().conditional
    return flat(jax.grad(negative_doubly_elbo)(conditionals))


def samples_of(key, estimator, num_draws=2, state=None):
    params = tuple(make_doubly_oracle(num_draws))
    return gradient_samples(key, estimator, params, NUM_ESTIMATES, state=state, pick=lambda grads: grads)


def test_exact_draws_give_the_gradient_in_both(x64, getkey):
    samples = samples_of(getkey(), PriorScore(INNER, Exact(2)))
    assert_mean(samples, exact(), max_stderr=MAX_STDERR)
    assert_not_mean(-samples, exact())


def test_a_prior_known_by_its_draws_gives_the_gradient_in_q_alone(x64, getkey):
    """A posterior whose prior is a simulator: the gradient in q is the same, and the prior has none."""
    family, bounded = make_doubly_oracle()
    prior = FixedImplicit.create(make_linear_prior())
    params = family, eqx.tree_at(lambda target: target.target.prior, bounded, prior)
    pick = lambda grads: grads
    samples = gradient_samples(getkey(), PriorScore(INNER, Exact(2)), params, NUM_ESTIMATES, pick=pick)
    size = flat(family).size
    assert samples.shape[1] == size
    assert_mean(samples, exact()[:size], max_stderr=MAX_STDERR)
    wrong = gradient_samples(getkey(), PriorScore(INNER, Blind()), params, NUM_ESTIMATES, pick=pick)
    assert_not_mean(wrong, exact()[:size])


@pytest.mark.parametrize(("most_steps", "is_whole"), [(2, False), (1_000, True)])
def test_chains_that_are_given_up_are_counted(most_steps, is_whole, getkey):
    """One proposal a step: most pairs have not met after two."""
    estimator = PriorScore(INNER, Coupled(1, FromMixing(), most_steps=most_steps))
    params = make_doubly_oracle()
    state = estimator.init(getkey(), *params)
    sites = params[1].sites(getkey(), jnp.asarray(0))
    info = eqx.filter_jit(estimator.estimate)(getkey(), tuple(params), sites, jnp.asarray(0), state).info
    assert (info.nonfinite == 0) == is_whole


@pytest.mark.parametrize("sampler", [Blind(), Negated()], ids=lambda s: type(s).__name__)
def test_wrong_draws_are_noticed_in_both(sampler, x64, getkey):
    """Draws from p(ζ) instead of p(ζ|z), or mirrored."""
    samples = samples_of(getkey(), PriorScore(INNER, sampler))
    size = flat(make_doubly_oracle().family).size
    assert_not_mean(samples[:, :size], exact()[:size])
    assert_not_mean(samples[:, size:], exact()[size:])


def test_the_bound_is_biased_and_less_with_more_draws(x64, getkey):
    """The gradient of the bound is that of another objective, by O(1/K)."""
    few, many = (samples_of(getkey(), INNER, num_draws) for num_draws in (5, 50))
    assert_not_mean(few, exact())
    assert_mean(many, exact(), max_stderr=MAX_STDERR, bias=BOUND_BIAS)
    assert worst(few) > 5 * worst(many)


def worst(samples):
    """The largest deviation of the mean from the exact gradient."""
    return np.max(np.abs(np.mean(samples, 0) - exact()))


def learned_state(key, estimator, num_updates=300):
    """The state after updates of the estimator itself: its sampler learns from pairs of the prior."""
    params = tuple(make_doubly_oracle())
    init_key, run_key = jax.random.split(key)

    @jax.jit
    def run(state, keys):
        def update(state, key):
            sites = params[1].sites(key, jnp.asarray(0))
            return estimator.estimate(key, params, sites, jnp.asarray(0), state).state, None

        return jax.lax.scan(update, state, keys)[0]

    return run(estimator.init(init_key, *params), jax.random.split(run_key, num_updates))


def test_a_learned_proposal_takes_most_of_the_bias_away(x64, getkey):
    """Of six draws: those from p(ζ) give the gradient of the bound, which is far off."""
    estimator = PriorScore(INNER, Importance(6, LEARNED))
    samples = samples_of(getkey(), estimator, state=learned_state(getkey(), estimator))
    assert_mean(samples, exact(), max_stderr=MAX_STDERR, bias=LEARNED_BIAS)
    plain = samples_of(getkey(), PriorScore(INNER, Importance(6, FromMixing())))
    assert_not_mean(plain, exact())
    assert worst(plain) > 5 * worst(samples)


def test_coupled_chains_give_the_gradient_without_bias(x64, getkey):
    """They need no exact start. Importance sampling from the same proposals is the control."""
    wide = Learned(width=16, learning_rate=1e-2, prior_share=0.1, inflation=1.2)
    coupled, plain = (PriorScore(INNER, make(6, wide)) for make in (Coupled, Importance))
    samples = samples_of(getkey(), coupled, state=learned_state(getkey(), coupled))
    assert_mean(samples, exact(), max_stderr=MAX_STDERR)
    assert_not_mean(samples_of(getkey(), plain, state=learned_state(getkey(), plain)), exact())


def test_draws_from_the_mixing_give_the_gradient_of_the_bound(x64, getkey):
    """Weighted by importance, number by number: the bound is the special case of a proposal p(ζ)."""
    prior, z = make_linear_prior(), jnp.array([0.7, -0.4])
    zeta = jax.random.normal(getkey(), (6, 2))

    def bound(prior, z):
        return jax.nn.logsumexp(jax.vmap(prior.conditional.log_prob_of(z))(zeta))

    weights = jax.nn.softmax(jax.vmap(prior.conditional.log_prob_of(z))(zeta))
    reverse = ReverseDraws(zeta, weights, zeta[0])
    found = jax.grad(surrogate, (0, 1))(prior, z, reverse)
    expected = jax.grad(bound, (0, 1))(prior, z)
    np.testing.assert_allclose(flat(found), flat(expected), rtol=1e-10)


class AllRows(AbstractPerDrawSampler):
    """Every row of a `RowConditional`, with the exact weight of its ζ: no Monte Carlo error."""

    flip: bool = False

    def init(self, key, family):
        return ()

    def kernel(self, key, family, draw, context, state):
        number = family.conditional.num_rows
        eps = (jnp.arange(float(number)) + 0.5)[:, None] / number
        weights = jax.nn.softmax(jax.vmap(family.conditional.log_prob_of(draw.z))(eps))
        weights = weights[::-1] if self.flip else weights
        zero = jnp.zeros((), eps.dtype)
        return ReverseDraws(eps, weights, eps[0]), ReverseInfo(zero, zero, zero, zero), ()

    def adapt(self, state, draws, contexts, memos):
        return state

    def fitted_proposal(self, state):
        return from_mixing()


def scored_gradient(key, sampler, z):
    """Value and gradient of log p(z) in encoder, rows and z, as the inner estimator sees them."""
    bounded = Bounded(Observed(lambda z: jnp.zeros(()), Implicit(rows())), 7)
    scored = _Scored(bounded, Frozen.create(sampler), Frozen.create(()))
    value, grads = jax.value_and_grad(_Scored.log_joint, (0, 1), allow_int=True)(scored, z, NoisySite((), key))
    return value, flat((grads[0].bounded, grads[1]))


def test_a_mixture_prior_has_its_exact_gradient(x64, getkey):
    """In z, in the encoder and in the pseudo-inputs, without error; and the value is that of the bound."""
    z, key = jnp.array([0.6, -0.9]), getkey()
    value, found = scored_gradient(key, AllRows(), z)
    expected = flat(jax.grad(lambda prior, z: prior.log_prob(z), (0, 1))(vamp(), z))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    bounded = Bounded(Observed(lambda z: jnp.zeros(()), Implicit(rows())), 7)
    np.testing.assert_allclose(value, bounded.log_prior(jax.random.split(key)[0], z), rtol=1e-12)
    assert not np.allclose(scored_gradient(key, AllRows(flip=True), z)[1], expected, rtol=1e-2)


def test_an_infinite_slope_of_weight_zero_does_no_harm():
    prior, z = make_linear_prior(), jnp.array([0.7, -0.4])
    zeta = jnp.array([[0.1, 0.2], [jnp.inf, 0.0]])
    reverse = ReverseDraws(zeta, jnp.array([1.0, 0.0]), zeta[0])
    alone = ReverseDraws(zeta[:1], jnp.ones(1), zeta[0])
    found, expected = (jax.grad(surrogate, (0, 1))(prior, z, r) for r in (reverse, alone))
    np.testing.assert_allclose(flat(found), flat(expected), rtol=1e-5)


def test_the_proposals_of_both_reverse_conditionals_are_handed_on(getkey):
    estimator = PriorScore(UIVI(2, Importance(3, LEARNED)), Importance(3, LEARNED))
    oracle = make_doubly_oracle()
    state = estimator.init(getkey(), *oracle)
    assert estimator.fitted_proposal(state).state is state.estimator
    assert estimator.prior_proposal(state).state is state.sampler


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: PriorScore(INNER, Exact(2), 0),
            ValueError,
            "`num_pairs` to be a positive whole number, got 0",
        ),
        (lambda: PriorScore(Exact(2)), TypeError, "`estimator` to be an AbstractEstimator, got Exact"),
        (lambda: PriorScore(INNER, INNER), TypeError, "`sampler` to be an AbstractReverseSampler, got UIVI"),
        (
            lambda: PriorScore().init(jax.random.key(0), *make_oracle()),
            TypeError,
            "an implicit prior, got Density: wrap the model in uivi.priors.Bounded",
        ),
        (
            lambda: PriorScore(INNER).init(jax.random.key(0), explicit_family(), make_doubly_oracle().target),
            TypeError,
            "uivi.SemiImplicit family for UIVI",
        ),
    ],
)
def test_bad_input(make, error, message, unchecked):
    with pytest.raises(error, match=message):
        make()
