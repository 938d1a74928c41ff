"""Skewed and heavy-tailed coordinates behind any conditional."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Context, Key, Latent, Noise, Scalar
from uivi.families.conditionals.base import AbstractConditional


class Warped(AbstractConditional):
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

    @property
    def dim(self) -> int:
        """D."""
        return self.inner.dim

    @property
    def noise_dim(self) -> int:
        """E."""
        return self.inner.noise_dim

    @property
    def context_dim(self) -> int:
        """C."""
        return self.inner.context_dim

    def bend(self, w: Latent) -> Latent:
        """The z that an inner draw makes."""
        return jnp.sinh((jnp.arcsinh(w) + self.skew) * jnp.exp(-self.log_tail))

    def straighten(self, z: Latent) -> Latent:
        """The inner draw that makes z."""
        return jnp.sinh(self._argument(z))

    def log_slope(self, z: Latent) -> Scalar:
        """Log |∂w/∂z|."""
        size = jnp.abs(self._argument(z))
        log_cosh = size + jnp.log1p(jnp.exp(-2 * size)) - jnp.log(2.0)
        return jnp.sum(log_cosh + self.log_tail - 0.5 * jnp.log1p(z**2))

    def sample(self, key: Key, eps: Noise, context: Context = None) -> Latent:
        """The inner draw, bent."""
        return self.bend(self.inner.sample(key, eps, context))

    def log_prob(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Log density by the change of variables."""
        return self.inner.log_prob(self.straighten(z), eps, context) + self.log_slope(z)

    def log_prob_of(self, z: Latent, context: Context = None):
        """ε -> log q(z|ε): the map is inverted once."""
        inner, slope = self.inner.log_prob_of(self.straighten(z), context), self.log_slope(z)
        return lambda eps: inner(eps) + slope

    def log_prob_near(self, z: Latent, near: Noise, context: Context = None):
        """The same of the inner conditional."""
        inner, slope = self.inner.log_prob_near(self.straighten(z), near, context), self.log_slope(z)
        return lambda eps: inner(eps) + slope

    def mean_score(
        self, z: Latent, eps: Float[Array, "M E"], weights: Float[Array, "M"], context: Context = None
    ) -> Latent:
        """The inner score through the map, and the slope's own gradient."""
        w, pull = jax.vjp(self.straighten, z)
        (score,) = pull(self.inner.mean_score(w, eps, weights, context))
        return score + jnp.sum(weights) * jax.grad(self.log_slope)(z)

    def _argument(self, z: Latent) -> Latent:
        return jnp.exp(self.log_tail) * jnp.arcsinh(z) - self.skew
