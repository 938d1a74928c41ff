"""Finds the modes of a posterior that has several, each with its mass.

It begins where the search for a start has met more than one. Paths from many places around the modes found so
far meet others, until several batches of paths in a row meet none.
"""

import functools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from uivi._types import Key
from uivi.evaluation.coverage import LEAST_SHARE, Region, separate
from uivi.families.conditionals.affine import Frame
from uivi.families.conditionals.modes import Places
from uivi.fitting.starts.newton import laplace
from uivi.fitting.starts.pathfinder import climb, radius_of
from uivi.targets.probe import Probe, generator

MOST_MODES, MOST_NUMBERS = 64, 10**8
"""Largest number of modes, and of numbers in the factors of their covariances. It bounds the memory: there are
fewer modes above 1,250 dimensions."""
PATHS, MOST_BATCHES, IN_VAIN = 64, 40, 6
"""Number of paths of a batch, largest number of batches, and of those in a row that meet no new mode."""
FEW_ITERATIONS = 30
"""Iterations of such a path. It is then near a mode, and Newton's method goes on."""
AROUND = (3.0, 30.0)
"""How much wider than a mode a quarter of them is scattered around it: from the first to the second."""
SAME = 1.0
"""Distance below which two maxima are one, in standard deviations of the nearer one."""
NUM_ON_LINE, DIP = 12, 3.0
"""Points between two modes at which log p is evaluated, and the nats by which it falls there between modes that
are separate. A single conditional fits modes with a smaller gap."""
DRAWS_PER_MODE = 256
"""Draws of every mode that estimate the masses."""
WIDER = 1.5
"""Half of these draws reach further out: the norm of their noise grows by about this."""
LEVEL = 0.5
"""Largest slope of log p over one standard deviation at a maximum. In the neck of a funnel there is none."""
FLAT = math.log(20.0)
"""Nats by which Laplace's approximation may exceed the mass of a mode. Beyond, the maximum is part of a flat
ridge, such as a ring, and not a mode of its own."""
MOST_STDERR = 0.8
"""Largest standard error of the logarithm of a mode's mass. It is one where a single draw has all of it."""
LEAST_WEIGHT = 0.002
"""Share of the posterior from which a mode has a part in q."""


class Mode(NamedTuple):
    """Laplace's approximation at one mode.

    Attributes:
        loc: the maximum.
        factor: F with F Fᵀ the inverse of the curvature.
        inverse: F⁻¹.
        volume: log |det F|.
        log_p: log density at the maximum.
        weight: its share of the mass of all modes; 1 until it is estimated.
        stderr: standard error of the logarithm of its mass.
        log_mass: log of the mass in its ellipsoid.
        origins: where the paths of this search that ended in it began.
    """

    loc: Float[np.ndarray, "D"]
    factor: Float[np.ndarray, "D D"]
    inverse: Float[np.ndarray, "D D"]
    volume: float
    log_p: float
    weight: float = 1.0
    stderr: float = 0.0
    log_mass: float = -math.inf
    origins: tuple[Float[np.ndarray, "D"], ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether the mode has a known mass, and not much less than its curvature says."""
        constant = 0.5 * len(self.loc) * math.log(2 * math.pi)
        is_flat = self.log_p + self.volume + constant > self.log_mass + FLAT
        return self.weight > LEAST_WEIGHT and self.stderr < MOST_STDERR and not is_flat

    def distance(self, points: Float[np.ndarray, "S D"]) -> Float[np.ndarray, "S"]:
        """Returns the distances of points from the maximum in standard deviations."""
        return np.linalg.norm((points - self.loc) @ self.inverse.T, axis=1)

    def from_normal(self, noise: Float[np.ndarray, "S D"]) -> Float[np.ndarray, "S D"]:
        """Maps standard normal vectors to draws."""
        return self.loc + noise @ self.factor.T

    def region(self) -> Region:
        """Returns its ellipsoid."""
        far = max(self.origins, key=lambda origin: np.max(np.abs(origin - self.loc)), default=None)
        radius = radius_of(len(self.loc))
        return Region(self.loc, self.distance, radius, self.log_mass, self.stderr, far, len(self.origins))


def find_modes(key: Key, probe: Probe, regions: tuple[Region, ...]) -> list[Mode]:
    """Returns the modes with their weights, the largest first; none unless there are separate ones.

    Args:
        key: random key.
        probe: log density.
        regions: where the paths of the search for a start have ended.
    """
    met = _met(probe, regions)
    if len(met) < 2 or probe.is_spent:
        return []
    modes: list[Mode] = []
    for region in met:
        _add(probe, modes, region.mean)
    if len(_clusters(probe, modes)) < 2:
        return []
    rng, in_vain = generator(key), 0
    most = min(MOST_MODES, max(len(modes), MOST_NUMBERS // len(modes[0].loc) ** 2))
    for _ in range(MOST_BATCHES):
        before, points = len(modes), _scattered(rng, modes)
        ends = climb(probe, points, functools.partial(_is_at_one, tuple(modes)), FEW_ITERATIONS)
        for point, (end, _) in zip(points, ends, strict=True):
            if len(modes) < most and not probe.is_spent:
                _add(probe, modes, end, point)
        in_vain = 0 if len(modes) > before else in_vain + 1
        if in_vain == IN_VAIN or len(modes) >= most or probe.is_spent:
            break
    modes = [mode for mode in _weighed(rng, probe, modes) if mode.is_sound]
    shares = [sum(mode.weight for mode in cluster) for cluster in _clusters(probe, modes)]
    if sum(share > LEAST_SHARE for share in shares) < 2:
        return []
    return sorted(modes, key=lambda mode: -mode.weight)


def _met(probe: Probe, regions: tuple[Region, ...]) -> list[Region]:
    """Returns the separate regions, and those inside the ellipsoid of another but beyond a valley.

    In 50 dimensions, a mode at eight standard deviations is inside.
    """
    met = separate(regions)
    if not met:
        return []
    least = met[0].log_mass + math.log(LEAST_SHARE)
    for region in sorted(regions, key=lambda region: -region.log_mass):
        if region.log_mass > least and not probe.is_spent:
            is_new = lambda other, region=region: (
                other.distance(region.mean[None])[0] > DIP and _has_valley(probe, region.mean, other.mean)
            )
            if all(is_new(other) for other in met):
                met.append(region)
    return met


def _has_valley(probe: Probe, one: Float[np.ndarray, "D"], other: Float[np.ndarray, "D"]) -> bool:
    """Whether log p falls by `DIP` nats or more on the line between two points."""
    steps = np.linspace(0, 1, NUM_ON_LINE + 2)[:, None]
    values = probe(one + steps * (other - one))[0]
    return bool(min(values[0], values[-1]) - np.min(values) >= DIP)


def places_of(modes: list[Mode]) -> Places:
    """Returns the frames and weights of modes, in JAX's precision."""
    frames = [Frame.create(mode.loc, mode.factor) for mode in modes]
    return Places.create(frames, np.array([mode.weight for mode in modes]))


def _add(probe: Probe, modes: list[Mode], point: np.ndarray, origin: np.ndarray | None = None) -> None:
    """Climbs from a point to the maximum and adds it, unless it is known; notes where the path began."""
    origins = () if origin is None else (origin,)
    near = [number for number, mode in enumerate(modes) if mode.distance(point[None])[0] < SAME]
    if not near:
        found = laplace(probe, point)
        # A climb that ended because the probe is spent may be anywhere.
        if found is None or probe.is_spent:
            return
        loc, factor = found
        (value,), (gradient,) = probe(loc[None])
        if not np.linalg.norm(factor.T @ gradient) < LEVEL:
            return
        volume = float(np.sum(np.log(np.diag(factor))))
        made = Mode(loc, factor, np.linalg.inv(factor), volume, float(value), origins=origins)
        near = [
            number
            for number, mode in enumerate(modes)
            if min(mode.distance(loc[None])[0], made.distance(mode.loc[None])[0]) < SAME
        ]
        if not near:
            modes.append(made)
            return
    modes[near[0]] = modes[near[0]]._replace(origins=modes[near[0]].origins + origins)


def _is_at_one(modes: tuple[Mode, ...], place: np.ndarray) -> bool:
    """Whether a place is at one of the modes."""
    return any(mode.distance(place[None])[0] < SAME for mode in modes)


def _scattered(rng: np.random.Generator, modes: list[Mode]) -> np.ndarray:
    """Returns points around all modes found so far, and around single ones, from near and far.

    From the middle of all modes a path rarely comes to an outer one in a plane, or to any but a few in many
    dimensions. So most begin further out, or around a mode.
    """
    locs = np.stack([mode.loc for mode in modes])
    inside = np.stack([np.linalg.norm(mode.factor, axis=1) for mode in modes])
    spread = np.sqrt(locs.var(0) + np.mean(inside**2, 0))
    number = PATHS // 4
    once, twice, beside, noise = rng.standard_normal((4, number, locs.shape[1]))
    first, second = rng.integers(len(modes), size=(2, number))
    widths = np.geomspace(*AROUND, number)[:, None]
    near = [modes[i].from_normal(each[None])[0] for i, each in zip(second, widths * noise, strict=True)]
    around_all = locs.mean(0) + spread * np.concatenate([once, 2 * twice])
    return np.concatenate([around_all, locs[first] + spread * beside, np.stack(near)])


def _clusters(probe: Probe, modes: list[Mode]) -> list[list[Mode]]:
    """Returns groups of modes between which log p falls by `DIP` nats or more, on any way from mode to mode."""
    groups: list[list[Mode]] = []
    steps = np.linspace(0, 1, NUM_ON_LINE + 2)[1:-1, None]
    for mode in modes:
        joined, others = [mode], []
        for group in groups:
            ends = np.stack([other.loc for other in group])
            lines = np.concatenate([mode.loc + steps * (end - mode.loc) for end in ends])
            lowest = np.min(probe(lines)[0].reshape(len(group), NUM_ON_LINE), 1)
            peaks = np.array([min(other.log_p, mode.log_p) for other in group])
            if np.any(peaks - lowest < DIP):
                joined += group
            else:
                others.append(group)
        groups = [*others, joined]
    return groups


def _weighed(rng: np.random.Generator, probe: Probe, modes: list[Mode]) -> list[Mode]:
    """Returns the modes with the masses in their ellipsoids, by importance sampling from a mixture."""
    dim = len(modes[0].loc)
    number, wide = DRAWS_PER_MODE * len(modes), 1 + (WIDER - 1) * 3 / math.sqrt(dim + 8)
    scale = np.where(np.arange(DRAWS_PER_MODE) % 2, wide, 1.0)[:, None]
    noise = scale * rng.standard_normal((len(modes), DRAWS_PER_MODE, dim))
    draws = np.concatenate([mode.from_normal(part) for mode, part in zip(modes, noise, strict=True)])
    volumes = np.array([mode.volume for mode in modes])
    distances = np.stack([mode.distance(draws) for mode in modes], 1)
    halves = 0.5 * distances**2
    plain, spread = -halves - volumes, -halves / wide**2 - volumes - dim * math.log(wide)
    constant = 0.5 * dim * math.log(2 * math.pi) + math.log(2 * len(modes))
    proposal = np.logaddexp.reduce(np.logaddexp(plain, spread), 1) - constant
    log_weights = probe(draws)[0] - proposal
    # Inside the ellipsoids no weight is large, whatever the tails of the posterior.
    is_inside = np.min(distances, 1) <= radius_of(dim)
    log_weights = np.where(is_inside & np.isfinite(log_weights), log_weights, -np.inf)
    # Each draw belongs to the modes by their Laplace approximations.
    heights = np.array([mode.log_p for mode in modes]) - halves
    log_parts = log_weights[:, None] + heights - np.logaddexp.reduce(heights, 1)[:, None]
    with np.errstate(invalid="ignore"):  # a mode without any mass
        log_masses = np.logaddexp.reduce(log_parts, 0) - math.log(number)
        stderrs = np.std(np.exp(log_parts - log_masses), 0) / math.sqrt(number)
        shares = np.exp(log_masses - np.logaddexp.reduce(log_masses))
    parts = zip(modes, shares.tolist(), stderrs.tolist(), log_masses.tolist(), strict=True)
    return [mode._replace(weight=w, stderr=s, log_mass=m) for mode, w, s, m in parts]
