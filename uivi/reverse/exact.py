"""Exact reverse draws for the conditional that has them: the oracle of the tests."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from uivi import _checks
from uivi._types import Draw, Key, ReverseDraws, ReverseInfo
from uivi.families.linear_gaussian import LinearGaussian
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.base import AbstractPerDrawSampler, uniform_weights
from uivi.reverse.proposals import FittedProposal, from_mixing


class Exact(AbstractPerDrawSampler):
    """Independent exact draws of q(ε|z); needs a `LinearGaussian` conditional."""

    num_draws: int = eqx.field(static=True, default=5)

    def __check_init__(self):
        _checks.positive_int("num_draws", self.num_draws)

    def init(self, key: Key, family: SemiImplicit) -> tuple:
        """Returns an empty state, after checking the conditional."""
        del key
        if not isinstance(family.conditional, LinearGaussian):
            raise TypeError(
                "expected a LinearGaussian conditional for exact reverse draws, got "
                f"{type(family.conditional).__name__}: use uivi.ISIR or uivi.HMC"
            )
        return ()

    def kernel(
        self, key: Key, family: SemiImplicit, draw: Draw, context: Array | None, state: tuple
    ) -> tuple[ReverseDraws, ReverseInfo, tuple]:
        """Returns draws that do not depend on the generating ε."""
        del context, state
        assert isinstance(family.conditional, LinearGaussian)
        keys = jax.random.split(key, self.num_draws)
        eps = jax.vmap(family.conditional.sample_reverse, (0, None))(keys, draw.z)
        one, unknown, zero = (jnp.asarray(x, eps.dtype) for x in (1, jnp.nan, 0))
        info = ReverseInfo(one, one, unknown, zero)
        weights = uniform_weights(self.num_draws, eps.dtype)
        return ReverseDraws(eps, weights, eps[-1]), info, ()

    def adapt(self, state: tuple, draws: Draw, contexts: Array | None, memos: tuple) -> tuple:
        """Returns the state unchanged: there is nothing to adapt."""
        del draws, contexts, memos
        return state

    def fitted_proposal(self, state: tuple) -> FittedProposal:
        """Returns q(ε): the sampler learns no proposal."""
        del state
        return from_mixing()
