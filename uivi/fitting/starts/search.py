"""Finds rough moments of the posterior, by Pathfinder and by Newton's method.

They only set the location and scale on which q is fitted; see `uivi.families.Standardised`.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from uivi._types import Key
from uivi.evaluation.coverage import Region
from uivi.evaluation.importance import kl_divergence
from uivi.families.conditionals.affine import Frame
from uivi.families.conditionals.modes import Places
from uivi.families.conditionals.stretched import Stretch
from uivi.fitting.starts.averaged import averaged_newton
from uivi.fitting.starts.effort import Curvature
from uivi.fitting.starts.low_rank import low_rank
from uivi.fitting.starts.modes import find_modes, places_of
from uivi.fitting.starts.newton import LARGEST, laplace
from uivi.fitting.starts.pathfinder import Gaussian, best_gaussians, climb
from uivi.targets.probe import Probe, generator

NUM_ELBO, NUM_ELBO_PER_POINT = 192, 3
"""Draws that compare the candidates, and the most for each point of the probe."""
NUM_RECENTRING = 5
NUM_FAR, TOGETHER = 16, 4
"""Number of paths from far-off points, and of those after which new regions are looked at more closely."""
NEAR = 4.0
"""Half width of the cube around the first point in which some of them begin, in units of z or, for larger
coordinates, relative to them."""
STRETCHES = (3.0, 30.0)
"""How much wider than the start as many others are scattered: from the first to the second."""
FARTHEST = (100.0, 100.0, 300.0, 300.0)
"""The same for the rest. In many dimensions only these begin nearer to another mode."""
NUM_LIGHT = 48
"""Number of further paths, all side by side."""
CENTRE = 3.0
"""Distance from the centre of a region, in standard deviations, at which a path has come to it. In many
dimensions its ellipsoid is larger, and may hold other modes."""

NO_CURVATURE = Curvature()


class Start(NamedTuple):
    """A rough Gaussian approximation.

    Attributes:
        loc: its mean.
        factor: F with F Fᵀ its covariance, or its standard deviations.
        elbo: its ELBO in nats, from up to 192 draws; -inf if the search failed, NaN if unknown.
        name: name of the search that found it.
        regions: where the paths of the search have ended.
        stretch: a stretch before F, or None; see `uivi.families.Stretched`.
        places: several separate modes with their weights; None if there is one, or if none was looked for.
        kl: its KL divergence from the posterior in nats, as far as its own draws tell; NaN if unknown.
    """

    loc: Float[Array, "D"] | Float[np.ndarray, "D"]
    factor: Float[Array, "D D"] | Float[Array, "D"] | Float[np.ndarray, "D D"] | Float[np.ndarray, "D"]
    elbo: float = math.nan
    name: str = "given"
    regions: tuple[Region, ...] = ()
    stretch: Stretch | None = None
    places: Places | None = None
    kl: float = math.nan

    def frame(self) -> Frame:
        """Returns location and scale for `uivi.families.Standardised`, in JAX's precision."""
        frame = Frame.create(self.loc, self.factor)
        return frame if self.stretch is None else frame._replace(stretch=self.stretch.on_device())

    def around(self) -> Frame | Places:
        """Returns the places of several modes, or else location and scale."""
        return self.frame() if self.places is None else self.places

    def from_normal(self, noise: np.ndarray) -> np.ndarray:
        """Maps standard normal vectors, shape (S, D), to draws."""
        loc, factor = np.asarray(self.loc), np.asarray(self.factor)
        noise = noise if self.stretch is None else self.stretch.times(noise)
        return loc + (noise @ factor.T if factor.ndim == 2 else noise * factor)


def find_start(
    key: Key,
    probe: Probe,
    points: Float[np.ndarray, "K D"],
    *,
    full_up_to: int,
    curvature: Curvature = NO_CURVATURE,
) -> Start:
    """Returns the candidate with the largest ELBO.

    Pathfinder searches along a quasi-Newton path, so it does not run into a mode of infinite density. Laplace's
    approximation, with exact second derivatives, is better where the posterior is narrow in some direction.
    Above `full_up_to` dimensions, second derivatives averaged over draws take its place. All may fail: the fit
    then starts at the first of `points`, on a unit scale.

    Args:
        key: random key.
        probe: log density.
        points: starting points of the paths.
        full_up_to: largest D for which the full covariance is kept in any case.
        curvature: what may be spent on the covariance of a larger z; without anything, the start has standard
            deviations only.
    """
    rng, dim = generator(key), points.shape[1]
    is_large = dim > full_up_to
    is_full = not is_large or curvature.hessians > 0
    candidates = [Start(points[0], np.eye(dim) if is_full else np.ones(dim), name="origin")]
    gaussians = best_gaussians(rng, probe, points)
    if gaussians:
        candidates.append(_mixture(gaussians, is_full=is_full))
    loc, factor = np.asarray(candidates[-1].loc), np.asarray(candidates[-1].factor)
    if not is_large and (found := laplace(probe, loc)) is not None:
        candidates.append(Start(*found, name="laplace"))
    if is_large:
        candidates += _with_curvature(rng, probe, loc, factor, curvature)
    noise = rng.standard_normal((min(NUM_ELBO, NUM_ELBO_PER_POINT * probe.size), dim))
    rated = [_rated(probe, start, noise) for start in candidates]
    best = max(rated, key=lambda start: start.elbo)
    if is_large and is_full:
        best = best._replace(factor=_symmetric(np.asarray(best.factor)))
    elif curvature.directions and best.stretch is None:
        best = best._replace(stretch=Stretch.none(dim, curvature.directions))
    return best._replace(regions=tuple(gaussian.region() for gaussian in gaussians))


def _with_curvature(
    rng: np.random.Generator, probe: Probe, loc: np.ndarray, factor: np.ndarray, curvature: Curvature
) -> Iterator[Start]:
    """Yields a large start with the covariance that second derivatives give it, if they give it one."""
    if curvature.hessians:
        found = averaged_newton(rng, probe, loc, factor, curvature.hessians)
        if found is not None:
            yield Start(*found, name="averaged newton")
    elif curvature.directions:
        spiked = low_rank(rng, probe, loc, factor, curvature.directions)
        if spiked is not None:
            yield Start(spiked.loc, spiked.scale, name="lanczos", stretch=spiked.stretch)


def explored(key: Key, probe: Probe, start: Start, point: Float[np.ndarray, "D"]) -> Start:
    """Returns the start with the regions that paths from far-off points end in, besides its own.

    Such paths are no better starts. But a mode that one of them meets and q misses is seen by the verdict. If
    there are separate modes, more paths look for all of them, and q starts at every one. This needs curvatures,
    so it is left out where a start has standard deviations only.

    Args:
        key: random key.
        probe: log density.
        start: the start that was found.
        point: the first starting point of the search.
    """
    rng, shape = generator(key), ((NUM_FAR - len(FARTHEST)) // 2, len(point))
    near = point + NEAR * np.maximum(1.0, np.abs(point)) * rng.uniform(-1, 1, shape)
    wide = start.from_normal(np.geomspace(*STRETCHES, shape[0])[:, None] * rng.standard_normal(shape))
    far = start.from_normal(np.array(FARTHEST)[:, None] * rng.standard_normal((len(FARTHEST), len(point))))
    points = np.concatenate([near, wide, far])
    regions = start.regions
    for first in range(0, NUM_FAR, TOGETHER):
        if probe.is_spent:
            break
        regions = _with_ends(rng, probe, points[first : first + TOGETHER], regions)
    if np.ndim(start.factor) < 2 or probe.is_spent:
        return start._replace(regions=regions)
    widths = np.geomspace(STRETCHES[0], FARTHEST[0], NUM_LIGHT)[:, None]
    others = start.from_normal(widths * rng.standard_normal((NUM_LIGHT, len(point))))
    regions = _with_ends(rng, probe, others, regions)
    start = start._replace(regions=regions)
    if not (modes := find_modes(jax.random.fold_in(key, 1), probe, regions)):
        return start
    found = tuple(mode.region() for mode in modes)
    return start._replace(regions=(*regions, *found), places=places_of(modes))


def _with_ends(
    rng: np.random.Generator, probe: Probe, points: np.ndarray, regions: tuple[Region, ...]
) -> tuple[Region, ...]:
    """Returns the regions with those that the paths from some points meet besides.

    A path ends as soon as it comes to a known region, and counts there. The highest of the others run once
    more, now with their Gaussians.
    """
    is_in = lambda place, region: bool(region.distance(place[None])[0] <= min(region.radius, CENTRE))
    ends = climb(probe, points, lambda place: any(is_in(place, region) for region in regions))
    known, origins, places = list(regions), [], []
    for point, (end, value) in sorted(zip(points, ends, strict=True), key=lambda pair: -pair[1][1]):
        met = next((number for number, region in enumerate(known) if is_in(end, region)), None)
        if met is not None:
            known[met] = known[met].joined_from(point)
            continue
        is_same = any(np.allclose(end, other, rtol=1e-2, atol=1e-2) for other in places)
        if np.isfinite(value) and not is_same and len(origins) < TOGETHER:
            origins.append(point)
            places.append(end)
    if not origins or probe.is_spent:
        return tuple(known)
    found = best_gaussians(rng, probe, np.stack(origins))
    return (*known, *(gaussian.region() for gaussian in found))


def recentred(start: Start, probe: Probe) -> Start:
    """Moves a start uphill, by quasi-Newton steps with its own covariance.

    This is for a start that was found on part of the data, whose mode is a few standard deviations off.
    """
    loc, factor = np.asarray(start.loc, np.float64), np.asarray(start.factor, np.float64)
    stretch = start.stretch
    values, gradients = probe(loc[None])
    for _ in range(NUM_RECENTRING):
        gradient = gradients[0]
        if factor.ndim == 2:
            step = factor @ (factor.T @ gradient)
        else:
            inner = factor * gradient
            step = factor * (inner if stretch is None else stretch.times(stretch.times(inner)))
        new_values, gradients = probe(loc[None] + step)
        if not new_values[0] > values[0]:
            break
        loc, values = loc + step, new_values
    # The regions belong to the part of the data.
    return start._replace(loc=loc, elbo=math.nan, regions=())


def _mixture(gaussians: list[Gaussian], *, is_full: bool) -> Start:
    """Returns the moments of a mixture of Gaussians, weighted by their ELBOs.

    Paths that end in modes of similar weight share the weight, so that the start covers both.
    """
    elbos = np.array([gaussian.elbo for gaussian in gaussians])
    weights = np.exp(elbos - np.logaddexp.reduce(elbos))
    means = np.stack([gaussian.mean for gaussian in gaussians])
    loc = weights @ means
    variance = weights @ (np.stack([gaussian.variance() for gaussian in gaussians]) + (means - loc) ** 2)
    scale = np.clip(np.sqrt(variance), 1 / LARGEST, LARGEST)
    if not is_full:
        return Start(loc, scale, name="pathfinder")
    covariance = sum(
        weight * (gaussian.covariance() + np.outer(mean - loc, mean - loc))
        for weight, gaussian, mean in zip(weights, gaussians, means, strict=True)
    )
    # Factor the correlation, not the covariance: with scales far apart the latter is singular in float32. A
    # thousandth of the identity keeps it positive definite where the path has seen few directions.
    correlation = 0.999 * covariance / np.outer(scale, scale) + 0.001 * np.eye(len(loc))
    return Start(loc, scale[:, None] * np.linalg.cholesky(correlation), name="pathfinder")


def _symmetric(factor: np.ndarray) -> np.ndarray:
    """Returns F' with F' F'ᵀ = F Fᵀ, a symmetric matrix in units of the standard deviations.

    It turns z as little as any F can, so that a warp of each coordinate of w can follow the skew of one of z.
    """
    sd = np.linalg.norm(factor, axis=1)
    unit = factor / sd[:, None]
    values, vectors = np.linalg.eigh(unit @ unit.T)
    return sd[:, None] * ((vectors * np.sqrt(np.maximum(values, 1e-6))) @ vectors.T)


def _rated(probe: Probe, start: Start, noise: np.ndarray) -> Start:
    """Returns a start with its ELBO and divergence. If its ELBO is not finite, it is minus infinity."""
    factor = np.asarray(start.factor)
    log_p = np.asarray(probe(start.from_normal(noise))[0], np.float64)
    volume = np.sum(np.log(np.diag(factor) if factor.ndim == 2 else factor))
    volume += 0.0 if start.stretch is None else np.sum(np.log(start.stretch.factors))
    elbo = np.mean(log_p) + volume + 0.5 * noise.shape[1] * np.log(2 * np.pi * np.e)
    if not np.isfinite(elbo):
        return start._replace(elbo=-math.inf)
    return start._replace(elbo=float(elbo), kl=kl_divergence(log_p + 0.5 * np.sum(noise**2, 1))[0])
