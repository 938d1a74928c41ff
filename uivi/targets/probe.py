"""Evaluates a log density from the host: NumPy in, NumPy out, one program for any number of points."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from uivi._jax import one_blas_thread, seldom_jit
from uivi._types import Key, Latent, Scalar
from uivi.targets.model import AbstractModel

NUM_TRIES = 100
"""Number of random points that are tried as starting points."""

ROWS_AT_ONCE = 256
"""Rows of a larger Hessian that are computed side by side. It bounds the memory."""

LogDensity = Callable[[Latent], Scalar]


class Probe:
    """A log density with its gradient and Hessian at points that the host chooses, all in float64.

    Args:
        log_density: log density of one z.
        size: number of points in one call of the program. Fewer are padded, more are split.
        most: number of evaluations after which a search should end.
    """

    def __init__(self, log_density: LogDensity, size: int, most: float = math.inf):
        self._log_density, self.size, self._left = log_density, size, most

    @property
    def is_spent(self) -> bool:
        """Whether there have been as many evaluations as the search may have. Nothing stops further ones."""
        return self._left <= 0

    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns log p, shape (S,), and its gradients, shape (S, D), at points of shape (S, D)."""
        with one_blas_thread():
            found = list(self._batches(points))
        values, gradients = (np.concatenate(x).astype(np.float64) for x in zip(*found, strict=True))
        return values, gradients

    def _batches(self, points: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for first in range(0, len(points), self.size):
            part = points[first : first + self.size]
            padded = np.concatenate([part, np.repeat(part[:1], self.size - len(part), 0)])
            self._left -= self.size
            values, gradients = _values_and_gradients(self._log_density, _as_jax(padded))
            yield np.asarray(values)[: len(part)], np.asarray(gradients)[: len(part)]

    def hessian(self, point: np.ndarray) -> np.ndarray:
        """Returns the matrix of second derivatives at one point. It costs about as much as D evaluations."""
        dim = len(point)
        self._left -= dim
        place = _as_jax(point)
        if dim <= ROWS_AT_ONCE:
            return np.asarray(_hessian(self._log_density, place), np.float64)
        rows = [_hessian_rows(self._log_density, place, np.int32(i)) for i in range(0, dim, ROWS_AT_ONCE)]
        return np.concatenate([np.asarray(each, np.float64) for each in rows])[:dim]

    def curvature_along(self, points: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Returns the mean over some points of the Hessian times a vector."""
        self._left -= len(points)
        return np.asarray(_slopes_along(self._log_density, _as_jax(points), _as_jax(direction)), np.float64)


def generator(key: Key) -> np.random.Generator:
    """Returns NumPy's generator for the random numbers of the host."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())


def finite_points(key: Key, model: AbstractModel, probe: Probe, number: int) -> np.ndarray:
    """Returns up to `number` random points near a model's centre with finite log density and gradient, flat.

    Raises:
        ValueError: if there is none in 100 tries.
    """
    centre = np.concatenate([np.ravel(value) for _, value in sorted(model.centre.items())])
    noise = generator(key).uniform(-model.radius, model.radius, (NUM_TRIES, len(centre)))
    found: list[np.ndarray] = []
    for first in range(0, NUM_TRIES, probe.size):
        points = centre + noise[first : first + probe.size]
        values, gradients = probe(points)
        found += list(points[np.isfinite(values) & np.all(np.isfinite(gradients), 1)])
        if len(found) >= number:
            break
    if not found:
        raise ValueError(
            "expected a finite log density and gradient near the model's initial point in its unconstrained "
            f"space, found none in {NUM_TRIES} tries; {model.why_not_finite()}"
        )
    return np.stack(found[:number])


@seldom_jit
def _values_and_gradients(
    log_density: LogDensity, points: Float[Array, "S D"]
) -> tuple[Float[Array, "S"], Float[Array, "S D"]]:
    return jax.vmap(jax.value_and_grad(log_density))(points)


@seldom_jit
def _hessian(log_density: LogDensity, point: Latent) -> Float[Array, "D D"]:
    return jax.hessian(log_density)(point)


@seldom_jit
def _hessian_rows(log_density: LogDensity, point: Latent, first: Any) -> Float[Array, "R D"]:
    """Returns rows of the Hessian. Those after its last are zero."""
    slope = lambda direction: jax.jvp(jax.grad(log_density), (point,), (direction,))[1]
    places = first + jnp.arange(ROWS_AT_ONCE, dtype=jnp.int32)
    return jax.vmap(slope)(jax.nn.one_hot(places, len(point), dtype=point.dtype))


@seldom_jit
def _slopes_along(log_density: LogDensity, points: Float[Array, "S D"], direction: Latent) -> Latent:
    slope = lambda point: jax.jvp(jax.grad(log_density), (point,), (direction,))[1]
    return jnp.mean(jax.vmap(slope)(points), 0)


def _as_jax(points: np.ndarray) -> Array:
    return jax.device_put(points.astype(jax.dtypes.canonicalize_dtype(np.float64)))
