"""The role of a reverse sampler: Markov (or importance) draws of q(ε|z) from the ε that made z."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from uivi._types import Draw, Key, ReverseDraws, ReverseInfo, Scalar
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.proposals import FittedProposal, FromMixing

CHAINS = "chains"
"""Name of the axis of draws, for kernels that average over the chains of an update."""


class AbstractReverseSampler(eqx.Module):
    """Draws ε′ ~ q(ε|z), started at the ε that made z, so in stationarity (paper, Section 2.3).

    `kernel` acts on one draw with the state fixed, so a kernel that is invariant for q(ε|z) stays exactly
    invariant; `adapt` then changes the state (step size, learned proposal) between updates.
    """

    def init(self, key: Key, family: SemiImplicit) -> PyTree:
        """The state carried between updates."""
        raise NotImplementedError

    def kernel(
        self, key: Key, family: SemiImplicit, draw: Draw, context: Array | None, state: PyTree
    ) -> tuple[ReverseDraws, ReverseInfo, PyTree]:
        """Draws for one (z, ε), their info, and a memo for `adapt`."""
        raise NotImplementedError

    def kernels(
        self, keys: Array, family: SemiImplicit, draws: Draw, contexts: Array | None, state: PyTree
    ) -> tuple[ReverseDraws, ReverseInfo, PyTree]:
        """`kernel` of N draws; to be overridden where a device does many of them better in another way."""
        one = lambda key, draw, context: self.kernel(key, family, draw, context, state)  # noqa: E731
        return jax.vmap(one, axis_name=CHAINS)(keys, draws, contexts)

    def adapt(self, state: PyTree, draws: Draw, contexts: Array | None, memos: PyTree) -> PyTree:
        """The next state, from all draws of the update and the memos of their kernels."""
        raise NotImplementedError

    def fitted_proposal(self, state: PyTree) -> FittedProposal:
        """The best proposal for q(ε|z) that the sampler knows, for bounds: q(ε) unless it learns one."""
        del state
        return FittedProposal(FromMixing(), ())


class Reversed(eqx.Module):
    """What one update gets from a reverse sampler: draws, per-chain info, next state."""

    draws: ReverseDraws
    info: ReverseInfo
    state: Any


def sample_reverse(
    key: Key,
    sampler: AbstractReverseSampler,
    family: SemiImplicit,
    draws: Draw,
    contexts: Float[Array, "N C"] | None,
    state: PyTree,
) -> Reversed:
    """Run the sampler's kernel on N draws at once, then let it adapt."""
    keys = jax.random.split(key, draws.z.shape[0])
    reverse, info, memos = sampler.kernels(keys, family, draws, contexts, state)
    return Reversed(reverse, info, sampler.adapt(state, draws, contexts, memos))


def jump(family: SemiImplicit, draw: Draw, reverse: ReverseDraws) -> Scalar:
    """Mean squared distance of ε′ from ε over that of two independent draws of q(ε): 0 is stuck."""
    squares = jnp.sum((reverse.eps - draw.eps[None]) ** 2, -1)
    typical = 2 * family.mixing.variance() * family.noise_dim
    return jnp.sum(jnp.exp(reverse.log_weights) * squares) / typical


def rejected_nonfinite(family: SemiImplicit, eps: Array, energy: Scalar) -> Scalar:
    """1 for a non-finite energy inside the support of q(ε), else 0."""
    outside = family.mixing.log_prob(eps) == -jnp.inf
    return jnp.where(~jnp.isfinite(energy) & ~outside, 1.0, 0.0).astype(energy.dtype)


def uniform_log_weights(num_draws: int, dtype) -> Float[Array, "M"]:
    """Normalised log weights of equally weighted draws."""
    return jnp.full((num_draws,), -jnp.log(num_draws), dtype)
