"""How much a search for a start may cost: many points for a cheap log density, few for an expensive one.

The cost is counted in the program of the log density. The clock has no say, so that a fit is the same on every
machine.
"""

import math
import warnings
from typing import NamedTuple

from uivi.targets.base import AbstractGlobalTarget, AbstractSingleSiteTarget
from uivi.targets.cost import operations, operations_side_by_side
from uivi.targets.probe import LogDensity, Probe

MANY_POINTS, SOME_POINTS, FEW_POINTS = 64, 8, 4
"""Points in one call of the probe: for a cheap density, for an expensive one, and where a call streams all rows
of a large data set."""
CHEAP = 5_000_000
"""Operations up to which a density is cheap. A search that evaluates it 20,000 times, which is rare, then takes
a minute on two cores."""
HEAVY = 1_500_000
"""Operations from which updates are slow enough for a hint at minibatches. A linear regression with 100,000
rows has 1.8 million."""
MOST_OPERATIONS, FEWEST_EVALUATIONS = 3 * 10**10, 200
"""Operations after which the search with an expensive density makes no more steps, and the least number of
evaluations before that."""
MOST_TO_EXPLORE = 2 * 10**9
"""Operations for the paths that only look for other modes: a second or two on two cores."""

LARGEST_FULL = 4_000
"""Largest size of z whose start has a full covariance: two matrices of 64 MB go through every update."""
MOST_FOR_HESSIANS = 4 * 10**10
"""Operations for the Hessians of a large z: a minute or two on a core."""
MOST_HESSIANS, FEWEST_HESSIANS = 192, 32
"""Number of Hessians that is always enough, and the number below which there had better be none."""
PRODUCTS_PER_DIRECTION = 64
"""Products of a Hessian with a vector for each direction: at four points, twice in each of eight steps."""
MOST_DIRECTIONS, FEWEST_DIRECTIONS = 100, 10
"""Directions in which the covariance of a larger z, or of one with an expensive density, is not diagonal."""
NUMBERS_IN_DIRECTIONS = 2 * 10**7
"""Numbers in all of them. It bounds the memory."""


class Curvature(NamedTuple):
    """What the search may spend on the covariance of a large z: Hessians, directions, or neither.

    Attributes:
        hessians: number of Hessians, for a full covariance.
        directions: number of directions that are not on the axes, for one of low rank plus a diagonal.
    """

    hessians: int = 0
    directions: int = 0


def curvature(log_density: LogDensity, dim: int) -> Curvature:
    """Returns what the search may spend on the covariance of a large z: its size and the cost decide."""
    cost = max(operations_side_by_side(log_density, dim), 1.0)
    number = int(min(MOST_HESSIANS, MOST_FOR_HESSIANS / (dim * cost)))
    if dim <= LARGEST_FULL and number >= FEWEST_HESSIANS:
        return Curvature(hessians=number)
    rank = min(MOST_DIRECTIONS, NUMBERS_IN_DIRECTIONS // dim)
    is_affordable = rank >= FEWEST_DIRECTIONS and PRODUCTS_PER_DIRECTION * rank * cost <= MOST_FOR_HESSIANS
    return Curvature(directions=rank if is_affordable else 0)


def look_around(target: AbstractSingleSiteTarget) -> Probe:
    """Returns the probe of the paths that look for other modes, spent at once if the density is expensive."""
    cost = operations(target) if isinstance(target, AbstractGlobalTarget) else math.inf
    return Probe(target.log_density, MANY_POINTS, MOST_TO_EXPLORE / max(cost, 1) if cost <= CHEAP else 0.0)


def probe_of(target: AbstractSingleSiteTarget) -> Probe:
    """Returns the probe of a search, with a warning if the log density is slow."""
    if not isinstance(target, AbstractGlobalTarget):
        return Probe(target.log_density, FEW_POINTS)
    cost = operations(target)
    is_short = cost > CHEAP
    if is_short or cost > HEAVY:
        search = "the search for a start is a short one, and " if is_short else ""
        warnings.warn(
            f"one evaluation of the log density takes about {cost:,} operations: {search}every update takes "
            "long. If the data are independent rows, fit minibatches of them: "
            "uivi.integrations.numpyro.minibatched(model, data, batch_size)",
            stacklevel=4,
        )
    if not is_short:
        return Probe(target.log_density, MANY_POINTS)
    return Probe(target.log_density, SOME_POINTS, float(max(MOST_OPERATIONS / cost, FEWEST_EVALUATIONS)))
