"""Positive scales that do not depend on ε."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class AbstractScale(eqx.Module):
    """A vector of positive standard deviations. Call it to get its value."""

    @abc.abstractmethod
    def __call__(self) -> Float[Array, "D"]:
        """Returns the scale, shape (D,)."""


class LogScale(AbstractScale):
    """The exponential of a free vector: positive under any optimiser."""

    log_value: Float[Array, "D"]

    @classmethod
    def create(cls, dim: int, value: float = 1.0) -> "LogScale":
        """Creates a scale of `value` in each of `dim` coordinates."""
        return cls(jnp.full((dim,), jnp.log(value)))

    def __call__(self) -> Float[Array, "D"]:
        """Returns the scale, shape (D,)."""
        return jnp.exp(self.log_value)


class RawScale(AbstractScale):
    """The standard deviation itself, as in the authors' code (0.5 at first).

    `uivi.training.paper_rmsprop` keeps it above 1e-5. Use `LogScale` with any other optimiser.
    """

    value: Float[Array, "D"]

    @classmethod
    def create(cls, dim: int, value: float = 0.5) -> "RawScale":
        """Creates a scale of `value` in each of `dim` coordinates."""
        return cls(jnp.full((dim,), value))

    def __call__(self) -> Float[Array, "D"]:
        """Returns the scale, shape (D,)."""
        return self.value
