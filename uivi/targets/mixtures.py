"""Mixtures with many separate modes, normalised and with exact samplers."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Key, Latent, Scalar
from uivi.targets.base import AbstractGlobalTarget, AbstractSamplable
from uivi.targets.priors import standard_normal_log_prob
from uivi.targets.rows import Rows

SEED = 3
"""Seed of the random centres, which come from NumPy's legacy generator: it never changes.

It is the first for which no two of the 40 centres in the plane are closer than two standard deviations: each of
them is then a mode of its own.
"""


class AbstractMixture(AbstractGlobalTarget, AbstractSamplable):
    """Components of one shape and equal weights around known centres."""

    centres: eqx.AbstractVar[Rows]

    def __check_init__(self):
        if len(self.centres.shape) != 2:
            raise ValueError(
                f"expected centres of shape (K, D), got {self.centres.shape}: give one row per component"
            )

    @abc.abstractmethod
    def log_component(self, offset: Latent) -> Scalar:
        """Returns the normalised log density of a component at an offset from its centre."""

    @abc.abstractmethod
    def noise(self, key: Key) -> Latent:
        """Returns an exact draw of a component's offset from its centre."""

    @property
    def dim(self) -> int:
        """Size of the latent vector, D."""
        return self.centres.shape[1]

    def log_joint(self, z: Latent, site: tuple = ()) -> Scalar:
        """Returns the normalised log density."""
        del site
        return jax.nn.logsumexp(self._log_components(z)) - jnp.log(self.centres.shape[0]).astype(z.dtype)

    def sample(self, key: Key) -> Latent:
        """Returns an exact draw."""
        centre_key, noise_key = jax.random.split(key)
        noise = self.noise(noise_key)
        chosen = jax.random.randint(centre_key, (), 0, self.centres.shape[0])
        return self.centres[chosen].astype(noise.dtype) + noise

    def shares(self, draws: Float[Array, "S D"]) -> Float[Array, "K"]:
        """Returns the share of the draws that belongs to each component, as a measure of coverage.

        A draw between components counts for each by its probability p(component|z). The expected shares of
        exact draws are therefore exactly 1/K, whether or not components overlap.
        """
        return jnp.mean(jax.vmap(lambda z: jax.nn.softmax(self._log_components(z)))(draws), 0)

    def _log_components(self, z: Latent) -> Float[Array, "K"]:
        return jax.vmap(lambda centre: self.log_component(z - centre.astype(z.dtype)))(self.centres.stored())


class GaussianMixture(AbstractMixture):
    """1/K Σ_k N(c_k, s² I).

    Attributes:
        centres: c, shape (K, D).
        scale: s.
    """

    centres: Rows
    scale: float = eqx.field(static=True, default=1.0)

    @classmethod
    def create(cls, centres: np.ndarray, scale: float = 1.0) -> "GaussianMixture":
        """Checks the arguments and keeps them."""
        return cls(Rows.create(centres), _checks.positive_float("scale", scale))

    def log_component(self, offset: Latent) -> Scalar:
        """Returns log N(offset; 0, s² I)."""
        return standard_normal_log_prob(offset / self.scale) - self.dim * jnp.log(self.scale)

    def noise(self, key: Key) -> Latent:
        """Returns a draw of N(0, s² I)."""
        return self.scale * jax.random.normal(key, (self.dim,))


class StudentMixture(AbstractMixture):
    """1/K Σ_k Π_d t(z_d - c_kd): the coordinates of a component are independent Student t variables of scale 1.

    Attributes:
        centres: c, shape (K, D).
        freedom: degrees of freedom. Two are so few that the variance is infinite.
    """

    centres: Rows
    freedom: float = eqx.field(static=True, default=2.0)

    @classmethod
    def create(cls, centres: np.ndarray, freedom: float = 2.0) -> "StudentMixture":
        """Checks the arguments and keeps them."""
        return cls(Rows.create(centres), _checks.positive_float("freedom", freedom))

    def log_component(self, offset: Latent) -> Scalar:
        """Returns the sum of the log densities of the coordinates."""
        return jnp.sum(jax.scipy.stats.t.logpdf(offset, self.freedom))

    def noise(self, key: Key) -> Latent:
        """Returns independent draws of the Student t."""
        return jax.random.t(key, self.freedom, (self.dim,))


def eight_gaussians() -> GaussianMixture:
    """Returns eight Gaussians of standard deviation 0.5 on a circle of radius 4."""
    angles = 2 * np.pi * np.arange(8) / 8
    return GaussianMixture.create(4 * np.stack([np.cos(angles), np.sin(angles)], 1), 0.5)


def forty_gaussians(dim: int = 2) -> GaussianMixture:
    """Returns 40 Gaussians of standard deviation 1, with centres drawn uniformly from [-40, 40]^dim.

    Every code draws centres of its own; ours are `numpy.random.RandomState(3).uniform(-40, 40, (40, dim))`.
    Some codes have softplus(1) = 1.31 as the standard deviation.
    """
    return GaussianMixture.create(_uniform(40, dim, 40.0))


def ten_students(dim: int = 10) -> StudentMixture:
    """Returns ten Student components with two degrees of freedom, centres drawn uniformly from [-10, 10]^dim.

    Every code draws centres of its own; ours are `numpy.random.RandomState(3).uniform(-10, 10, (10, dim))`.
    """
    return StudentMixture.create(_uniform(10, dim, 10.0))


def _uniform(count: int, dim: int, bound: float) -> np.ndarray:
    return np.random.RandomState(SEED).uniform(-bound, bound, (count, _checks.positive_int("dim", dim)))
