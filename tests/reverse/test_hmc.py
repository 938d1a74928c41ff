"""Our HMC against BlackJAX's, its cost, its step sizes, and what it does at the edge."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uivi.families import MLP, Gaussian, LogScale, SemiImplicit, StandardNormal
from uivi.families.conditionals import AbstractSimpleConditional
from uivi.reverse import HMC, AdaptBetween, AuthorsRule, BlackJAX, FixedStep, sample_reverse
from uivi.testing import compiled_reverse, draw_pairs, make_oracle


def nonlinear_family(key):
    net = MLP.create(key, 3, 2, width=10, activation=jnp.tanh)
    return SemiImplicit(StandardNormal(3), Gaussian(net, LogScale.create(2, 0.4)))


@pytest.mark.parametrize("step", [0.15, 0.6])
def test_draws_equal_those_of_blackjax(step, x64, getkey):
    """Same keys, same chain, transition by transition; the large step also tests the rejections."""
    family = nonlinear_family(getkey())
    pairs = draw_pairs(getkey(), family, 40)

    def algorithm(log_density, step_size):
        return blackjax.hmc(log_density, step_size, jnp.ones(3), num_integration_steps=4)

    ours = HMC(num_burnin=2, num_draws=6, num_leapfrog=4, step_size=FixedStep(step))
    theirs = BlackJAX(algorithm, num_burnin=2, num_draws=6, step_size=FixedStep(step))
    key = getkey()
    run = lambda s: compiled_reverse(key, s, family, pairs, None, s.init(key, family))
    a, b = run(ours), run(theirs)
    np.testing.assert_allclose(a.draws.eps, b.draws.eps, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(a.draws.last, b.draws.last, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(a.info.acceptance, b.info.acceptance, rtol=1e-9)
    np.testing.assert_array_equal(a.draws.last, a.draws.eps[:, -1])
    assert (np.mean(a.info.acceptance) < 0.9) == (step == 0.6)


CALLS = []


class Counted(AbstractSimpleConditional):
    """N(ε, I), noting each evaluation of its density."""

    @property
    def dim(self) -> int:
        return 2

    @property
    def noise_dim(self) -> int:
        return 2

    def sample(self, key, eps, context=None):
        return eps + jax.random.normal(key, (2,))

    def log_prob(self, z, eps, context=None):
        jax.debug.callback(CALLS.append, eps[0])
        return -0.5 * jnp.sum((z - eps) ** 2) - jnp.log(2 * jnp.pi)


def test_the_papers_chain_takes_51_gradients(getkey):
    family = SemiImplicit(StandardNormal(2), Counted())
    pairs = draw_pairs(getkey(), family, 1)
    sampler = HMC(num_burnin=5, num_draws=5, num_leapfrog=5, step_size=FixedStep(0.2))
    CALLS.clear()
    sample_reverse(getkey(), sampler, family, pairs, None, sampler.init(getkey(), family))
    jax.effects_barrier()
    assert len(CALLS) == 51


def test_fixed_step_stays():
    rule = FixedStep(0.3)
    assert rule.within(rule.init(), jnp.asarray(0.1)) == rule.init()
    assert rule.between(rule.init(), jnp.asarray(0.1)) == rule.init()


def test_adaptation_between_updates_finds_the_target_rate(getkey):
    """It changes nothing within a chain, so every kernel used is invariant."""
    rule = AdaptBetween(initial=0.01, target=0.8, rate=0.2)
    assert rule.within(rule.init(), jnp.asarray(0.0)) == rule.init()
    family = nonlinear_family(getkey())
    sampler = HMC(0, 2, 3, rule)

    @jax.jit
    def update(state, key):
        pairs = draw_pairs(key, family, 64)
        reverse = sample_reverse(key, sampler, family, pairs, None, state)
        return reverse.state, jnp.mean(reverse.info.acceptance)

    state, rates = jax.lax.scan(update, rule.init(), jax.random.split(getkey(), 150))
    assert 0.05 < state < 2.0
    np.testing.assert_allclose(jnp.mean(rates[-50:]), 0.8, atol=0.03)


def test_step_size_stays_within_its_bounds():
    rule = AdaptBetween(initial=0.2, rate=10.0, lowest=0.1, highest=0.3)
    np.testing.assert_allclose(rule.between(rule.init(), jnp.asarray(1.0)), 0.3, rtol=1e-6)
    np.testing.assert_allclose(rule.between(rule.init(), jnp.asarray(0.0)), 0.1, rtol=1e-6)


def test_authors_rule(x64, getkey):
    """step += 0.01 ((a - 0.9)/0.9) step after each burn-in transition; the last step size persists."""
    family = make_oracle().family
    pairs = draw_pairs(getkey(), family, 16)
    key = getkey()
    # Tiny steps are always accepted, huge ones never; draws after the burn-in change nothing.
    for initial, expected in ((1e-3, 1e-3 * (1 + 0.01 / 9) ** 3), (1e3, 1e3 * 0.99**3)):
        sampler = HMC(3, 2, 2, AuthorsRule(initial))
        reverse = compiled_reverse(key, sampler, family, pairs, None, sampler.init(key, family))
        np.testing.assert_allclose(reverse.state, expected, rtol=1e-4)


def test_nonfinite_proposals_are_rejected_and_counted(getkey):
    """A step so large that the energy overflows: the chain stays at its start and says so."""
    family = make_oracle().family
    pairs = draw_pairs(getkey(), family, 8)
    sampler = HMC(1, 2, 3, FixedStep(1e15))
    state = sampler.init(getkey(), family)
    reverse = compiled_reverse(getkey(), sampler, family, pairs, None, state)
    np.testing.assert_array_equal(reverse.draws.last, pairs.eps)
    np.testing.assert_array_equal(reverse.info.acceptance, 0.0)
    np.testing.assert_array_equal(reverse.info.nonfinite, 3.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HMC(num_burnin=-1), "num_burnin"),
        (lambda: HMC(num_draws=0), "`num_draws` to be a positive whole number, got 0"),
        (lambda: HMC(num_leapfrog=0), "num_leapfrog"),
        (lambda: BlackJAX(blackjax.mala, num_draws=0), "num_draws"),
        (lambda: FixedStep(0.0), "`initial` to be positive and finite, got 0.0"),
        (lambda: FixedStep(float("nan")), "initial"),
        (lambda: AdaptBetween(rate=-1.0), "rate"),
        (lambda: AdaptBetween(lowest=0.0), "lowest"),
        (lambda: AuthorsRule(initial=0.0), "initial"),
        (lambda: AuthorsRule(target=0.0), "target"),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()
