"""A model of a probabilistic programming library as a target."""

import abc
from collections.abc import Callable, Hashable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from uivi._types import Key, Latent, Scalar
from uivi.targets.base import AbstractGlobalTarget, AbstractSingleSiteTarget

Named = dict[str, Any]
"""Arrays by the names of a model's variables."""


class AbstractModel(abc.ABC):
    """A model of another library together with its data. `ModelTarget` turns it into a target.

    Attributes:
        title: human-readable name of the model.
        example: one draw in the unconstrained space, all zeros, by name.
        dims: names of the axes of each variable that has named axes.
        coords: labels along the named axes.
        constants: data the model holds besides its observations, by name.
        centre: the point of the unconstrained space around which fits start, by name.
        radius: half width of the cube around `centre` from which starting points are drawn.
        source: what the user wrote, such as a function. Models of one source may share compiled code.
    """

    title: str
    example: dict[str, Array]
    dims: dict[str, list[str]]
    coords: dict[str, Any]
    constants: dict[str, np.ndarray]
    centre: dict[str, np.ndarray]
    radius: float
    source: Hashable

    @abc.abstractmethod
    def log_density(self, unconstrained: Named) -> Scalar:
        """Returns log p(x, z), including the log Jacobians of the transforms."""

    @abc.abstractmethod
    def constrain(self, unconstrained: Named) -> Named:
        """Returns one draw as the model's variables, including those computed from others."""

    @abc.abstractmethod
    def prior_draws(self, key: Key, number: int) -> Named | None:
        """Returns draws of the prior in the unconstrained space (leading axis), or None if there are none."""

    @abc.abstractmethod
    def why_not_finite(self) -> str:
        """Returns what to tell the user if no point near `centre` has a finite log density and gradient."""

    @abc.abstractmethod
    def log_likelihood(self, draws: Named) -> dict[str, np.ndarray]:
        """Returns log p of every observation at every draw (leading axis), by observed variable."""

    @abc.abstractmethod
    def predict(self, key: Key, draws: Named, *args: Any, **kwargs: Any) -> dict[str, np.ndarray]:
        """Draws new observations at every draw (leading axis).

        The model is called with `args` and `kwargs` if there are any, otherwise with its own arguments.
        """

    @abc.abstractmethod
    def observed(self) -> dict[str, np.ndarray]:
        """Returns the data, by observed variable."""


class AbstractModelTarget(AbstractSingleSiteTarget):
    """The posterior of a model on its unconstrained space."""

    model: eqx.AbstractVar[AbstractModel]

    @property
    def dim(self) -> int:
        """Size of the latent vector in the unconstrained space, D."""
        return sum(x.size for x in jax.tree.leaves(self.model.example))

    def unflatten(self, z: Latent) -> PyTree:
        """Returns the unconstrained variables of z, by name."""
        return ravel_pytree(self.model.example)[1](z)

    def constrain(self, z: Latent) -> Named:
        """Returns the constrained variables of z, by name."""
        return self.model.constrain(self.unflatten(z))

    def prior_draws(self, key: Key, number: int) -> Float[np.ndarray, "S D"] | None:
        """Returns draws of the model's prior, flat, those that are finite; None if the model gives none."""
        if (draws := self.model.prior_draws(key, number)) is None:
            return None
        flat = np.concatenate([np.reshape(draws[name], (number, -1)) for name in sorted(draws)], 1)
        return flat[np.all(np.isfinite(flat), 1)]

    @abc.abstractmethod
    def rough(self, key: Key) -> Callable[[Latent], Scalar] | None:
        """Returns a cheap estimate of `log_density` for the search of a start, or None to use `log_density`."""

    def coordinate(self, index: int) -> str:
        """Returns the name of one coordinate of z, such as "theta[3]"."""
        for name, value in self.model.example.items():
            if index < value.size:
                place = ", ".join(str(i) for i in np.unravel_index(index, value.shape))
                return f"{name}[{place}]" if value.shape else name
            index -= value.size
        raise IndexError("expected an index below dim")


class ModelTarget(AbstractModelTarget, AbstractGlobalTarget):
    """The posterior of a model, evaluated on all its data at every update."""

    model: AbstractModel = eqx.field(static=True)

    def log_joint(self, z: Latent, site: tuple) -> Scalar:
        """Returns the model's log density."""
        del site
        return self.model.log_density(self.unflatten(z))

    def rough(self, key: Key) -> None:
        """Returns None: the start is searched for on all the data."""
        del key
