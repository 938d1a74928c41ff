"""Skewed and heavy-tailed coordinates behind any conditional."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Latent, Scalar
from uivi.families.conditionals.base import AbstractConditional
from uivi.families.conditionals.mapped import AbstractMapped


class Warped(AbstractMapped):
    """Every coordinate of the inner draw w goes through a trained sinh-arcsinh map (Jones & Pewsey 2009).

    asinh(z) = (asinh(w) + skew) / tail: a positive skew bends to the right, a tail below one is heavier. It
    starts at the identity and expects w of the order of one (wrap it in `Standardised`). Each coordinate has
    its own map, while the mixture over ε can only bend as many directions as ε has.
    """

    inner: AbstractConditional
    skew: Float[Array, "D"]
    log_tail: Float[Array, "D"]

    @classmethod
    def create(
        cls,
        inner: AbstractConditional,
        skew: Float[Array, "D"] | None = None,
        tail: Float[Array, "D"] | None = None,
    ) -> "Warped":
        """Wrap `inner`, starting at the identity unless told otherwise."""
        dim, advice = inner.dim, "it must have the size of z"
        skew = jnp.zeros(dim) if skew is None else skew
        tail = jnp.ones(dim) if tail is None else tail
        _checks.shape("`skew`", skew, (dim,), advice)
        _checks.shape("`tail`", tail, (dim,), advice)
        return cls(inner, skew, jnp.log(tail))

    def move(self, w: Latent) -> Latent:
        """The inner draw, bent."""
        return jnp.sinh((jnp.arcsinh(w) + self.skew) * jnp.exp(-self.log_tail))

    def whiten(self, z: Latent) -> Latent:
        """The inner draw that makes z."""
        return jnp.sinh(self._argument(z))

    def log_det(self, z: Latent) -> Scalar:
        """Log |∂z/∂w| at this z."""
        size = jnp.abs(self._argument(z))
        log_cosh = size + jnp.log1p(jnp.exp(-2 * size)) - jnp.log(2.0)
        return jnp.sum(0.5 * jnp.log1p(z**2) - self.log_tail - log_cosh)

    def pull(self, z: Latent, score: Latent) -> Latent:
        """Through the map, and the gradient of its own slope."""
        (pulled,) = jax.vjp(self.whiten, z)[1](score)
        return pulled - jax.grad(self.log_det)(z)

    def _argument(self, z: Latent) -> Latent:
        return jnp.exp(self.log_tail) * jnp.arcsinh(z) - self.skew
