"""Several reverse kernels in a row."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from uivi._types import Draw, Key, ReverseDraws, ReverseInfo
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.base import AbstractReverseSampler
from uivi.reverse.proposals import FittedProposal


class Compose(AbstractReverseSampler):
    """Each kernel starts where the one before ended; the draws of the last one are used.

    A composition of kernels that are invariant for q(ε|z) is invariant.
    """

    samplers: tuple[AbstractReverseSampler, ...]

    def __init__(self, *samplers: AbstractReverseSampler):
        """Compose `samplers`, first to last."""
        if not samplers:
            raise ValueError("expected at least one reverse sampler, got none")
        self.samplers = samplers

    def init(self, key: Key, family: SemiImplicit) -> tuple:
        """The states of all kernels."""
        keys = jax.random.split(key, len(self.samplers))
        return tuple(s.init(k, family) for s, k in zip(self.samplers, keys, strict=True))

    def kernel(
        self, key: Key, family: SemiImplicit, draw: Draw, context: Array | None, state: tuple
    ) -> tuple[ReverseDraws, ReverseInfo, PyTree]:
        """Run the kernels one after the other."""
        keys = jax.random.split(key, len(self.samplers))
        reverse, infos, memos = None, [], []
        for sampler, k, sampler_state in zip(self.samplers, keys, state, strict=True):
            reverse, info, memo = sampler.kernel(k, family, draw, context, sampler_state)
            draw = Draw(draw.z, reverse.last)
            infos.append(info)
            memos.append(memo)
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *infos)
        info = ReverseInfo(
            _mean_where_known(stacked.acceptance),
            _mean_where_known(stacked.moved),
            jnp.sum(stacked.nonfinite, 0),
        )
        assert reverse is not None
        return reverse, info, tuple(memos)

    def adapt(self, state: tuple, draws: Draw, contexts: Array | None, memos: tuple) -> tuple:
        """Each kernel adapts by itself."""
        parts = zip(self.samplers, state, memos, strict=True)
        return tuple(s.adapt(old, draws, contexts, memo) for s, old, memo in parts)

    def fitted_proposal(self, state: tuple) -> FittedProposal:
        """That of the last kernel which learns one, else q(ε)."""
        fitted = [s.fitted_proposal(x) for s, x in zip(self.samplers, state, strict=True)]
        learned = [f for f in fitted if jax.tree.leaves(f.state)]
        return (learned or fitted)[-1]


def _mean_where_known(values: Array) -> Array:
    known = ~jnp.isnan(values)
    return jnp.sum(jnp.where(known, values, 0.0)) / jnp.sum(known).astype(values.dtype)
