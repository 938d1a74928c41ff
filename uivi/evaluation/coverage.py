"""Whether q covers the regions that the search for a start has met.

Importance weights cannot see a mode that q never visits. The paths of the search begin at several points and
may end in it. Each leaves a Gaussian there, with an estimate of the posterior's mass under it.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

LEAST_SHARE = 0.01
"""Share of the posterior from which a region counts."""
ENOUGH_PATHS = 100
"""Number of paths from which those that met a region alone say how many more regions there are."""
NUM_STDERRS = 3.0
"""Standard errors by which the shares of p and q must differ."""
ONE_DRAW = 0.95
"""Standard error of a log mass from which a single draw has nearly all of it: the mass is then not known."""


class Region(NamedTuple):
    """The ellipsoid of a Gaussian in which a path has ended.

    Attributes:
        mean: the centre.
        distance: maps points, shape (S, D), to their distances from the centre in standard deviations, (S,).
        radius: radius of the ellipsoid in standard deviations.
        log_mass: log of the integral of the unnormalised posterior over the ellipsoid.
        log_mass_stderr: its standard error.
        origin: where the path began, if that is known; of several paths, the farthest beginning.
        num_paths: number of paths that ended there.
    """

    mean: Float[np.ndarray, "D"]
    distance: Callable[[Float[np.ndarray, "S D"]], Float[np.ndarray, "S"]]
    radius: float
    log_mass: float
    log_mass_stderr: float
    origin: Float[np.ndarray, "D"] | None = None
    num_paths: int = 1

    def joined_from(self, origin: Float[np.ndarray, "D"]) -> "Region":
        """Returns the region with one more path that has ended in it."""
        begun = [origin] if self.origin is None else [self.origin, origin]
        farthest = max(begun, key=lambda point: np.max(np.abs(point - self.mean)))
        return self._replace(origin=farthest, num_paths=self.num_paths + 1)


class Coverage(NamedTuple):
    """What the search for a start has met, and what q misses of it.

    Attributes:
        num_paths: number of paths.
        num_regions: number of separate regions with at least a hundredth of the posterior each.
        distance: largest distance between two of them, in standard deviations of the nearer one; 0 for a single
            region.
        missed: share of the posterior in the largest region where q has less than half of it; 0 if none.
        reach: largest distance of a path's beginning from the mean of q along a coordinate, in standard
            deviations of q; 0 if unknown.
        unseen: estimated probability that one more path meets a new region: the share of the paths that are the
            only one in theirs (Good 1953); 0 for fewer than `ENOUGH_PATHS` paths.
    """

    num_paths: int
    num_regions: int
    distance: float
    missed: float
    reach: float = 0.0
    unseen: float = 0.0


def coverage(regions: Sequence[Region], z: Float[np.ndarray, "S D"], log_mass: float) -> Coverage:
    """Compares the posterior's share of every region with that of q.

    Args:
        regions: where the paths have ended.
        z: draws of q.
        log_mass: log of the posterior's mass where q is, from importance weights.
    """
    draws, kept, missed = z.astype(np.float64), [], 0.0
    for region in sorted(regions, key=lambda region: -region.log_mass):
        count = int(np.sum(region.distance(draws) <= region.radius))
        own = count / len(draws)
        # Where q is not, the region's mass comes on top of what the weights of q have found.
        odds = math.exp(min(region.log_mass - log_mass, 700.0)) / max(1 - own, 1 / len(draws))
        share = odds / (1 + odds)
        if not (share > LEAST_SHARE and region.log_mass_stderr < ONE_DRAW):
            continue
        if all(_between(region, other) > region.radius for other in kept):
            kept.append(region)
        least = share - NUM_STDERRS * share * (1 - share) * region.log_mass_stderr
        most = own + NUM_STDERRS * math.sqrt(count + 1) / len(draws)
        if least > LEAST_SHARE and most < 0.5 * least:
            missed = max(missed, share)
    distances = [_between(one, other) for one in kept for other in kept if one is not other]
    begun = [region.origin for region in regions if region.origin is not None]
    reach = _reach(np.stack(begun), draws) if begun else 0.0
    number = sum(region.num_paths for region in regions)
    unseen = _singles(regions, kept) / number if number >= ENOUGH_PATHS else 0.0
    return Coverage(number, len(kept), max(distances, default=0.0), missed, reach, unseen)


def _singles(regions: Sequence[Region], kept: Sequence[Region]) -> int:
    """Returns the number of kept regions that a single path has met."""
    met = lambda one: sum(other.num_paths for other in regions if _between(other, one) <= one.radius)
    return sum(met(one) == 1 for one in kept)


def separate(regions: Sequence[Region]) -> list[Region]:
    """Returns one region for each place with at least `LEAST_SHARE` of their mass, the largest first."""
    if not regions:
        return []
    kept: list[Region] = []
    for region in sorted(regions, key=lambda region: -region.log_mass):
        if all(_between(region, other) > region.radius for other in kept):
            kept.append(region)
    total = np.logaddexp.reduce([region.log_mass for region in kept])
    return [region for region in kept if region.log_mass - total > math.log(LEAST_SHARE)]


def _reach(points: np.ndarray, draws: np.ndarray) -> float:
    """Returns the largest distance of a point from the mean of draws along a coordinate, in their sds."""
    spread = np.maximum(draws.std(0), np.finfo(np.float32).tiny)
    return float(np.max(np.abs(points - draws.mean(0)) / spread))


def _between(one: Region, other: Region) -> float:
    """Returns the distance of two centres, in the larger standard deviations of the two."""
    to_other, to_one = one.distance(other.mean[None])[0], other.distance(one.mean[None])[0]
    return float(min(to_other, to_one))
