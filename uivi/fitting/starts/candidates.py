"""The starts that a fit may take."""

import jax

from uivi import presets
from uivi._types import Key
from uivi.fitting.prechecks import check_start
from uivi.fitting.problem import Problem
from uivi.fitting.starts.search import Start, find_start, recentred, turned
from uivi.targets.base import AbstractSingleSiteTarget

TURNED_ABOVE = 50
"""Largest dimension for which one set of axes is enough. Up to there, ε is large enough to bend q along any."""


def find_starts(key: Key, problem: Problem) -> list[Start | None]:
    """Finds a rough Gaussian approximation of the posterior, on two sets of axes from 51 to 200 dimensions.

    Returns [None] for a target that is not one posterior, such as a VAE.
    """
    target, points = problem.target, problem.points
    if points is None:
        return [None]
    assert isinstance(target, AbstractSingleSiteTarget)
    check_start(target, points)
    search = lambda f: find_start(key, f, points, full_up_to=presets.FULL_COVARIANCE_UP_TO)
    if problem.rough is not None:
        return [recentred(search(problem.rough), target.log_density)]
    start = search(target.log_density)
    if not TURNED_ABOVE < target.dim <= presets.FULL_COVARIANCE_UP_TO:
        return [start]
    return [start, turned(jax.random.fold_in(key, 1), start, target.log_density)]
