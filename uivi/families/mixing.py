"""Mixing distributions q(ε). To bring your own, subclass `AbstractMixing`."""

import equinox as eqx
import jax
import jax.numpy as jnp

from uivi import _checks
from uivi._types import Key, Noise, Scalar


class AbstractMixing(eqx.Module):
    """The noise distribution q(ε): no parameters are learned in it.

    Given as the image of a standard normal vector, so that samplers can share their random numbers and point
    sets (Sobol) carry over.
    """

    dim: eqx.AbstractVar[int]

    def from_normal(self, u: Noise) -> Noise:
        """The map that turns u ~ N(0, I) into ε ~ q(ε)."""
        raise NotImplementedError

    def log_prob(self, eps: Noise) -> Scalar:
        """Normalised log q(ε); minus infinity outside the support."""
        raise NotImplementedError

    def variance(self) -> float:
        """Variance of one coordinate, the unit of the jump diagnostic."""
        raise NotImplementedError

    def sample(self, key: Key) -> Noise:
        """Draw one ε, shape (E,)."""
        return self.from_normal(jax.random.normal(key, (self.dim,)))


class StandardNormal(AbstractMixing):
    """q(ε) = N(0, I), the paper's choice."""

    dim: int = eqx.field(static=True)

    def __check_init__(self):
        _checks.positive_int("dim", self.dim)

    def from_normal(self, u: Noise) -> Noise:
        """The identity."""
        return u

    def log_prob(self, eps: Noise) -> Scalar:
        """Log density of N(0, I)."""
        return -0.5 * (jnp.sum(eps**2) + self.dim * jnp.log(2 * jnp.pi))

    def variance(self) -> float:
        """Variance of one coordinate."""
        return 1.0


class Uniform(AbstractMixing):
    """q(ε) uniform on [0, 1]^E. A Markov move that leaves the box is rejected."""

    dim: int = eqx.field(static=True)

    def __check_init__(self):
        _checks.positive_int("dim", self.dim)

    def from_normal(self, u: Noise) -> Noise:
        """The normal distribution function."""
        return jax.scipy.special.ndtr(u)

    def log_prob(self, eps: Noise) -> Scalar:
        """Zero inside the box, minus infinity outside."""
        inside = jnp.all((eps >= 0) & (eps <= 1))
        return jnp.where(inside, jnp.zeros((), eps.dtype), -jnp.inf)

    def variance(self) -> float:
        """Variance of one coordinate."""
        return 1.0 / 12.0
