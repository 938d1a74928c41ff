"""Mixing distributions q(ε). To bring your own, subclass `AbstractMixing`."""

from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp

from uivi import _checks
from uivi._types import Key, Noise, Scalar


class AbstractMixing(eqx.Module):
    """The noise distribution q(ε): no parameters are learned in it."""

    dim: eqx.AbstractVar[int]

    def sample(self, key: Key) -> Noise:
        """Draw one ε, shape (E,)."""
        raise NotImplementedError

    def log_prob(self, eps: Noise) -> Scalar:
        """Normalised log q(ε); minus infinity outside the support."""
        raise NotImplementedError

    def variance(self) -> float:
        """Variance of one coordinate, the unit of the jump diagnostic."""
        raise NotImplementedError


class StandardNormal(AbstractMixing):
    """q(ε) = N(0, I), the paper's choice."""

    dim: int = eqx.field(static=True)

    def __check_init__(self):
        _checks.positive_int("dim", self.dim)

    def sample(self, key: Key) -> Noise:
        """Draw one ε, shape (E,)."""
        return jax.random.normal(key, (self.dim,))

    def log_prob(self, eps: Noise) -> Scalar:
        """Log density of N(0, I)."""
        return cast(Scalar, -0.5 * (jnp.sum(eps**2) + self.dim * jnp.log(2 * jnp.pi)))

    def variance(self) -> float:
        """Variance of one coordinate."""
        return 1.0


class Uniform(AbstractMixing):
    """q(ε) uniform on [0, 1)^E. A Markov move that leaves the box is rejected."""

    dim: int = eqx.field(static=True)

    def __check_init__(self):
        _checks.positive_int("dim", self.dim)

    def sample(self, key: Key) -> Noise:
        """Draw one ε, shape (E,)."""
        return jax.random.uniform(key, (self.dim,))

    def log_prob(self, eps: Noise) -> Scalar:
        """Zero inside the box, minus infinity outside."""
        inside = jnp.all((eps >= 0) & (eps <= 1))
        return jnp.where(inside, jnp.zeros((), eps.dtype), -jnp.inf)

    def variance(self) -> float:
        """Variance of one coordinate."""
        return 1.0 / 12.0
