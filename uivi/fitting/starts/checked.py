"""The start of a fit, with the log density checked on the way to it."""

import numpy as np

from uivi import presets
from uivi._types import Key
from uivi.fitting.prechecks import NUM_TRIES, check_gradients, check_numbers
from uivi.fitting.problem import NUM_POINTS, Problem
from uivi.fitting.starts.search import Start, find_start, recentred
from uivi.targets.base import AbstractGlobalTarget, AbstractSingleSiteTarget, AbstractTarget
from uivi.targets.model import AbstractModelTarget
from uivi.targets.probe import Probe, finite_points, generator

MANY_POINTS, FEW_POINTS = 64, 4
"""Points in one call of the probe; few where a call goes through all rows of a large data set."""


def checked_start(key: Key, problem: Problem, target: AbstractTarget) -> Start:
    """Finds a rough Gaussian approximation of the posterior.

    Args:
        key: random key.
        problem: a problem with one posterior.
        target: its target, as the fit sees it.

    Raises:
        ValueError: if the log density or its gradient is not finite where the fit may start.
    """
    assert isinstance(target, AbstractSingleSiteTarget)
    probe = Probe(target.log_density, MANY_POINTS if isinstance(target, AbstractGlobalTarget) else FEW_POINTS)
    points = None if problem.points is None else np.asarray(problem.points)
    if points is None:
        assert isinstance(problem.target, AbstractModelTarget)
        points = finite_points(key, problem.target.model, probe, NUM_POINTS)
    gradients = check_numbers(target.log_density, probe, points)
    search = lambda probe: find_start(key, probe, points, full_up_to=presets.FULL_COVARIANCE_UP_TO)
    if problem.rough is not None:
        check_gradients(problem.target, gradients)
        return recentred(search(Probe(problem.rough, MANY_POINTS)), probe)
    start = search(probe)
    # The first q is close to this Gaussian: its draws are where the updates begin.
    noise = generator(key).standard_normal((NUM_TRIES, target.dim))
    check_gradients(problem.target, check_numbers(target.log_density, probe, start.from_normal(noise)))
    return start
