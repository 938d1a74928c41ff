"""The reverse conditional of a family of particles, which is known."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi._types import Key, Scalar
from uivi.families.conditionals.particles import AtParticles
from uivi.families.mixing import Uniform
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.proposals import AbstractProposal, AbstractProposalAt


class _CellsAt(AbstractProposalAt):
    """A density on [0, 1] that is constant in each of M equal cells."""

    log_shares: Float[Array, "M"]

    def sample(self, key: Key, num: int) -> Float[Array, "K 1"]:
        pick_key, place_key = jax.random.split(key)
        cell = jax.random.categorical(pick_key, self.log_shares, shape=(num,)).astype(self.log_shares.dtype)
        place = jax.random.uniform(place_key, (num,), cell.dtype)
        return ((cell + place) / self.log_shares.shape[0])[:, None]

    def log_prob(self, eps: Float[Array, "E"]) -> Scalar:
        size = self.log_shares.shape[0]
        cell = jnp.clip(jnp.floor(eps[0] * size), 0, size - 1).astype(jnp.int32)
        return self.log_shares[cell] + jnp.log(1.0 * size)


class ByParticle(AbstractProposal):
    """The exact q(ε|z) of `AtParticles` under `Uniform(1)`: all weights are q(z), and bounds are equalities."""

    def init(self, key: Key, family: SemiImplicit) -> tuple:
        """Returns an empty state, after checking the family."""
        del key
        need_particles("ByParticle", family)
        return ()

    def at(self, family: SemiImplicit, z: Array, context: Array | None, state: tuple) -> AbstractProposalAt:
        """Returns the shares of the particles at one z."""
        del state
        assert isinstance(family.conditional, AtParticles)
        return _CellsAt(jax.nn.log_softmax(family.conditional.log_probs(z, context)))

    def inputs(self, family: SemiImplicit, z: Array, context: Array | None) -> tuple:
        """Returns nothing, because there is nothing to learn."""
        del family, z, context
        return ()

    def adapt(self, state: tuple, eps: Float[Array, "N E"], inputs: tuple) -> tuple:
        """Returns the state unchanged."""
        del eps, inputs
        return state


def need_particles(name: str, family: SemiImplicit) -> AtParticles:
    """Returns the conditional if the family is one of particles, otherwise raises."""
    if isinstance(family.conditional, AtParticles) and isinstance(family.mixing, Uniform):
        return family.conditional
    raise TypeError(
        f"expected an AtParticles conditional under Uniform(1) for {name}, got "
        f"{type(family.conditional).__name__} under {type(family.mixing).__name__}: use "
        "uivi.presets.methods.particle_family, or uivi.UIVI for this family"
    )
