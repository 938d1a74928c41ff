"""The starts that a fit may take."""

from uivi import presets
from uivi._types import Key
from uivi.fitting.prechecks import check_gradients, check_numbers
from uivi.fitting.problem import NUM_POINTS, Problem
from uivi.fitting.starts.search import Start, find_start, recentred, turned
from uivi.targets.base import AbstractGlobalTarget, AbstractSingleSiteTarget
from uivi.targets.model import AbstractModelTarget
from uivi.targets.probe import Probe, finite_points

TURNED_ABOVE = 50
"""Largest dimension for which one set of axes is enough. Up to there, ε is large enough to bend q along any."""
MANY_POINTS, FEW_POINTS = 64, 4
"""Points in one call of the probe; few where a call goes through all rows of a large data set."""


def make_probe(target: AbstractSingleSiteTarget) -> Probe:
    """Returns the probe of a target's log density on all its data."""
    size = MANY_POINTS if isinstance(target, AbstractGlobalTarget) else FEW_POINTS
    return Probe(target.log_density, size)


def find_starts(key: Key, problem: Problem, target: AbstractSingleSiteTarget, probe: Probe) -> list[Start]:
    """Finds a rough Gaussian approximation of the posterior, on two sets of axes from 51 to 200 dimensions.

    Args:
        key: random key.
        problem: a problem with one posterior.
        target: its target, as the fit sees it.
        probe: the log density of that target.
    """
    points = problem.points
    if isinstance(problem.target, AbstractModelTarget):
        points = finite_points(key, problem.target.model, probe, NUM_POINTS)
    assert points is not None
    check_gradients(problem.target, check_numbers(target.log_density, probe, points))
    search = lambda probe: find_start(key, probe, points, full_up_to=presets.FULL_COVARIANCE_UP_TO)
    if problem.rough is not None:
        return [recentred(search(Probe(problem.rough, MANY_POINTS)), probe)]
    start = search(probe)
    if not TURNED_ABOVE < target.dim <= presets.FULL_COVARIANCE_UP_TO:
        return [start]
    return [start, turned(key, start, probe)]
