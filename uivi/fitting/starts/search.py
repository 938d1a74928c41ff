"""Finds rough moments of the posterior, by Pathfinder and by Newton's method.

They only set the location and scale on which q is fitted; see `uivi.families.Standardised`.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.vi import pathfinder
from jaxtyping import Array, Float

from uivi._jax import ordinary_promotion
from uivi._types import Key, Latent, Scalar

NUM_MOMENTS = 2_000
NUM_ELBO = 200
MAX_ITERATIONS = 100
NUM_RECENTRING = 5
NUM_CURVATURES = 32
LEAST_CHANGE = 1e-6
"""Smallest change of the curvature, which is of order one, that is more than rounding."""
LARGEST = 1e4
"""Standard deviations are kept between 1 / LARGEST and LARGEST."""

LogDensity = Callable[[Latent], Scalar]


class Start(NamedTuple):
    """A rough Gaussian approximation.

    Attributes:
        loc: its mean.
        factor: F with F Fᵀ its covariance, or its standard deviations.
        elbo: its ELBO in nats, from 200 draws; -inf if the search failed, NaN if unknown.
        name: name of the search that found it.
    """

    loc: Float[Array, "D"]
    factor: Float[Array, "D D"] | Float[Array, "D"]
    elbo: float = math.nan
    name: str = "given"


def find_start(key: Key, log_density: LogDensity, points: Float[Array, "K D"], *, full_up_to: int) -> Start:
    """Returns the candidate with the largest ELBO.

    Pathfinder (Zhang et al. 2022) searches along a quasi-Newton path, so it does not run into a mode of
    infinite density. Laplace's approximation, with exact second derivatives, is better where the posterior is
    narrow in some direction. Both may fail: the fit then starts at the first of `points`, on a unit scale.

    Args:
        key: random key.
        log_density: log density of one z.
        points: starting points of the paths.
        full_up_to: largest D for which the full covariance is kept; above it, only standard deviations.
    """
    path_key, elbo_key = jax.random.split(key)
    dim = points.shape[1]
    is_full = dim <= full_up_to
    loc, factor = _pathfinder(path_key, log_density, points, is_full=is_full)
    candidates = [
        (points[0], jnp.eye(dim) if is_full else jnp.ones(dim), "origin"),
        (loc, factor, "pathfinder"),
    ]
    if is_full:
        begin = loc if np.all(np.isfinite(loc)) else points[0]
        candidates.append((*_laplace(log_density, begin), "laplace"))
    starts = [Start(a, b, float(_elbo(elbo_key, log_density, a, b)), name) for a, b, name in candidates]
    usable = [s._replace(elbo=s.elbo if np.isfinite(s.elbo) else -np.inf) for s in starts]
    return max(usable, key=lambda s: s.elbo)


def turned(key: Key, start: Start, log_density: LogDensity) -> Start:
    """Returns the same Gaussian on other axes, ordered by how much the curvature changes along them.

    With z = loc + F w, a Gaussian posterior has the same second derivatives in w everywhere. In other
    posteriors they change from place to place, often along shared axes: a random walk, say, is wide along its
    fast components where its step is large. A q whose scales vary with ε can follow this only along the
    coordinates of w. So F is rotated by the eigenvectors of the mean squared change.
    """
    found = np.asarray(_curvatures(key, log_density, start.loc, start.factor), np.float64)
    found = found[np.all(np.isfinite(found), axis=(1, 2))]
    if len(found) < 2:
        return start
    # The median, since a few draws in a tail can have enormous second derivatives.
    changes = found - np.median(found, 0)
    # Normalise each change, because in a tail they may be larger by orders of magnitude.
    changes /= np.maximum(np.linalg.norm(changes, axis=(1, 2), keepdims=True), LEAST_CHANGE)
    _, axes = np.linalg.eigh(np.mean(changes @ changes, 0))
    return start._replace(factor=start.factor @ jnp.asarray(axes[:, ::-1], start.factor.dtype))


@eqx.filter_jit
def _curvatures(
    key: Key, log_density: LogDensity, loc: Float[Array, "D"], factor: Float[Array, "D D"]
) -> Float[Array, "K D D"]:
    """Returns second derivatives in w at draws of the start."""
    noise = jax.random.normal(key, (NUM_CURVATURES, loc.shape[0]), loc.dtype)
    # One Hessian after the other: D² numbers each, and D copies of the density's intermediates.
    return jax.lax.map(jax.hessian(lambda w: log_density(loc + factor @ w)), noise)


def recentred(start: Start, log_density: LogDensity) -> Start:
    """Moves a start uphill, by quasi-Newton steps with its own covariance.

    This is for a start that was found on part of the data, whose mode is a few standard deviations off.
    """
    evaluate = eqx.filter_jit(lambda f, z: jax.value_and_grad(f)(z))
    loc, factor = start.loc, start.factor
    value, gradient = evaluate(log_density, loc)
    for _ in range(NUM_RECENTRING):
        step = factor @ (factor.T @ gradient) if factor.ndim == 2 else factor**2 * gradient
        new_value, new_gradient = evaluate(log_density, loc + step)
        if not new_value > value:
            break
        loc, value, gradient = loc + step, new_value, new_gradient
    return start._replace(loc=loc, elbo=math.nan)


def _pathfinder(key: Key, log_density, points: Array, *, is_full: bool) -> tuple[Array, Array]:
    """Returns mean and factor of the draws of all paths, each weighted by its ELBO."""
    with ordinary_promotion():
        draws = _paths(key, log_density, points)
    loc, scale = jnp.mean(draws, 0), jnp.clip(jnp.std(draws, 0), 1 / LARGEST, LARGEST)
    if not is_full:
        return loc, scale
    # Factor the correlation, not the covariance: with scales far apart the latter is singular in float32. A
    # thousandth of the identity keeps it positive definite where the draws span few directions.
    whitened = (draws - loc[None]) / scale[None]
    covariance = 0.999 * whitened.T @ whitened / NUM_MOMENTS + 0.001 * jnp.eye(points.shape[1])
    return loc, scale[:, None] * jnp.linalg.cholesky(covariance)


@eqx.filter_jit
def _paths(key: Key, log_density, points: Float[Array, "K D"]) -> Float[Array, "M D"]:
    path_key, draw_key = jax.random.split(key)

    def path(start):
        key, point = start
        return pathfinder.approximate(key, log_density, point, 100, maxiter=MAX_ITERATIONS, maxls=50)[0]

    # One after the other: under vmap, BlackJAX's line search may not end.
    paths = jax.lax.map(path, (jax.random.split(path_key, points.shape[0]), points))
    elbos = jnp.where(jnp.isfinite(paths.elbo), paths.elbo, -jnp.inf)
    chosen_key, *keys = jax.random.split(draw_key, points.shape[0] + 1)
    sample: Any = pathfinder.sample
    draws = jax.vmap(lambda key, path: sample(key, path, NUM_MOMENTS)[0])(jnp.stack(keys), paths)
    # Paths that end in modes of similar weight share the draws, so that the start covers both.
    from_path = jax.random.categorical(chosen_key, elbos, shape=(NUM_MOMENTS,))
    return draws[from_path, jnp.arange(NUM_MOMENTS)]


def _laplace(log_density: LogDensity, start: Float[Array, "D"]) -> tuple[Array, Array]:
    """Finds mode and curvature by damped Newton steps, with NumPy's linear algebra in float64."""
    derivatives = eqx.filter_jit(lambda f, z: (f(z), jax.grad(f)(z), jax.hessian(f)(z)))
    evaluate = lambda z: [
        np.asarray(x, np.float64) for x in derivatives(log_density, jnp.asarray(z, start.dtype))
    ]
    z, damping = np.asarray(start, np.float64), 1e-3
    value, gradient, hessian = evaluate(z)
    if not np.all(np.isfinite(hessian)):
        return start, jnp.full((start.shape[0], start.shape[0]), jnp.nan, start.dtype)
    for _ in range(MAX_ITERATIONS):
        # A Levenberg step: damping shrinks after a gain and grows after a failure, towards gradient ascent.
        step = _factor(hessian, damping)
        step = step @ (step.T @ gradient)
        new = evaluate(z + step)
        if all(np.all(np.isfinite(x)) for x in new) and new[0] > value:
            gain, z, damping = new[0] - value, z + step, max(damping / 10, 1e-9)
            value, gradient, hessian = new
            if gain < 1e-4:
                break
        else:
            damping *= 10
            if damping > 1e9:
                break
    root = _factor(hessian, 0.0)
    sd = np.linalg.norm(root, axis=1)
    unit = root / sd[:, None]
    # A lower triangular factor, as `Affine` has it; the jitter covers rounding of a flat direction.
    correlation = np.linalg.cholesky(unit @ unit.T + 1e-6 * np.eye(len(z)))
    factor = np.clip(sd, 1 / LARGEST, LARGEST)[:, None] * correlation
    return jnp.asarray(z, start.dtype), jnp.asarray(factor, start.dtype)


def _factor(hessian: np.ndarray, damping: float) -> np.ndarray:
    """Returns F with F Fᵀ the inverse of minus the Hessian, after making its eigenvalues positive."""
    scale = np.sqrt(np.maximum(np.abs(np.diag(hessian)), 1 / LARGEST**2))
    values, vectors = np.linalg.eigh(-hessian / np.outer(scale, scale))
    # Absolute values turn a saddle's uphill direction into a step of the right length.
    values = np.maximum(np.abs(values), 1e-7) + damping
    return (vectors / np.sqrt(values)) / scale[:, None]


@eqx.filter_jit
def _elbo(key: Key, log_density, loc: Array, factor: Array) -> Scalar:
    noise = jax.random.normal(key, (NUM_ELBO, loc.shape[0]), loc.dtype)
    draws = loc[None] + (noise @ factor.T if factor.ndim == 2 else noise * factor[None])
    entropy = jnp.sum(jnp.log(jnp.diag(factor) if factor.ndim == 2 else factor))
    return jnp.mean(jax.vmap(log_density)(draws)) + entropy + 0.5 * loc.shape[0] * jnp.log(2 * jnp.pi * jnp.e)
