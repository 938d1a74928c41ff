"""An affine map of z behind any conditional: full covariance by composition."""

from collections.abc import Callable

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Context, Key, Latent, Noise, Scalar
from uivi.families.conditionals.base import AbstractConditional


class Affine(AbstractConditional):
    """z = shift + A w with w ~ inner(ε) and A lower triangular with a positive diagonal.

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

    def matrix(self) -> Float[Array, "D D"]:
        """A = diag(exp(log_diagonal)) (I + strictly lower part)."""
        unit = jnp.eye(self.dim, dtype=self.lower.dtype) + jnp.tril(self.lower, -1)
        return jnp.exp(self.log_diagonal)[:, None] * unit

    def whiten(self, z: Latent) -> Latent:
        """W = A⁻¹ (z - shift)."""
        return solve_triangular(self.matrix(), z - self.shift, lower=True)

    def sample(self, key: Key, eps: Noise, context: Context = None) -> Latent:
        """Z = shift + A w."""
        return self.shift + self.matrix() @ self.inner.sample(key, eps, context)

    def log_prob(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Log density by the change of variables."""
        inner = self.inner.log_prob(self.whiten(z), eps, context)
        return inner - jnp.sum(self.log_diagonal)

    def log_prob_of(self, z: Latent, context: Context = None):
        """ε -> log q(z|ε): the triangular solve is done once."""
        return self._in_z(self.inner.log_prob_of(self.whiten(z), context))

    def log_prob_near(self, z: Latent, near: Noise, context: Context = None):
        """The same of the inner conditional."""
        return self._in_z(self.inner.log_prob_near(self.whiten(z), near, context))

    def mean_score(
        self, z: Latent, eps: Float[Array, "M E"], weights: Float[Array, "M"], context: Context = None
    ) -> Latent:
        """A⁻ᵀ times the inner score: one solve, not one for each ε."""
        inner = self.inner.mean_score(self.whiten(z), eps, weights, context)
        return solve_triangular(self.matrix(), inner, trans=1, lower=True)

    def _in_z(self, inner: Callable[[Noise], Scalar]) -> Callable[[Noise], Scalar]:
        log_det = jnp.sum(self.log_diagonal)
        return lambda eps: inner(eps) - log_det
