"""Turns what the user gave to `fit` into a target, an example draw and points to start from."""

import dataclasses
import types
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from uivi import _checks
from uivi._types import Key, Latent, Scalar
from uivi.integrations.recognition import recognise, refuse_class
from uivi.presets import FULL_COVARIANCE_UP_TO
from uivi.targets.base import AbstractGlobalTarget, AbstractTarget
from uivi.targets.density import Density
from uivi.targets.model import AbstractModelTarget
from uivi.targets.probe import generator
from uivi.trainable import trained

MOST_DIMENSIONS = 10**7
"""Largest size of z. The search alone would need tens of gigabytes of memory for more."""
NUM_POINTS = 4
RADIUS = 2.0
"""Half width of the cube from which starting points are drawn, as in Stan."""


class Problem(NamedTuple):
    """A target and what belongs to it.

    Attributes:
        target: the target of the fit.
        example: zeros with the structure of one draw.
        points: points to start from. A model has its own, and a target that is not one posterior has none.
        rough: a cheaper log density for the search of a start, if the target has one.
    """

    target: AbstractTarget
    example: PyTree
    points: Float[np.ndarray | Array, "K D"] | None
    rough: Callable[[Latent], Scalar] | None = None

    @property
    def has_start(self) -> bool:
        """Whether a start can be searched for."""
        return self.points is not None or isinstance(self.target, AbstractModelTarget)


def problem_of(
    given: Any,
    key: Key,
    *,
    dim: int | None = None,
    init: PyTree = None,
    model_args: tuple | None = None,
    model_kwargs: dict | None = None,
) -> Problem:
    """Returns the problem given by a log density, a target or a model.

    Raises:
        TypeError: for anything else.
        ValueError: for arguments that do not go together.
    """
    if not isinstance(given, AbstractTarget) and dim is None and init is None:
        given = recognise(given, model_args=model_args, model_kwargs=model_kwargs, key=key) or given
    elif model_args is not None or model_kwargs is not None:
        raise ValueError(
            "expected `model_args` beside a model only: leave them out, or leave out `dim` and `init`"
        )
    if isinstance(given, AbstractTarget):
        return _of_target(given, dim, init, key)
    refuse_class(given)
    if not callable(given):
        raise TypeError(
            "expected `log_density` to be a JAX function of z, a target or a model, got "
            f"{type(given).__name__}: give a function, or a model without `dim` and `init`"
        )
    if (dim is None) == (init is None):
        if dim is not None:
            raise ValueError("expected either `dim` or `init`, got both: pass the size of z or an example draw")
        raise ValueError(
            "expected either `dim` or `init`, got neither: for a log density, pass dim= (the size of z) or "
            "init= (an example draw); for a NumPyro model, pass model_args= (its arguments)"
        )
    if dim is not None:
        size = _checks.positive_int("dim", dim)
        if size > MOST_DIMENSIONS:
            raise ValueError(
                f"expected `dim` to be at most {MOST_DIMENSIONS:,}, got {size:,}: is it a typing error?"
            )
        return Problem(Density(_plain_function(given), size), _zeros(size), _around_zero(key, size))
    return _of_example(given, init)


def _of_target(target: AbstractTarget, dim: int | None, init: PyTree, key: Key) -> Problem:
    if dim not in (None, target.dim):
        raise ValueError(f"expected dim={target.dim} (the target's), got {dim}: leave dim out")
    if init is not None:
        raise ValueError("expected no `init` beside a target: give the family its starting point")
    if isinstance(target, AbstractModelTarget):
        return Problem(target, target.model.example, None, target.rough(key))
    # With fewer dimensions, the family has a covariance to train and needs no start.
    is_large = target.dim > FULL_COVARIANCE_UP_TO
    is_posterior = isinstance(target, AbstractGlobalTarget) and not jax.tree.leaves(trained(target))
    points = _around_zero(key, target.dim) if is_large and is_posterior else None
    return Problem(target, _zeros(target.dim), points)


def _around_zero(key: Key, size: int) -> Float[np.ndarray, "K D"]:
    around = generator(key).uniform(-RADIUS, RADIUS, (NUM_POINTS - 1, size))
    return np.concatenate([np.zeros((1, size)), around])


def _of_example(log_density: Callable, init: PyTree) -> Problem:
    host = jax.tree.map(_canonical, init)
    leaves = jax.tree.leaves(host)
    if not sum(x.size for x in leaves):
        raise ValueError("expected `init` to hold at least one number, got none: pass an example draw, or dim=")
    if not all(jnp.issubdtype(x.dtype, jnp.floating) for x in leaves):
        kinds = sorted({str(x.dtype) for x in leaves})
        raise TypeError(
            f"expected `init` to hold float arrays only, got {kinds}: write 0.0 in place of 0; discrete z "
            "cannot be fitted"
        )
    # BlackJAX calls this inside a compiled function, where there is no value to compute with.
    is_traced = any(isinstance(x, Tracer) for x in leaves)
    start = ravel_pytree(host)[0] if is_traced else np.concatenate([np.ravel(x).astype(float) for x in leaves])
    example = jax.tree.map(lambda x: jax.device_put(np.zeros(x.shape, x.dtype)), host)
    shapes = tuple((x.shape, x.dtype) for x in leaves)
    on_tree = _OnTree(log_density, _same(log_density, jax.tree.structure(host), shapes), example)
    return Problem(Density(on_tree, start.shape[0]), example, start[None])


@dataclasses.dataclass(frozen=True)
class _OnTree:
    """A log density of a pytree as a function of a flat vector. Equal to another one of the same function."""

    function: Callable = dataclasses.field(compare=False)
    identity: Hashable
    example: PyTree = dataclasses.field(compare=False)

    def __call__(self, z: Latent) -> Scalar:
        """Evaluates the user's function."""
        return self.function(ravel_pytree(self.example)[1](z))


@dataclasses.dataclass(frozen=True)
class _Called:
    """Any callable as a hashable function. Equal to another one of the same callable."""

    function: Callable = dataclasses.field(compare=False)
    identity: Hashable

    def __call__(self, z: Latent) -> Scalar:
        """Evaluates the user's function."""
        return self.function(z)


def _plain_function(function: Callable) -> Callable:
    """Wraps anything but a plain function: Equinox refuses modules and jitted functions as static fields."""
    return function if isinstance(function, types.FunctionType) else _Called(function, _same(function))


def _same(function: Callable, *others: Hashable) -> Hashable:
    """Returns what makes two functions the same: the function, or nothing at all if it has no hash."""
    try:
        hash(function)
    except TypeError:
        return object()
    return function, *others


def _zeros(size: int) -> Any:
    return jax.device_put(np.zeros(size, jax.dtypes.canonicalize_dtype(float)))


def _canonical(value: Any) -> Any:
    if isinstance(value, Tracer):
        return value
    array = np.asarray(value)
    dtype = jax.dtypes.canonicalize_dtype(array.dtype)
    # Half precision has too few digits for a density: draws have float32 in its place.
    is_half = jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize < 4
    return array.astype(np.float32 if is_half else dtype)
