"""The linear-Gaussian conditional, for which every quantity of the method has a closed form."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Context, Key, Latent, Noise, Scalar
from uivi.families.conditionals.base import AbstractSimpleConditional
from uivi.families.conditionals.location_scale import normal_log_prob


class LinearGaussian(AbstractSimpleConditional):
    """The oracle of the tests: q(z|ε) = N(W ε + b, diag(σ²)) under q(ε) = N(0, I).

    The marginal is q(z) = N(b, W Wᵀ + diag(σ²)), the reverse conditional q(ε|z) = N(P Wᵀ diag(σ⁻²)(z - b), P)
    with P = (I + Wᵀ diag(σ⁻²) W)⁻¹.
    """

    weight: Float[Array, "D E"]
    bias: Float[Array, "D"]
    scale: Float[Array, "D"]

    def __check_init__(self):
        dim = self.weight.shape[0]
        _checks.shape("`bias`", self.bias, (dim,), "it must match the rows of `weight`")
        _checks.shape("`scale`", self.scale, (dim,), "it must match the rows of `weight`")

    @property
    def dim(self) -> int:
        """Size of the latent vector z, D."""
        return self.weight.shape[0]

    @property
    def noise_dim(self) -> int:
        """Size of the noise ε, E."""
        return self.weight.shape[1]

    def sample(self, key: Key, eps: Noise, context: Context = None) -> Latent:
        """Draws z = W ε + b + σ u."""
        del context
        return self.weight @ eps + self.bias + self.scale * jax.random.normal(key, (self.dim,))

    def log_prob(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Returns the log density of the conditional."""
        del context
        return normal_log_prob(z, self.weight @ eps + self.bias, jnp.log(self.scale))

    def marginal(self) -> tuple[Float[Array, "D"], Float[Array, "D D"]]:
        """Returns mean and covariance of q(z)."""
        return self.bias, self.weight @ self.weight.T + jnp.diag(self.scale**2)

    def marginal_log_prob(self, z: Latent) -> Scalar:
        """Returns the exact log q(z)."""
        return jnp.asarray(jax.scipy.stats.multivariate_normal.logpdf(z, *self.marginal()))

    def score(self, z: Latent) -> Latent:
        """Returns the exact ∇_z log q(z)."""
        mean, covariance = self.marginal()
        return -jnp.linalg.solve(covariance, z - mean)

    def reverse(self, z: Latent) -> tuple[Float[Array, "E"], Float[Array, "E E"]]:
        """Returns mean and covariance of q(ε|z)."""
        scaled = self.weight / (self.scale**2)[:, None]
        precision = jnp.eye(self.noise_dim, dtype=scaled.dtype) + self.weight.T @ scaled
        covariance = jnp.linalg.inv(precision)
        return covariance @ (scaled.T @ (z - self.bias)), covariance

    def sample_reverse(self, key: Key, z: Latent) -> Noise:
        """Draws exactly from q(ε|z)."""
        mean, covariance = self.reverse(z)
        return jax.random.multivariate_normal(key, mean, covariance)
