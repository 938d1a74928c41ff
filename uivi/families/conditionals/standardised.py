"""A fixed affine map of z behind any conditional: fits on a standard scale, whatever the units of z."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, Integer

from uivi import _checks
from uivi._types import Context, Key, Latent, Noise, Scalar
from uivi.families.conditionals.base import AbstractConditional


class Constant(eqx.Module):
    """An array that no optimiser trains: its floats are kept as their bits."""

    bits: Integer[Array, "..."]

    @classmethod
    def create(cls, value: Float[Array, "..."]) -> "Constant":
        """Keep `value`, float32 or float64."""
        kind = jnp.int32 if value.dtype == jnp.float32 else jnp.int64
        return cls(jax.lax.bitcast_convert_type(value, kind))

    def __call__(self) -> Float[Array, "..."]:
        """The value."""
        kind = jnp.float32 if self.bits.dtype == jnp.int32 else jnp.float64
        return jax.lax.bitcast_convert_type(self.bits, kind)


class Standardised(AbstractConditional):
    """z = loc + F w with w ~ inner(ε); F is lower triangular or a diagonal, and is not trained.

    With rough moments of the posterior as loc and F, all that is trained has the order of one.
    """

    inner: AbstractConditional
    loc: Constant
    factor: Constant

    @classmethod
    def create(
        cls, inner: AbstractConditional, loc: Float[Array, "D"], factor: Float[Array, "D D"] | Float[Array, "D"]
    ) -> "Standardised":
        """Wrap `inner`."""
        dim, advice = inner.dim, "it must have the size of z"
        _checks.shape("`loc`", loc, (dim,), advice)
        _checks.shape("`factor`", factor, (dim,) * max(1, factor.ndim), advice)
        return cls(inner, Constant.create(loc), Constant.create(factor))

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

    def whiten(self, z: Latent) -> Latent:
        """W = F⁻¹ (z - loc)."""
        return _solve(self.factor(), z - self.loc(), is_transposed=False)

    def sample(self, key: Key, eps: Noise, context: Context = None) -> Latent:
        """Z = loc + F w."""
        factor, w = self.factor(), self.inner.sample(key, eps, context)
        return self.loc() + (factor @ w if factor.ndim == 2 else factor * w)

    def log_prob(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Log density by the change of variables."""
        return self.inner.log_prob(self.whiten(z), eps, context) - self._log_det()

    def log_prob_of(self, z: Latent, context: Context = None):
        """ε -> log q(z|ε): the solve is done once."""
        return self._in_z(self.inner.log_prob_of(self.whiten(z), context))

    def log_prob_near(self, z: Latent, near: Noise, context: Context = None):
        """The same of the inner conditional."""
        return self._in_z(self.inner.log_prob_near(self.whiten(z), near, context))

    def mean_score(
        self, z: Latent, eps: Float[Array, "M E"], weights: Float[Array, "M"], context: Context = None
    ) -> Latent:
        """F⁻ᵀ times the inner score."""
        inner = self.inner.mean_score(self.whiten(z), eps, weights, context)
        return _solve(self.factor(), inner, is_transposed=True)

    def _log_det(self) -> Scalar:
        factor = self.factor()
        return jnp.sum(jnp.log(jnp.diag(factor) if factor.ndim == 2 else factor))

    def _in_z(self, inner: Callable[[Noise], Scalar]) -> Callable[[Noise], Scalar]:
        log_det = self._log_det()
        return lambda eps: inner(eps) - log_det


def _solve(factor: Array, x: Latent, *, is_transposed: bool) -> Latent:
    if factor.ndim == 1:
        return x / factor
    return solve_triangular(factor, x, trans=int(is_transposed), lower=True)
