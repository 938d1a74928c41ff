"""Affine maps of z behind any conditional: full covariance by composition, and a standard scale."""

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Latent, Scalar
from uivi.families.conditionals.base import AbstractConditional
from uivi.families.conditionals.mapped import AbstractMapped
from uivi.trainable import NonTrainable


class Affine(AbstractMapped):
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

    def pull(self, z: Latent, score: Latent) -> Latent:
        """A⁻ᵀ times the score, by a triangular solve."""
        del z
        return solve_triangular(self.matrix(), score, trans=1, lower=True)

    def log_det(self, z: Latent) -> Scalar:
        """Of the diagonal."""
        del z
        return jnp.sum(self.log_diagonal)


class Standardised(AbstractMapped):
    """z = loc + F w with w ~ inner(ε); F is a matrix or a diagonal, and nothing of it is trained.

    With rough moments of the posterior as loc and F, all that is trained has the order of one.

    Attributes:
        inner: of w.
        loc: rough mean of z.
        factor: F.
        inverse: F⁻¹.
        volume: log |det F|.
    """

    inner: AbstractConditional
    loc: NonTrainable
    factor: NonTrainable
    inverse: NonTrainable
    volume: NonTrainable

    @classmethod
    def create(
        cls, inner: AbstractConditional, loc: Float[Array, "D"], factor: Float[Array, "D D"] | Float[Array, "D"]
    ) -> "Standardised":
        """Wrap `inner`. F is inverted in float64, unless it is traced."""
        dim, advice = inner.dim, "it must have the size of z"
        _checks.shape("`loc`", loc, (dim,), advice)
        _checks.shape("`factor`", factor, (dim,) * max(1, factor.ndim), advice)
        is_traced = isinstance(factor, Tracer)
        xp, wide = (jnp, factor) if is_traced else (np, np.asarray(factor, np.float64))
        is_full = factor.ndim == 2
        volume = xp.linalg.slogdet(wide)[1] if is_full else xp.sum(xp.log(xp.abs(wide)))
        if not is_traced and not np.isfinite(volume):
            raise ValueError("expected a `factor` with an inverse, got a singular one: q would have no density")
        inverse = xp.linalg.inv(wide) if is_full else 1 / wide
        kept = (NonTrainable(jnp.asarray(x, factor.dtype)) for x in (wide, inverse, volume))
        return cls(inner, NonTrainable(loc), *kept)

    def move(self, w: Latent) -> Latent:
        """Loc + F w."""
        return self.loc() + _times(self.factor(), w)

    def whiten(self, z: Latent) -> Latent:
        """F⁻¹ (z - loc)."""
        return _times(self.inverse(), z - self.loc())

    def pull(self, z: Latent, score: Latent) -> Latent:
        """F⁻ᵀ times the score."""
        del z
        return _times(self.inverse().T, score)

    def log_det(self, z: Latent) -> Scalar:
        """Of F, the same everywhere."""
        del z
        return self.volume()


def _times(factor: Float[Array, "D D"] | Float[Array, "D"], w: Latent) -> Latent:
    """F w, with the diagonal of F in place of a diagonal F."""
    return factor @ w if factor.ndim == 2 else factor * w
