"""The start of a fit, with the log density checked on the way to it."""

import warnings

import jax
import numpy as np

from uivi import presets
from uivi._types import Key
from uivi.evaluation.findings import COARSE_NATS
from uivi.evaluation.precision import step_of
from uivi.fitting.prechecks import ADVICE, NUM_TRIES, check_gradients, check_numbers, check_tails
from uivi.fitting.problem import NUM_POINTS, Problem
from uivi.fitting.starts.effort import MANY_POINTS, Curvature, look_around, probe_of
from uivi.fitting.starts.search import NO_CURVATURE, Start, explored, find_start, recentred
from uivi.targets.base import AbstractSingleSiteTarget, AbstractTarget
from uivi.targets.model import AbstractModelTarget
from uivi.targets.probe import Probe, finite_points, generator

NUM_LINES = 4
"""Lines along each coordinate on which tails are looked at."""
JITTER = 0.1
"""Half width of the cube around a given point in which others are looked at, relative to its coordinates if
these are larger than one."""


def checked_start(
    key: Key, problem: Problem, target: AbstractTarget, curvature: Curvature = NO_CURVATURE
) -> Start:
    """Finds a rough Gaussian approximation of the posterior.

    Args:
        key: random key.
        problem: a problem with one posterior.
        target: its target, as the fit sees it.
        curvature: what may be spent on the covariance of a large z.

    Raises:
        ValueError: if the log density or its gradient is not finite where the fit may start.
    """
    assert isinstance(target, AbstractSingleSiteTarget)
    probe = probe_of(target)
    points = None if problem.points is None else np.asarray(problem.points)
    if points is None:
        assert isinstance(problem.target, AbstractModelTarget)
        points = finite_points(key, problem.target.model, probe, NUM_POINTS)
    values, gradients = check_numbers(target.log_density, probe, points)
    if len(points) == 1 and not gradients.all():
        points = np.concatenate([points, _around(key, probe, points[0])])
    full_up_to = presets.FULL_COVARIANCE_UP_TO
    search = lambda probe: find_start(key, probe, points, full_up_to=full_up_to, curvature=curvature)
    if problem.rough is not None:
        check_gradients(problem.target, gradients)
        _warn_if_coarse(values)
        return recentred(search(Probe(problem.rough, MANY_POINTS)), probe)
    start = search(probe)
    # The first q is close to this Gaussian: its draws are where the updates begin.
    noise = generator(key).standard_normal((NUM_TRIES, target.dim))
    advice = (
        problem.target.model.why_not_finite() if isinstance(problem.target, AbstractModelTarget) else ADVICE
    )
    draws = start.from_normal(noise)
    values, gradients = check_numbers(target.log_density, probe, draws, advice=advice)
    check_gradients(problem.target, gradients)
    check_tails(problem.target, look_around(target), draws[:NUM_LINES], draws.std(0))
    _warn_if_coarse(values)
    return explored(jax.random.fold_in(key, 1), look_around(target), start, points[0])


def _warn_if_coarse(values: np.ndarray) -> None:
    """Warns if log p is so large that floating point has no digits left for its differences."""
    # Far from the mode any log density is large, and coarse.
    better = np.sort(values)[len(values) // 2 :]
    if (step := step_of(better.astype(jax.dtypes.canonicalize_dtype(np.float64)))) >= COARSE_NATS:
        warnings.warn(
            f"floating point resolves the log density to {step:.2g} nats only where the fit starts: leave "
            "constants out of it, or compute in double precision (JAX_ENABLE_X64=1)",
            stacklevel=4,
        )


def _around(key: Key, probe: Probe, point: np.ndarray) -> np.ndarray:
    """Returns points near one with a derivative of zero, as at a mode or a saddle: no path leads off it."""
    noise = generator(key).uniform(-JITTER, JITTER, (NUM_POINTS - 1, len(point)))
    points = point + noise * np.maximum(1.0, np.abs(point))
    values, gradients = probe(points)
    return points[np.isfinite(values) & np.all(np.isfinite(gradients), 1)]
