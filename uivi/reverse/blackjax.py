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
from uivi.reverse.base import AbstractPerDrawSampler, rejected_nonfinite, uniform_weights
from uivi.reverse.proposals import FittedProposal, from_mixing
from uivi.reverse.step_size import AbstractStepSize, AdaptBetween


def acceptance_rate(info: Any) -> Scalar:
    """Returns the acceptance rate as most of BlackJAX's kernels report it."""
    return info.acceptance_rate


class BlackJAX(AbstractPerDrawSampler):
    """A BlackJAX algorithm with a step size, run from the generating ε.

    Args:
        algorithm: called as `algorithm(log_density, step_size)`, returns BlackJAX's `init`/`step` pair.
            Pass `blackjax.mala` and `blackjax.barker` as they are; give others their metric:
            `lambda f, h: blackjax.nuts(f, h, inverse_mass_matrix=jnp.ones(noise_dim))`. The algorithm must
            leave exp(log_density) invariant, which rules out `blackjax.mclmc` and anything that adapts as it
            runs.
        num_burnin: transitions thrown away.
        num_draws: transitions kept.
        step_size: rule by which the step size starts and adapts.
        acceptance: reads the acceptance probability from the info of a transition. For kernels that always
            move, such as slice samplers, pass `lambda info: 1.0` and `uivi.reverse.FixedStep`.
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
        """Returns the first step size."""
        del key, family
        return self.step_size.init()

    def kernel(
        self, key: Key, family: SemiImplicit, draw: Draw, context: Array | None, state: Scalar
    ) -> tuple[ReverseDraws, ReverseInfo, Scalar]:
        """Runs one chain from the generating ε."""
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
        weights = uniform_weights(self.num_draws, eps.dtype)
        unknown = jnp.full_like(acceptance, jnp.nan)
        info = ReverseInfo(acceptance, unknown, unknown, jnp.sum(bad))
        return ReverseDraws(eps[self.num_burnin :], weights, end.position), info, acceptance

    def adapt(self, state: Scalar, draws: Draw, contexts: Array | None, memos: Array) -> Scalar:
        """Applies the rule's change between updates."""
        del draws, contexts
        return self.step_size.between(state, jnp.mean(memos).astype(state.dtype))

    def fitted_proposal(self, state: Scalar) -> FittedProposal:
        """Returns q(ε): the chain learns no proposal."""
        del state
        return from_mixing()
