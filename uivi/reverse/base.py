"""The role of a reverse sampler: draws of q(ε|z), by a Markov chain from the ε that made z or by importance."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from uivi._types import Draw, Key, ReverseDraws, ReverseInfo, Scalar
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.proposals import FittedProposal

CHAINS = "chains"
"""Name of the mapped axis of draws, for kernels that average over the chains of an update."""


class AbstractReverseSampler(eqx.Module):
    """Draws ε′ ~ q(ε|z), starting at the ε that made z, so in stationarity (paper, Section 2.3).

    `sample` runs with the state fixed, so a kernel that leaves q(ε|z) invariant stays exactly invariant.
    `adapt` then changes the state (a step size, a learned proposal) between updates.

    Most samplers treat one draw at a time: subclass `AbstractPerDrawSampler` and write `kernel`.
    """

    @abc.abstractmethod
    def init(self, key: Key, family: SemiImplicit) -> PyTree:
        """Returns the state that is carried between updates."""

    @abc.abstractmethod
    def sample(
        self, keys: Array, family: SemiImplicit, draws: Draw, contexts: Array | None, state: PyTree
    ) -> tuple[ReverseDraws, ReverseInfo, PyTree]:
        """Returns reverse draws for N pairs (z, ε), their info, and memos for `adapt`, all with an axis N."""

    @abc.abstractmethod
    def adapt(self, state: PyTree, draws: Draw, contexts: Array | None, memos: PyTree) -> PyTree:
        """Returns the next state, given all draws of the update and the memos of `sample`."""

    @abc.abstractmethod
    def fitted_proposal(self, state: PyTree) -> FittedProposal:
        """Returns the best proposal for q(ε|z) that the sampler knows, for bounds."""


class AbstractPerDrawSampler(AbstractReverseSampler):
    """A reverse sampler that treats every draw by itself."""

    @abc.abstractmethod
    def kernel(
        self, key: Key, family: SemiImplicit, draw: Draw, context: Array | None, state: PyTree
    ) -> tuple[ReverseDraws, ReverseInfo, PyTree]:
        """Returns reverse draws for one pair (z, ε), their info, and a memo for `adapt`."""

    def sample(
        self, keys: Array, family: SemiImplicit, draws: Draw, contexts: Array | None, state: PyTree
    ) -> tuple[ReverseDraws, ReverseInfo, PyTree]:
        """Maps `kernel` over the draws."""
        return map_draws(self.kernel, keys, family, draws, contexts, state)


class Reversed(eqx.Module):
    """What one update gets from a reverse sampler: draws, info of each chain, the next state."""

    draws: ReverseDraws
    info: ReverseInfo
    state: Any


def map_draws(
    kernel, keys: Array, family: SemiImplicit, draws: Draw, contexts: Array | None, state: PyTree
) -> tuple[ReverseDraws, ReverseInfo, PyTree]:
    """Maps the kernel of one draw over N draws, along the named axis `CHAINS`."""
    one = lambda key, draw, context: kernel(key, family, draw, context, state)
    return jax.vmap(one, axis_name=CHAINS)(keys, draws, contexts)


def sample_reverse(
    key: Key,
    sampler: AbstractReverseSampler,
    family: SemiImplicit,
    draws: Draw,
    contexts: Float[Array, "N C"] | None,
    state: PyTree,
) -> Reversed:
    """Runs the sampler on N draws, then lets it adapt."""
    keys = jax.random.split(key, draws.z.shape[0])
    reverse, info, memos = sampler.sample(keys, family, draws, contexts, state)
    return Reversed(reverse, info, sampler.adapt(state, draws, contexts, memos))


def jump(family: SemiImplicit, draw: Draw, reverse: ReverseDraws) -> Scalar:
    """Returns the mean squared distance of ε′ from ε, relative to two independent draws of q(ε). 0 is stuck."""
    squares = jnp.sum((reverse.eps - draw.eps[None]) ** 2, -1)
    typical = 2 * family.mixing.variance() * family.noise_dim
    return jnp.sum(reverse.weights * squares) / typical


def rejected_nonfinite(family: SemiImplicit, eps: Array, energy: Scalar) -> Scalar:
    """Returns 1 for a non-finite energy inside the support of q(ε), otherwise 0.

    A move out of the support is an ordinary rejection and does not count.
    """
    outside = family.mixing.log_prob(eps) == -jnp.inf
    return jnp.where(~jnp.isfinite(energy) & ~outside, 1.0, 0.0).astype(energy.dtype)


def uniform_weights(num_draws: int, dtype) -> Float[Array, "M"]:
    """Returns the weights of equally weighted draws."""
    return jnp.full((num_draws,), 1 / num_draws, dtype)
