"""Affine maps of z behind any conditional: full covariance by composition, and a standard scale."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, Integer

from uivi import _checks
from uivi._types import Context, Key, Latent, Noise, Scalar
from uivi.families.conditionals.base import AbstractConditional


class AbstractAffine(AbstractConditional):
    """z = loc + A w with w ~ inner(ε): a map says what A and loc do, the rest is here."""

    inner: eqx.AbstractVar[AbstractConditional]

    def move(self, w: Latent) -> Latent:
        """Z = loc + A w."""
        raise NotImplementedError

    def whiten(self, z: Latent) -> Latent:
        """W = A⁻¹ (z - loc)."""
        raise NotImplementedError

    def pull(self, slope: Latent) -> Latent:
        """A⁻ᵀ times a gradient in w: the gradient in z."""
        raise NotImplementedError

    def log_det(self) -> Scalar:
        """Log |A|."""
        raise NotImplementedError

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

    def sample(self, key: Key, eps: Noise, context: Context = None) -> Latent:
        """The inner draw, moved."""
        return self.move(self.inner.sample(key, eps, context))

    def log_prob(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Log density by the change of variables."""
        return self.inner.log_prob(self.whiten(z), eps, context) - self.log_det()

    def log_prob_of(self, z: Latent, context: Context = None):
        """ε -> log q(z|ε): the solve is done once."""
        return self._in_z(self.inner.log_prob_of(self.whiten(z), context))

    def log_prob_near(self, z: Latent, near: Noise, context: Context = None):
        """The same of the inner conditional."""
        return self._in_z(self.inner.log_prob_near(self.whiten(z), near, context))

    def mean_score(
        self, z: Latent, eps: Float[Array, "M E"], weights: Float[Array, "M"], context: Context = None
    ) -> Latent:
        """A⁻ᵀ times the inner score: one solve, not one for each ε."""
        return self.pull(self.inner.mean_score(self.whiten(z), eps, weights, context))

    def _in_z(self, inner: Callable[[Noise], Scalar]) -> Callable[[Noise], Scalar]:
        log_det = self.log_det()
        return lambda eps: inner(eps) - log_det


class Affine(AbstractAffine):
    """z = shift + A w with w ~ inner(ε) and A lower triangular with a positive diagonal, all trained.

    Around a `Gaussian` it is the Gaussian with a full covariance A diag(σ²) Aᵀ (Cholesky); around
    a `NetGaussian` the covariance varies with ε as well. The inner network then works on a standardised
    scale whatever the units of z.
    """

    inner: AbstractConditional
    shift: Float[Array, "D"]
    log_diagonal: Float[Array, "D"]
    lower: Float[Array, "D D"]

    @classmethod
    def create(
        cls,
        inner: AbstractConditional,
        shift: Float[Array, "D"] | None = None,
        cholesky: Float[Array, "D D"] | None = None,
    ) -> "Affine":
        """Wrap `inner`, starting at the identity unless told otherwise."""
        dim = inner.dim
        shift = jnp.zeros(dim) if shift is None else shift
        cholesky = jnp.eye(dim) if cholesky is None else cholesky
        _checks.shape("`shift`", shift, (dim,), "it must have the size of z")
        _checks.shape("`cholesky`", cholesky, (dim, dim), "it must be square in the size of z")
        diagonal = jnp.diag(cholesky)
        return cls(inner, shift, jnp.log(diagonal), jnp.tril(cholesky, -1) / diagonal[:, None])

    def matrix(self) -> Float[Array, "D D"]:
        """A = diag(exp(log_diagonal)) (I + strictly lower part)."""
        unit = jnp.eye(self.dim, dtype=self.lower.dtype) + jnp.tril(self.lower, -1)
        return jnp.exp(self.log_diagonal)[:, None] * unit

    def move(self, w: Latent) -> Latent:
        """Shift + A w."""
        return self.shift + self.matrix() @ w

    def whiten(self, z: Latent) -> Latent:
        """A⁻¹ (z - shift)."""
        return solve_triangular(self.matrix(), z - self.shift, lower=True)

    def pull(self, slope: Latent) -> Latent:
        """By a triangular solve."""
        return solve_triangular(self.matrix(), slope, trans=1, lower=True)

    def log_det(self) -> Scalar:
        """Of the diagonal."""
        return jnp.sum(self.log_diagonal)


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


class Standardised(AbstractAffine):
    """z = loc + F w with w ~ inner(ε); F is lower triangular or a diagonal, and nothing of it is trained.

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

    def move(self, w: Latent) -> Latent:
        """Loc + F w."""
        factor = self.factor()
        return self.loc() + (factor @ w if factor.ndim == 2 else factor * w)

    def whiten(self, z: Latent) -> Latent:
        """F⁻¹ (z - loc)."""
        factor, centred = self.factor(), z - self.loc()
        return solve_triangular(factor, centred, lower=True) if factor.ndim == 2 else centred / factor

    def pull(self, slope: Latent) -> Latent:
        """F⁻ᵀ times the gradient."""
        factor = self.factor()
        return solve_triangular(factor, slope, trans=1, lower=True) if factor.ndim == 2 else slope / factor

    def log_det(self) -> Scalar:
        """Of the diagonal."""
        factor = self.factor()
        return jnp.sum(jnp.log(jnp.diag(factor) if factor.ndim == 2 else factor))
