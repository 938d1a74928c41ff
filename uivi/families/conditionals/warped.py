"""Skewed and heavy-tailed coordinates behind any conditional."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Latent, Scalar
from uivi.families.conditionals.base import AbstractConditional
from uivi.families.conditionals.mapped import AbstractMapped


class Warped(AbstractMapped):
    """Passes every coordinate of the inner draw w through a trained sinh-arcsinh map (Jones & Pewsey 2009).

    The map is asinh(z) = (asinh(w) + skew) / tail. A positive skew bends to the right; a tail below one is
    heavier. The map starts at the identity and expects w of order one, so wrap it in `Standardised`. Each
    coordinate has a map of its own, whereas the mixture over ε can bend only as many directions as ε has.
    """

    inner: AbstractConditional
    skew: Float[Array, "D"]
    log_tail: Float[Array, "D"]

    def __check_init__(self):
        for name in ("skew", "log_tail"):
            _checks.shape(f"`{name}`", getattr(self, name), (self.inner.dim,), "it must have the size of z")

    @classmethod
    def create(
        cls,
        inner: AbstractConditional,
        skew: Float[Array, "D"] | None = None,
        tail: Float[Array, "D"] | None = None,
    ) -> "Warped":
        """Wraps `inner`, starting at the identity by default."""
        dim, advice = inner.dim, "it must have the size of z"
        skew = jnp.zeros(dim) if skew is None else skew
        tail = jnp.ones(dim) if tail is None else tail
        _checks.shape("`skew`", skew, (dim,), advice)
        _checks.shape("`tail`", tail, (dim,), advice)
        return cls(inner, skew, jnp.log(tail))

    def move(self, w: Latent) -> Latent:
        """Bends an inner draw."""
        return jnp.sinh((jnp.arcsinh(w) + self.skew) * jnp.exp(-self.log_tail))

    def undo(self, z: Latent) -> tuple[Latent, Scalar]:
        """Returns the inner draw that makes z, and the log determinant."""
        argument = jnp.exp(self.log_tail) * jnp.arcsinh(z) - self.skew
        size = jnp.abs(argument)
        # log cosh without the overflow of cosh: far tails have arguments beyond float32's exp.
        log_cosh = size + jnp.log1p(jnp.exp(-2 * size)) - jnp.log(2.0)
        return jnp.sinh(argument), jnp.sum(0.5 * jnp.log1p(z**2) - self.log_tail - log_cosh)
