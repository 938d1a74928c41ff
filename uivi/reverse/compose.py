"""Several reverse samplers in a row."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from uivi._types import Draw, Key, ReverseDraws, ReverseInfo
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.base import AbstractReverseSampler
from uivi.reverse.proposals import FittedProposal


class Compose(AbstractReverseSampler):
    """Runs samplers in a row: each starts where the one before ended, and the draws of the last one are used.

    A composition of kernels that leave q(ε|z) invariant leaves it invariant. Each sampler sees all draws of an
    update at once, so an `HMC` among them still runs in one fused launch on a GPU.
    """

    samplers: tuple[AbstractReverseSampler, ...]

    def __init__(self, *samplers: AbstractReverseSampler):
        """Composes `samplers`, first to last."""
        if not samplers:
            raise ValueError("expected at least one reverse sampler, got none")
        for sampler in samplers:
            if not isinstance(sampler, AbstractReverseSampler):
                raise TypeError(
                    f"expected reverse samplers such as uivi.HMC(), got {type(sampler).__name__} {sampler!r}: "
                    "make one of uivi.reverse"
                )
        self.samplers = samplers

    def init(self, key: Key, family: SemiImplicit) -> tuple:
        """Returns the states of all samplers."""
        keys = jax.random.split(key, len(self.samplers))
        return tuple(s.init(k, family) for s, k in zip(self.samplers, keys, strict=True))

    def sample(
        self, keys: Array, family: SemiImplicit, draws: Draw, contexts: Array | None, state: tuple
    ) -> tuple[ReverseDraws, ReverseInfo, tuple]:
        """Runs the samplers one after the other, each on all draws."""
        split = jax.vmap(lambda key: jax.random.split(key, len(self.samplers)), out_axes=1)(keys)
        reverse, infos, memos = None, [], []
        for sampler, sampler_keys, sampler_state in zip(self.samplers, split, state, strict=True):
            reverse, info, memo = sampler.sample(sampler_keys, family, draws, contexts, sampler_state)
            draws = Draw(draws.z, reverse.last)
            infos.append(info)
            memos.append(memo)
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *infos)
        info = ReverseInfo(
            _mean_where_known(stacked.acceptance),
            _mean_where_known(stacked.moved),
            _mean_where_known(stacked.steps),
            jnp.sum(stacked.nonfinite, 0),
        )
        assert reverse is not None
        return reverse, info, tuple(memos)

    def adapt(self, state: tuple, draws: Draw, contexts: Array | None, memos: tuple) -> tuple:
        """Lets each sampler adapt by itself."""
        parts = zip(self.samplers, state, memos, strict=True)
        return tuple(s.adapt(old, draws, contexts, memo) for s, old, memo in parts)

    def fitted_proposal(self, state: tuple) -> FittedProposal:
        """Returns the proposal of the last sampler that learns one, otherwise q(ε)."""
        fitted = [s.fitted_proposal(x) for s, x in zip(self.samplers, state, strict=True)]
        learned = [f for f in fitted if jax.tree.leaves(f.state)]
        return (learned or fitted)[-1]


def _mean_where_known(values: Array) -> Array:
    """Averages over the samplers, leaving out those whose value is NaN (does not apply)."""
    known = ~jnp.isnan(values)
    return jnp.sum(jnp.where(known, values, 0.0), 0) / jnp.sum(known, 0).astype(values.dtype)
