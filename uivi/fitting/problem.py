"""Turns what the user gave to `fit` into a target, an example draw and points to start from."""

import types
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from uivi import _checks
from uivi._types import Key, Latent, Scalar
from uivi.integrations.recognition import recognise
from uivi.targets.base import AbstractTarget
from uivi.targets.density import Density
from uivi.targets.model import AbstractModelTarget

NUM_POINTS = 4
RADIUS = 2.0
"""Half width of the cube from which starting points are drawn, as in Stan."""


class Problem(NamedTuple):
    """A target and what belongs to it.

    Attributes:
        target: the target of the fit.
        example: zeros with the structure of one draw.
        points: points to start from, or None for a target that is not one posterior.
        rough: a cheaper log density for the search of a start, if the target has one.
    """

    target: AbstractTarget
    example: PyTree
    points: Float[Array, "K D"] | None
    rough: Callable[[Latent], Scalar] | None = None


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
    key, points_key = jax.random.split(key)
    if not isinstance(given, AbstractTarget) and dim is None and init is None:
        given = recognise(given, model_args=model_args, model_kwargs=model_kwargs, key=key) or given
    elif model_args is not None or model_kwargs is not None:
        raise ValueError(
            "expected `model_args` beside a model only: leave them out, or leave out `dim` and `init`"
        )
    if isinstance(given, AbstractTarget):
        return _of_target(given, dim, init, points_key)
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
        return Problem(
            Density(_plain_function(given), size), jnp.zeros(size), _cube(points_key, jnp.zeros(size))
        )
    return _of_example(given, init, points_key)


def _of_target(target: AbstractTarget, dim: int | None, init: PyTree, key: Key) -> Problem:
    if dim not in (None, target.dim):
        raise ValueError(f"expected dim={target.dim} (the target's), got {dim}: leave dim out")
    if init is not None:
        raise ValueError("expected no `init` beside a target: give the family its starting point")
    if isinstance(target, AbstractModelTarget):
        *keys, rough_key = jax.random.split(key, NUM_POINTS + 1)
        starts = [target.model.start(k) for k in keys]
        points = jnp.stack([ravel_pytree(dict(sorted(start.items())))[0] for start in starts])
        return Problem(target, target.model.example, points, target.rough(rough_key))
    return Problem(target, jnp.zeros(target.dim), None)


def _of_example(log_density: Callable, init: PyTree, key: Key) -> Problem:
    example = jax.tree.map(jnp.asarray, init)
    leaves = jax.tree.leaves(example)
    if not leaves or not all(jnp.issubdtype(x.dtype, jnp.floating) for x in leaves):
        kinds = sorted({str(x.dtype) for x in leaves}) or "no arrays"
        raise TypeError(f"expected `init` to hold float arrays only, got {kinds}: discrete z cannot be fitted")
    start, unravel = ravel_pytree(example)
    flat = Density(lambda z: log_density(unravel(z)), start.shape[0])
    return Problem(flat, jax.tree.map(jnp.zeros_like, example), start[None])


def _cube(key: Key, centre: Float[Array, "D"]) -> Float[Array, "K D"]:
    """Returns the centre and points around it."""
    around = jax.random.uniform(key, (NUM_POINTS - 1, centre.shape[0]), centre.dtype, -RADIUS, RADIUS)
    return jnp.concatenate([centre[None], centre[None] + around])


def _plain_function(function: Callable) -> Callable:
    """Wraps anything but a plain function: Equinox refuses modules and jitted functions as static fields."""
    return function if isinstance(function, types.FunctionType) else lambda z: function(z)
