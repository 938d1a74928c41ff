"""The synthetic distributions of the paper's Table 1, normalised and with exact samplers."""

import abc

import jax
import jax.numpy as jnp
from jaxtyping import Array

from uivi._types import Key, Latent, Scalar
from uivi.targets.base import AbstractGlobalTarget, AbstractSamplable

_LOG_2PI = 1.8378770664093453


class AbstractToy(AbstractGlobalTarget, AbstractSamplable):
    """A target on the plane, without data."""

    @property
    def dim(self) -> int:
        """Always 2."""
        return 2

    @abc.abstractmethod
    def log_joint(self, z: Latent, site: tuple = ()) -> Scalar:
        """Returns the normalised log density."""


class Banana(AbstractToy):
    """(z1, z2 + z1² + 1) ~ N(0, [[1, 0.9], [0.9, 1]])."""

    def log_joint(self, z: Latent, site: tuple = ()) -> Scalar:
        """Returns the normalised log density (the map has unit Jacobian)."""
        del site
        return _correlated_log_prob(z[0], z[1] + z[0] ** 2 + 1, 1.0, 0.9)

    def sample(self, key: Key) -> Latent:
        """Returns an exact draw."""
        a, b = _correlated_sample(key, 1.0, 0.9)
        return jnp.stack([a, b - a**2 - 1])


class Multimodal(AbstractToy):
    """½ N((-2, 0), I) + ½ N((2, 0), I)."""

    def log_joint(self, z: Latent, site: tuple = ()) -> Scalar:
        """Returns the normalised log density."""
        del site
        modes = jnp.stack([(z[0] + 2) ** 2, (z[0] - 2) ** 2])
        return jax.nn.logsumexp(-0.5 * (modes + z[1] ** 2)) - jnp.log(2.0) - _LOG_2PI

    def sample(self, key: Key) -> Latent:
        """Returns an exact draw."""
        mode_key, noise_key = jax.random.split(key)
        noise = jax.random.normal(noise_key, (2,))
        return noise.at[0].add(jnp.where(jax.random.bernoulli(mode_key), 2.0, -2.0))


class XShaped(AbstractToy):
    """½ N(0, [[2, 1.8], [1.8, 2]]) + ½ N(0, [[2, -1.8], [-1.8, 2]])."""

    def log_joint(self, z: Latent, site: tuple = ()) -> Scalar:
        """Returns the normalised log density."""
        del site
        arms = [_correlated_log_prob(z[0], z[1], 2.0, sign * 1.8) for sign in (1, -1)]
        return jax.nn.logsumexp(jnp.stack(arms)) - jnp.log(2.0)

    def sample(self, key: Key) -> Latent:
        """Returns an exact draw."""
        arm_key, noise_key = jax.random.split(key)
        a, b = _correlated_sample(noise_key, 2.0, 1.8)
        return jnp.stack([a, jnp.where(jax.random.bernoulli(arm_key), b, -b)])


def _correlated_log_prob(a: Array, b: Array, variance: float, covariance: float) -> Array:
    determinant = variance**2 - covariance**2
    quadratic = (variance * (a**2 + b**2) - 2 * covariance * a * b) / determinant
    return -0.5 * quadratic - 0.5 * jnp.log(determinant) - _LOG_2PI


def _correlated_sample(key: Key, variance: float, covariance: float) -> tuple[Array, Array]:
    u = jax.random.normal(key, (2,))
    rest = (variance - covariance**2 / variance) ** 0.5
    return variance**0.5 * u[0], covariance / variance**0.5 * u[0] + rest * u[1]
