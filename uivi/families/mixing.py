"""Mixing distributions q(ε). To bring your own, subclass `AbstractMixing`."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp

from uivi import _checks
from uivi._random import normal
from uivi._types import Key, Noise, Scalar


class AbstractMixing(eqx.Module):
    """The noise distribution q(ε). It has no trained parameters.

    It is given as the image of a standard normal vector: samplers can then share random numbers between mixture
    components, and Sobol points carry over.
    """

    dim: eqx.AbstractVar[int]

    @abc.abstractmethod
    def from_normal(self, u: Noise) -> Noise:
        """Maps u ~ N(0, I) to ε ~ q(ε)."""

    @abc.abstractmethod
    def to_normal(self, eps: Noise) -> Noise:
        """Maps ε back to u."""

    @abc.abstractmethod
    def log_prob(self, eps: Noise) -> Scalar:
        """Returns the normalised log q(ε), minus infinity outside the support."""

    @abc.abstractmethod
    def variance(self) -> float:
        """Returns the variance of one coordinate, the unit of the jump diagnostic."""

    def sample(self, key: Key) -> Noise:
        """Draws one ε, shape (E,)."""
        return self.from_normal(normal(key, (self.dim,)))


class StandardNormal(AbstractMixing):
    """The paper's choice, q(ε) = N(0, I)."""

    dim: int = eqx.field(static=True)

    def __check_init__(self):
        _checks.positive_int("dim", self.dim)

    def from_normal(self, u: Noise) -> Noise:
        """Returns u itself."""
        return u

    def to_normal(self, eps: Noise) -> Noise:
        """Returns ε itself."""
        return eps

    def log_prob(self, eps: Noise) -> Scalar:
        """Returns the log density of N(0, I)."""
        return -0.5 * (jnp.sum(eps**2) + self.dim * jnp.log(2 * jnp.pi))

    def variance(self) -> float:
        """Returns the variance of one coordinate."""
        return 1.0


class Uniform(AbstractMixing):
    """The uniform distribution on [0, 1]^E. A Markov move that leaves the box is rejected."""

    dim: int = eqx.field(static=True)

    def __check_init__(self):
        _checks.positive_int("dim", self.dim)

    def from_normal(self, u: Noise) -> Noise:
        """Applies the normal distribution function."""
        return jax.scipy.special.ndtr(u)

    def to_normal(self, eps: Noise) -> Noise:
        """Applies the normal quantile function, cut off at the edge of the box, where it is infinite."""
        limits = jnp.finfo(eps.dtype)
        return jax.scipy.special.ndtri(jnp.clip(eps, limits.tiny, 1 - limits.epsneg))

    def log_prob(self, eps: Noise) -> Scalar:
        """Returns 0 inside the box, minus infinity outside."""
        inside = jnp.all((eps >= 0) & (eps <= 1))
        return jnp.where(inside, jnp.zeros((), eps.dtype), -jnp.inf)

    def variance(self) -> float:
        """Returns the variance of one coordinate."""
        return 1.0 / 12.0
