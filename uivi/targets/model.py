"""A model of a probabilistic programming library as a target."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from uivi._types import Key, Latent, Scalar
from uivi.targets.base import AbstractGlobalTarget, AbstractSingleSiteTarget

Named = dict[str, Any]
"""Arrays by the names of a model's variables."""


class AbstractModel:
    """What a library knows of one model and its data; `ModelTarget` makes a target of it.

    Attributes:
        title: what the model is, for people.
        example: zeros of one draw in the unconstrained space, by name.
        dims: names of the axes of a variable, where the model has them.
        coords: labels along such axes.
        constants: data that the model holds beside its observations, by name.
    """

    title: str
    example: dict[str, Array]
    dims: dict[str, list[str]]
    coords: dict[str, Any]
    constants: dict[str, np.ndarray]

    def log_density(self, unconstrained: Named) -> Scalar:
        """Log p(x, z) with the Jacobians of the transforms."""
        raise NotImplementedError

    def constrain(self, unconstrained: Named) -> Named:
        """One draw as the model's variables, those that it computes from others included."""
        raise NotImplementedError

    def start(self, key: Key) -> Named:
        """A place in the unconstrained space where log density and gradient are finite."""
        raise NotImplementedError

    def log_likelihood(self, draws: Named) -> dict[str, np.ndarray]:
        """Log p of every observation at every draw (leading axis), by observed variable."""
        raise NotImplementedError

    def predict(self, key: Key, draws: Named, *args: Any, **kwargs: Any) -> dict[str, np.ndarray]:
        """New observations at every draw (leading axis); other arguments for the model, or its own."""
        raise NotImplementedError

    def observed(self) -> dict[str, np.ndarray]:
        """The data, by observed variable."""
        raise NotImplementedError


class AbstractModelTarget(AbstractSingleSiteTarget):
    """The posterior of a model on its unconstrained space."""

    model: eqx.AbstractVar[AbstractModel]

    @property
    def dim(self) -> int:
        """D, of the unconstrained space."""
        return sum(x.size for x in jax.tree.leaves(self.model.example))

    def unflatten(self, z: Latent) -> PyTree:
        """Z by name, unconstrained."""
        return ravel_pytree(self.model.example)[1](z)

    def constrain(self, z: Latent) -> Named:
        """Z by name, constrained."""
        return self.model.constrain(self.unflatten(z))

    def rough(self, key: Key) -> Callable[[Latent], Scalar] | None:
        """A cheaper stand-in for `log_density`, good enough to look for a start; None if there is no need."""
        del key

    def identity(self) -> list[str]:
        """What tells it from other posteriors, also in the next process: shapes, and log p at two places."""
        shapes = [f"{name}{list(value.shape)}" for name, value in self.model.example.items()]
        first = jnp.arange(self.dim, dtype=jnp.zeros(()).dtype)
        values = jax.vmap(self.log_density)(jnp.stack([jnp.sin(first), jnp.cos(first)]))
        return [*shapes, *(f"{value:.4g}" for value in values.tolist())]

    def coordinate(self, index: int) -> str:
        """The name of one coordinate of z, such as "theta[3]"."""
        for name, value in self.model.example.items():
            if index < value.size:
                place = ", ".join(str(i) for i in np.unravel_index(index, value.shape))
                return f"{name}[{place}]" if value.shape else name
            index -= value.size
        raise IndexError("expected an index below dim")


class ModelTarget(AbstractModelTarget, AbstractGlobalTarget):
    """A model on all its data at once."""

    model: AbstractModel = eqx.field(static=True)

    def log_joint(self, z: Latent, site: tuple) -> Scalar:
        """The model's."""
        del site
        return self.model.log_density(self.unflatten(z))
