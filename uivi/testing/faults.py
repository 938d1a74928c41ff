"""Reverse samplers with one fault each, for controls that must fail."""

import abc

import jax.numpy as jnp
from jaxtyping import Array, PyTree

from uivi._types import Draw, Key, Noise, ReverseDraws, ReverseInfo
from uivi.families.linear_gaussian import LinearGaussian
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.base import AbstractPerDrawSampler
from uivi.reverse.proposals import FittedProposal, from_mixing


class AbstractFaulty(AbstractPerDrawSampler):
    """A reverse sampler of one draw without state: a subclass writes `move`, with a fault."""

    @abc.abstractmethod
    def move(self, key: Key, family: SemiImplicit, draw: Draw) -> Noise:
        """Returns ε′ for one pair (z, ε)."""

    def init(self, key: Key, family: SemiImplicit) -> tuple:
        """Returns an empty state."""
        del key, family
        return ()

    def kernel(
        self, key: Key, family: SemiImplicit, draw: Draw, context: Array | None, state: PyTree
    ) -> tuple[ReverseDraws, ReverseInfo, tuple]:
        """Returns the move with weight one."""
        del context, state
        eps = self.move(key, family, draw)
        zero = jnp.zeros((), eps.dtype)
        return ReverseDraws(eps[None], zero[None] + 1, eps), ReverseInfo(zero, zero, zero, zero), ()

    def adapt(self, state: PyTree, draws: Draw, contexts: Array | None, memos: PyTree) -> PyTree:
        """Returns the state unchanged."""
        del draws, contexts, memos
        return state

    def fitted_proposal(self, state: PyTree) -> FittedProposal:
        """Returns q(ε)."""
        del state
        return from_mixing()


class Stuck(AbstractFaulty):
    """ε′ = ε: it is invariant, but not independent of ε, and gives the gradient of H(z|ε) instead of H(z)."""

    def move(self, key: Key, family: SemiImplicit, draw: Draw) -> Noise:
        """Returns the generating ε."""
        del key, family
        return draw.eps


class Blind(AbstractFaulty):
    """ε′ ~ q(ε), whatever z."""

    def move(self, key: Key, family: SemiImplicit, draw: Draw) -> Noise:
        """Draws from q(ε)."""
        del draw
        return family.mixing.sample(key)


class Negated(AbstractFaulty):
    """ε′ = -ε″ with an exact draw ε″ of q(ε|z): a flipped sign. It needs a `LinearGaussian` conditional."""

    def move(self, key: Key, family: SemiImplicit, draw: Draw) -> Noise:
        """Draws from q(ε|z) and changes the sign."""
        conditional = family.conditional
        if not isinstance(conditional, LinearGaussian):
            raise TypeError(f"expected a LinearGaussian conditional, got {type(conditional).__name__}")
        return -conditional.sample_reverse(key, draw.z)
