"""A Gaussian with a full covariance."""

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from uivi import _checks
from uivi._random import normal
from uivi._types import Context, Key, Latent, Scalar
from uivi.families.explicit import AbstractDensityAt, AbstractExplicit


class _FullAt(AbstractDensityAt):
    """N(loc, A Aᵀ) with a lower triangular A."""

    loc: Float[Array, "D"]
    matrix: Float[Array, "D D"]

    def sample(self, key: Key) -> Latent:
        return self.loc + self.matrix @ normal(key, self.loc.shape, self.loc.dtype)

    def log_prob(self, z: Latent) -> Scalar:
        u = solve_triangular(self.matrix, z - self.loc, lower=True)
        volume = jnp.sum(jnp.log(jnp.diag(self.matrix)))
        return -0.5 * jnp.sum(u**2) - volume - 0.5 * u.shape[0] * jnp.log(2 * jnp.pi)


class FullGaussian(AbstractExplicit):
    """N(loc, A Aᵀ), where A is lower triangular with a positive diagonal: the largest family without a network.

    Attributes:
        loc: mean.
        log_diagonal: log of the diagonal of A.
        lower: A below the diagonal, in units of the diagonal of the same row; the rest is not used.
    """

    loc: Float[Array, "D"]
    log_diagonal: Float[Array, "D"]
    lower: Float[Array, "D D"]

    def __check_init__(self):
        dim = self.loc.shape[0]
        _checks.shape("`log_diagonal`", self.log_diagonal, (dim,), "it must have the size of z")
        _checks.shape("`lower`", self.lower, (dim, dim), "it must be square in the size of z")

    @classmethod
    def create(cls, dim: int, scale: float = 1.0) -> "FullGaussian":
        """Starts at N(0, scale² I)."""
        dim = _checks.positive_int("dim", dim)
        scale = _checks.positive_float("scale", scale)
        return cls(jnp.zeros(dim), jnp.full((dim,), jnp.log(scale)), jnp.zeros((dim, dim)))

    @property
    def dim(self) -> int:
        """Size of the latent vector z, D."""
        return self.loc.shape[0]

    @property
    def context_dim(self) -> int:
        """Size of the context, 0: it is not amortised."""
        return 0

    def at(self, context: Context = None) -> _FullAt:
        """Returns the Gaussian, which has no context."""
        del context
        unit = jnp.eye(self.dim, dtype=self.lower.dtype) + jnp.tril(self.lower, -1)
        return _FullAt(self.loc, jnp.exp(self.log_diagonal)[:, None] * unit)
