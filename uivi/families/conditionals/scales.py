"""Positive scales that do not depend on ε."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class AbstractScale(eqx.Module):
    """A vector of positive standard deviations, called to get its value."""

    def __call__(self) -> Float[Array, "D"]:
        """The scale, shape (D,)."""
        raise NotImplementedError


class LogScale(AbstractScale):
    """exp of a free vector: safe under any optimiser."""

    log_value: Float[Array, "D"]

    @classmethod
    def create(cls, dim: int, value: float = 1.0) -> "LogScale":
        """A scale of `value` in each of `dim` coordinates."""
        return cls(jnp.full((dim,), jnp.log(value)))

    def __call__(self) -> Float[Array, "D"]:
        """The scale."""
        return jnp.exp(self.log_value)


class RawScale(AbstractScale):
    """The standard deviation itself, as the authors' code keeps it (initially 0.5).

    Its floor of 1e-5 is held by `uivi.training.optimisers.paper_rmsprop`; use `LogScale` with other optimisers.
    """

    value: Float[Array, "D"]

    @classmethod
    def create(cls, dim: int, value: float = 0.5) -> "RawScale":
        """A scale of `value` in each of `dim` coordinates."""
        return cls(jnp.full((dim,), value))

    def __call__(self) -> Float[Array, "D"]:
        """The scale."""
        return self.value
