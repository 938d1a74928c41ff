"""Any BlackJAX kernel as a reverse sampler."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from uivi import _checks
from uivi._jax import ordinary_promotion
from uivi._types import Draw, Key, ReverseDraws, ReverseInfo, Scalar
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.base import AbstractReverseSampler, rejected_nonfinite, uniform_log_weights
from uivi.reverse.step_size import AbstractStepSize, AdaptBetween


def acceptance_rate(info: Any) -> Scalar:
    """As most of BlackJAX's kernels report it."""
    return info.acceptance_rate


class BlackJAX(AbstractReverseSampler):
    """A BlackJAX algorithm with a step size, run from the generating ε.

    Args:
        algorithm: called as `algorithm(log_density, step_size)`, returns BlackJAX's `init`/`step` pair.
            `blackjax.mala` and `blackjax.barker` can be passed as they are; name the metric of others:
            `lambda f, h: blackjax.nuts(f, h, inverse_mass_matrix=jnp.ones(noise_dim))`. It must leave
            exp(log_density) invariant: not `blackjax.mclmc`, nor what adapts on the way.
        num_burnin: transitions thrown away.
        num_draws: transitions kept.
        step_size: how the step size starts and adapts.
        acceptance: reads the acceptance probability from the info of a transition; for kernels that always
            move (slices) `lambda info: 1.0`, with `uivi.reverse.FixedStep`.
    """

    algorithm: Callable = eqx.field(static=True)
    num_burnin: int = eqx.field(static=True, default=5)
    num_draws: int = eqx.field(static=True, default=5)
    step_size: AbstractStepSize = eqx.field(default_factory=AdaptBetween)
    acceptance: Callable = eqx.field(static=True, default=acceptance_rate)

    def __check_init__(self):
        _checks.positive_int("num_burnin + 1", self.num_burnin + 1)
        _checks.positive_int("num_draws", self.num_draws)

    def init(self, key: Key, family: SemiImplicit) -> Scalar:
        """The step size."""
        del key, family
        return self.step_size.init()

    def kernel(
        self, key: Key, family: SemiImplicit, draw: Draw, context: Array | None, state: Scalar
    ) -> tuple[ReverseDraws, ReverseInfo, Scalar]:
        """One chain from the generating ε."""
        density = family.reverse_log_density(draw.z, draw.eps, context)
        algorithm = self.algorithm(density, state.astype(draw.eps.dtype))

        def transition(chain, key):
            chain, info = algorithm.step(key, chain)
            rate = jnp.asarray(self.acceptance(info), draw.eps.dtype)
            return chain, (chain.position, rate, rejected_nonfinite(family, chain.position, rate))

        keys = jax.random.split(key, self.num_burnin + self.num_draws + 1)
        with ordinary_promotion():
            start = algorithm.init(draw.eps, keys[-1])
            end, (eps, rate, bad) = jax.lax.scan(transition, start, keys[:-1])
        acceptance = jnp.mean(jnp.where(jnp.isfinite(rate), rate, 0.0))
        weights = uniform_log_weights(self.num_draws, eps.dtype)
        info = ReverseInfo(acceptance, jnp.full_like(acceptance, jnp.nan), jnp.sum(bad))
        return ReverseDraws(eps[self.num_burnin :], weights, end.position), info, acceptance

    def adapt(self, state: Scalar, draws: Draw, contexts: Array | None, memos: Array) -> Scalar:
        """The rule's change between updates."""
        del draws, contexts
        return self.step_size.between(state, jnp.mean(memos).astype(state.dtype))
