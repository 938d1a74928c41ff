"""One row per way to set up a reverse sampler; every exported sampler must have one."""

from collections.abc import Callable
from typing import NamedTuple

import blackjax
import jax
import jax.numpy as jnp

from uivi.reverse import (
    HMC,
    ISIR,
    AbstractReverseSampler,
    AdaptBetween,
    AuthorsRule,
    BlackJAX,
    Compose,
    Coupled,
    Exact,
    FixedStep,
    FromMixing,
    Importance,
    Learned,
    LearnedFlow,
)
from uivi.testing import trained_state


class Row(NamedTuple):
    """How to make a sampler for a noise dimension, and how to get the state it is tested with.

    Attributes:
        make: `noise_dim -> sampler`.
        num_updates: updates by which the state is adapted before the test.
        disturb: changes the state afterwards.
        invariant: whether the kernel is exactly invariant for q(ε|z).
        linear_only: whether it needs a `LinearGaussian` conditional.
    """

    make: Callable[[int], AbstractReverseSampler]
    num_updates: int = 0
    disturb: Callable = lambda state: state
    invariant: bool = True
    linear_only: bool = False

    def state(self, key, sampler, family, contexts=None):
        """The state the row is tested with."""
        return self.disturb(trained_state(key, sampler, family, self.num_updates, contexts))


def _blackjax(kernel: Callable, **settings) -> Row:
    """One transition of `kernel(log_density, step_size, metric)`."""

    def make(noise_dim: int) -> AbstractReverseSampler:
        metric = jnp.ones(noise_dim)
        return BlackJAX(lambda f, h: kernel(f, h, metric), 0, 1, FixedStep(0.5), **settings)

    return Row(make)


def _elliptical_slice(log_density, step_size, metric):
    """Its prior is q(ε) = N(0, I), so the density without it."""
    del step_size
    without_prior = lambda eps: log_density(eps) + 0.5 * eps @ eps
    return blackjax.elliptical_slice(without_prior, mean=jnp.zeros_like(metric), cov=metric)


BLACKJAX = {
    "blackjax-hmc": _blackjax(lambda f, h, metric: blackjax.hmc(f, h, metric, 3)),
    "blackjax-nuts": _blackjax(lambda f, h, metric: blackjax.nuts(f, h, metric, max_num_doublings=3)),
    "blackjax-ghmc": _blackjax(lambda f, h, metric: blackjax.ghmc(f, h, metric, 0.5, 0.3)),
    "blackjax-barker": _blackjax(lambda f, h, metric: blackjax.barker(f, h)),
    "blackjax-random-walk": _blackjax(
        lambda f, h, metric: blackjax.additive_step_random_walk.normal_random_walk(f, h * metric)
    ),
    "blackjax-elliptical-slice": _blackjax(_elliptical_slice, acceptance=lambda info: 1.0),
    "blackjax-mala": Row(
        lambda _: BlackJAX(blackjax.mala, 1, 1, AdaptBetween(0.01, target=0.6, rate=0.5)),
        num_updates=30,
    ),
}


def _disturb_net(state):
    """A proposal that was never fitted: large random weights, so that it is badly wrong."""
    leaves, treedef = jax.tree.flatten(state.net)
    keys = jax.random.split(jax.random.key(17), len(leaves))
    leaves = [x + 0.3 * jax.random.normal(k, x.shape) for x, k in zip(leaves, keys, strict=True)]
    return state._replace(net=jax.tree.unflatten(treedef, leaves))


LEARNED = Learned(width=16, learning_rate=1e-2)
FLOW = LearnedFlow(num_layers=4, width=16, learning_rate=1e-2)

SAMPLERS = {
    "exact": Row(lambda _: Exact(2), linear_only=True),
    "hmc": Row(lambda _: HMC(1, 2, 3, FixedStep(0.4))),
    "hmc-large-step": Row(lambda _: HMC(0, 2, 1, FixedStep(1.0))),
    "hmc-adapted": Row(lambda _: HMC(1, 1, 3, AdaptBetween(0.05, rate=0.3)), num_updates=30),
    # Not exactly invariant by itself; over thousands of chains one chain's part in the step vanishes.
    "hmc-authors": Row(lambda _: HMC(3, 2, 3, AuthorsRule(0.5))),
    **BLACKJAX,
    "isir-mixing": Row(lambda _: ISIR(4, 2, FromMixing())),
    "isir-untrained": Row(lambda _: ISIR(3, 2, LEARNED), disturb=_disturb_net),
    "isir-trained": Row(lambda _: ISIR(3, 1, LEARNED), num_updates=200),
    "isir-widened": Row(
        lambda _: ISIR(3, 1, Learned(width=16, learning_rate=1e-2, inflation=1.5)), num_updates=200
    ),
    "isir-flow": Row(lambda _: ISIR(3, 1, FLOW), num_updates=200),
    "isir-squared-start": Row(
        lambda _: ISIR(200, 1, LEARNED, start_power=2.0), num_updates=200, invariant=False
    ),
    "compose": Row(
        lambda _: Compose(ISIR(3, 1, LEARNED), HMC(0, 2, 2, FixedStep(0.4)), ISIR(3, 1, FromMixing()))
    ),
    # Exactly unbiased in the weighted mean; where its leading chain ends is not a draw of q(ε|z).
    "coupled-mixing": Row(lambda _: Coupled(12, FromMixing()), invariant=False),
    "coupled-learned": Row(
        lambda _: Coupled(12, Learned(width=16, learning_rate=1e-2, inflation=1.2)),
        num_updates=200,
        invariant=False,
    ),
    "importance-mixing": Row(lambda _: Importance(400, FromMixing()), invariant=False),
    "importance-learned": Row(lambda _: Importance(200, LEARNED), num_updates=200, invariant=False),
}
