"""Checks of a target before any long work."""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PyTree

from uivi._jax import is_transformed, once_jit, ordinary_promotion
from uivi._types import Context, Key, Latent, Scalar
from uivi.families.base import AbstractFamily
from uivi.families.sampling import sample_batch
from uivi.targets.base import AbstractTarget
from uivi.targets.model import AbstractModelTarget
from uivi.targets.probe import Probe
from uivi.trainable import trained

NUM_TRIES = 32
ADVICE = "start at a point with init=, or transform z to an unconstrained space"
"""What to do about a log density that is not finite."""
NUM_FIRST_UPDATES = 2
"""Updates on which an optimiser is tried."""
RADII = (1e2, 1e4, 1e6, 1e8)
"""Distances at which tails are looked at, in standard deviations of the start."""
STEEPEST = -1.05
"""Slope of log p over log distance from which a tail is too heavy: -1, and room for the rounding of log p."""
FAINT = 7.0
"""Nats by which the mass at the farthest distance may be below that of the start and still count."""


def check_outside(name: str) -> None:
    """Raises inside `jax.jit`, `vmap` or `grad`: a fit compiles its own programs, and decides between them."""
    if is_transformed():
        raise ValueError(
            f"expected {name} outside of jax.jit, jax.vmap, jax.grad and other transformations, got a call "
            "inside one: call it from plain Python, as in a loop over data sets"
        )


def check_target(key: Key, target: AbstractTarget, family: AbstractFamily) -> None:
    """Traces, evaluates and differentiates the log density at a few draws of the first q.

    Raises:
        ValueError: if any of it fails; the message says what was expected, what came and what to do.
    """
    log_density, context = check_structure(key, target, family)
    draws = np.asarray(sample_batch(key, family, 0, context).z, np.float64)[:NUM_TRIES]
    check_numbers(log_density, Probe(log_density, NUM_TRIES), draws)


def check_structure(
    key: Key, target: AbstractTarget, family: AbstractFamily
) -> tuple[Callable[[Latent], Scalar], Context]:
    """Checks sizes, and that the log density can be traced: the part of `check_target` that needs no numbers.

    Returns:
        The log density at the first site, and the context of that site.
    """
    if family.dim != target.dim:
        raise ValueError(
            f"expected a family on {target.dim} dimensions (the target's), got one on {family.dim}: "
            "change `dim` or the family"
        )
    site, context = _first_site(key, target)
    has = 0 if context is None else context.shape[0]
    if has != family.context_dim:
        raise ValueError(f"expected a family with context_dim={has} (the target's), got {family.context_dim}")
    log_density = eqx.Partial(target.log_joint, site=site)
    check_trace(log_density, target.dim)
    return log_density, context


@once_jit
def _first_site(key: Key, target: AbstractTarget):
    site = jax.tree.map(lambda x: x[0], target.sites(key, jnp.zeros((), jnp.int32)))
    return site, target.context(site)


def check_gradients(target: AbstractTarget, gradients: Float[np.ndarray, "S D"]) -> None:
    """Raises if log p does not change along some coordinate at any of the points."""
    still = np.flatnonzero(~gradients.any(0))
    if still.size:
        raise ValueError(
            "expected a proper posterior, but the log density does not change with "
            f"{_name(target, int(still[0]))}: give it a proper prior, or leave it out"
        )


def _name(target: AbstractTarget, place: int) -> str:
    """Returns the name of a coordinate of z, in quotation marks."""
    return repr(target.coordinate(place) if isinstance(target, AbstractModelTarget) else f"z[{place}]")


def check_tails(
    target: AbstractTarget, probe: Probe, points: Float[np.ndarray, "S D"], scale: Float[np.ndarray, "D"]
) -> None:
    """Raises if log p cannot be integrated along some coordinate: the ELBO would rise for ever as q widens.

    A density with a finite integral has one on almost every line, and falls faster there than 1 / distance.

    Args:
        target: names the coordinates.
        probe: log density. Coordinates that are left when it is spent are not looked at.
        points: a few draws of the start: every line through them has to have such a tail.
        scale: standard deviations of the start.
    """
    if probe.is_spent:
        return
    middle = probe(points)[0]
    least = middle[0] - math.log(RADII[-1]) - FAINT
    for first in range(0, len(scale), probe.size):
        if probe.is_spent:
            return
        places = np.arange(first, min(first + probe.size, len(scale)))
        for sign in (1.0, -1.0):
            far = np.repeat(points[:1], len(places), 0)
            far[np.arange(len(places)), places] += sign * RADII[-1] * scale[places]
            for place in places[probe(far)[0] > least]:
                if _is_endless(probe, points, middle, int(place), sign * float(scale[place])):
                    raise ValueError(
                        "expected a log density with a finite integral, but it falls too slowly along "
                        f"{_name(target, int(place))}, if at all, up to {RADII[-1]:.0e} standard deviations of "
                        "the start: the ELBO would rise for ever as q widens; give that variable a proper prior"
                    )


def _is_endless(
    probe: Probe, points: Float[np.ndarray, "S D"], middle: Float[np.ndarray, "S"], place: int, scale: float
) -> bool:
    """Whether the mass at each distance grows with the distance, on the lines through all points."""
    lines = np.repeat(points[:, None], len(RADII), 1)
    lines[:, :, place] += scale * np.array(RADII)
    values = probe(lines.reshape(-1, points.shape[1]))[0].reshape(len(points), -1)
    with np.errstate(invalid="ignore"):  # infinities are not judged
        slopes = np.diff(values, axis=1) / np.diff(np.log(RADII))
        mass = values[:, -1] + math.log(RADII[-1]) - middle
        return bool(np.all(slopes > STEEPEST) and np.all((mass > -FAINT) & np.isfinite(mass)))


def check_optimizer(optimizer: optax.GradientTransformation, params: PyTree) -> None:
    """Raises if the first updates of an optimiser, at zero and along a known gradient, are NaN or go uphill.

    Args:
        optimizer: the user's optimiser.
        params: a tree like the one that is fitted. Its numbers do not matter, but an optimiser may have groups.
    """
    try:
        slopes = np.asarray(_first_slopes(optimizer, params))
    except TypeError as error:
        raise TypeError(
            "expected an optimiser that needs gradients only, such as optax.adam(1e-3), got one that failed "
            f"with\n{error}"
        ) from error
    if np.isfinite(slopes).all() and not (slopes > 0).any():
        return
    found = "not finite" if not np.isfinite(slopes).all() else "go uphill"
    raise ValueError(
        f"expected an optimiser whose updates decrease a loss, got one whose first updates {found}: give it a "
        "positive, finite learning rate, as in optax.adam(1e-3)"
    )


@once_jit
def _first_slopes(optimizer: optax.GradientTransformation, params: PyTree) -> Float[Array, "U"]:
    """Returns how much the first updates would change a loss with a gradient of one everywhere."""
    params = jax.tree.map(jnp.zeros_like, trained(params))
    with ordinary_promotion():
        state = optimizer.init(params)
    gradient, slopes = jax.tree.map(jnp.ones_like, params), []
    for _ in range(NUM_FIRST_UPDATES):
        with ordinary_promotion():
            updates, state = optimizer.update(gradient, state, params)
        slopes.append(sum(jnp.mean(x).astype(float) for x in jax.tree.leaves(updates)))
    return jnp.stack(slopes)


def check_trace(log_density: Callable[[Latent], Scalar], dim: int) -> None:
    """Raises if JAX cannot trace the log density, or if it does not return one float."""
    z = jax.ShapeDtypeStruct((dim,), jax.dtypes.canonicalize_dtype(float))
    try:
        out = jax.eval_shape(log_density, z)
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as error:
        raise ValueError(
            "expected a log density that JAX can trace, but it asked for the value of an array: use jax.numpy "
            f"instead of numpy, and jnp.where or lax.cond instead of `if` on z\n{error}"
        ) from error
    except Exception as error:
        is_sized = isinstance(error, TypeError | ValueError | IndexError)
        hint = f": is dim={dim} right?" if is_sized else ""
        raise ValueError(
            f"the log density failed on a vector of size {dim}{hint}\n{type(error).__name__}: {error}"
        ) from error
    _check_indices(log_density, dim)
    shape = getattr(out, "shape", None)
    if shape != ():
        got = f"shape {shape}" if shape is not None else type(out).__name__
        raise ValueError(f"expected a log density that returns a scalar, got {got}: sum over the terms")
    if not jnp.issubdtype(out.dtype, jnp.floating):
        raise ValueError(f"expected a log density that returns a float, got {out.dtype}")
    if out.dtype.itemsize < 4:
        raise ValueError(
            f"expected a log density in float32 or float64, got {out.dtype}, which has too few digits for the "
            "differences that a fit is made of: compute in float32, as in x.astype(jnp.float32)"
        )


def _check_indices(log_density, dim: int) -> None:
    """Raises on an index beyond the end of z. NumPy refuses it; JAX would clamp it silently."""
    try:
        # Inside a trace, so that JAX records the operations on this NumPy array and computes none.
        jax.eval_shape(lambda: log_density(np.zeros(dim, np.float32)))
    except IndexError as error:
        raise ValueError(
            f"the log density failed on a vector of size {dim}: is dim={dim} right?\n{error}"
        ) from error
    except Exception:
        return  # it wants a JAX array: the trace has shown that it takes one


def check_numbers(
    log_density: Callable[[Latent], Scalar],
    probe: Probe,
    draws: Float[np.ndarray, "S D"],
    *,
    advice: str = ADVICE,
) -> tuple[Float[np.ndarray, "S"], Float[np.ndarray, "S D"]]:
    """Raises unless log p and its gradient are finite at all draws, and not constant; returns both."""
    _check_transforms(log_density, draws.shape[1])
    values, gradients = probe(draws)
    bad = ~np.isfinite(values)
    if bad.any():
        where = draws[np.argmax(bad)]
        raise ValueError(
            f"expected a finite log density where the fit starts, got {values[np.argmax(bad)]} at "
            f"z={np.array2string(where, precision=3, threshold=8)} ({bad.sum()} of {len(draws)} draws): "
            f"{advice}"
        )
    if not np.isfinite(gradients).all():
        raise ValueError(
            "expected a finite gradient of the log density where the fit starts, got NaN or infinity: guard "
            "square roots, logarithms and divisions (jnp.where on the argument, not only on the result)"
        )
    # A single point may be a mode.
    if len(draws) > 1 and not gradients.any():
        flat = "and constant" if np.ptp(values) == 0 else "although its value varies"
        raise ValueError(
            f"expected a differentiable log density, got a gradient of zero at all {len(draws)} draws, {flat}: "
            "rounding, comparisons and stop_gradient have no useful derivative"
        )
    return values, gradients


def _check_transforms(log_density, dim: int) -> None:
    """Raises if JAX cannot batch or differentiate the log density."""
    z = jax.ShapeDtypeStruct((2, dim), jax.dtypes.canonicalize_dtype(float))
    try:
        jax.eval_shape(jax.vmap(log_density), z)
    except Exception as error:
        raise ValueError(
            f"expected a log density that jax.vmap can batch; it failed with\n{type(error).__name__}: {error}"
        ) from error
    try:
        jax.eval_shape(jax.vmap(jax.grad(log_density)), z)
    except Exception as error:
        raise ValueError(
            "expected a log density that JAX can differentiate; jax.grad failed with\n"
            f"{type(error).__name__}: {error}"
        ) from error
