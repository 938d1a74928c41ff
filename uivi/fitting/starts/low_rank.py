"""A Gaussian of low rank plus a diagonal, by Lanczos's method on the mean Hessian.

This is for a z that is too large for a matrix of second derivatives. A product of the Hessian with a vector
costs little more than a gradient, and a hundred of them find the directions in which the posterior is widest
and narrowest.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from uivi.families.conditionals.stretched import Stretch
from uivi.targets.probe import Probe

NUM_DRAWS, NUM_POINTS = 192, 4
"""Draws of a step, in pairs, and those of them at which second derivatives are taken."""
MAX_STEPS = 8
RATES = (1.0, 0.3, 0.1)
"""Shares of a step that are tried. The one with the largest ELBO is made."""
ENOUGH_PER_DIM = 5e-4
"""The search ends when a step gains less than this for each dimension, in nats."""
SMALLEST = 1e-6
"""Least curvature of a direction, in units of the standard deviations."""
TINY = 1e-5
"""Size of a new direction, relative to the product that it comes from, below which it is rounding."""
NUM_SIGNS, PRIOR, SPREAD = 8, 0.2, 10.0
"""Random vectors of signs that estimate a diagonal, the weight of its mean beside such an estimate, and how far
it may be from its mean, as a factor."""


class Spiked(NamedTuple):
    """N(loc, D S² D) with a diagonal D and a stretch S.

    Attributes:
        loc: mean.
        scale: D.
        stretch: S.
    """

    loc: np.ndarray
    scale: np.ndarray
    stretch: Stretch

    def from_normal(self, noise: np.ndarray) -> np.ndarray:
        """Maps standard normal vectors, shape (S, D), to draws."""
        return self.loc + self.scale * self.stretch.times(noise)

    def elbo(self, values: np.ndarray) -> float:
        """Returns the ELBO from log p at draws, up to a constant; minus infinity if it is not finite."""
        volume = np.sum(np.log(self.scale)) + np.sum(np.log(self.stretch.factors))
        elbo = np.mean(values) + volume
        return float(elbo) if np.isfinite(elbo) else -np.inf


class _Spectrum(NamedTuple):
    """What is known of the mean of minus the Hessian in units of some standard deviations.

    Attributes:
        scale: the standard deviations.
        vectors: Ritz vectors, with orthonormal columns.
        values: Ritz values, positive.
        rest: mean value outside of the vectors, positive.
        diagonal: estimate of the diagonal there, positive.
    """

    scale: np.ndarray
    vectors: np.ndarray
    values: np.ndarray
    rest: float
    diagonal: np.ndarray

    def gaussian(self, loc: np.ndarray, gradient: np.ndarray, rate: float) -> Spiked:
        """Returns the Gaussian of this spectrum after a Newton step, or a share of the way from N(loc, D²)."""
        rest, slope = self.rest, self.scale * gradient
        step = slope / rest + self.vectors @ ((self.vectors.T @ slope) * (1 / self.values - 1 / rest))
        stretch = Stretch(self.vectors, (rest / self.values) ** (0.5 * rate))
        return Spiked(loc + rate * self.scale * step, self.scale * rest ** (-0.5 * rate), stretch)


def low_rank(
    rng: np.random.Generator, probe: Probe, loc: np.ndarray, scale: np.ndarray, rank: int
) -> Spiked | None:
    """Improves a Gaussian with standard deviations `scale`. Returns None if not even the first step does so."""
    now = first = Spiked(loc, scale, Stretch.none(len(loc), rank))
    for _ in range(MAX_STEPS):
        half = rng.standard_normal((NUM_DRAWS // 2, len(loc)))
        noise = np.concatenate([half, -half])
        z = now.from_normal(noise)
        values, gradients = probe(z)
        usable = np.isfinite(values) & np.all(np.isfinite(gradients), 1)
        if not usable.any():
            break
        gradient, elbo = np.mean(gradients[usable], 0), now.elbo(values)
        spectra = _spectra(rng, probe, z[:: NUM_DRAWS // NUM_POINTS], now.scale, rank)
        tried = [spectrum.gaussian(now.loc, gradient, rate) for spectrum in spectra for rate in RATES]
        elbos = [step.elbo(probe(step.from_normal(noise))[0]) for step in tried]
        gain = max(elbos, default=-np.inf) - elbo
        if gain > 0:
            now = tried[int(np.argmax(elbos))]
        if not gain > ENOUGH_PER_DIM * len(loc):
            break
    return None if now is first else now


def _spectra(
    rng: np.random.Generator, probe: Probe, points: np.ndarray, scale: np.ndarray, rank: int
) -> Iterator[_Spectrum]:
    """Yields the spectrum in units of `scale`, and in units in which the diagonal is one besides it."""
    found = _spectrum(rng, probe, points, scale, rank)
    if found is None:
        return
    yield found
    again = _spectrum(rng, probe, points, scale / np.sqrt(found.diagonal), rank)
    if again is not None:
        yield again


def _spectrum(
    rng: np.random.Generator, probe: Probe, points: np.ndarray, scale: np.ndarray, rank: int
) -> _Spectrum | None:
    """Returns the spectrum by Lanczos's method, or None if a second derivative is not finite."""
    dim = len(scale)
    curve = lambda w: -scale * probe.curvature_along(points, scale * w)
    basis, products = np.zeros((dim, rank)), np.zeros((dim, rank))
    vector = rng.standard_normal(dim)
    for i in range(rank):
        vector /= np.linalg.norm(vector)
        basis[:, i], products[:, i] = vector, curve(vector)
        if not np.all(np.isfinite(products[:, i])):
            return None
        known = basis[:, : i + 1]
        # Twice: rounding of one pass would bring back directions that are there already.
        vector = _outside(known, _outside(known, products[:, i]))
        if not np.linalg.norm(vector) > TINY * np.linalg.norm(products[:, i]):
            # The matrix leads nowhere else from here: go on from any other place.
            vector = _outside(known, _outside(known, rng.standard_normal(dim)))
    inner = basis.T @ products
    values, rotation = np.linalg.eigh(0.5 * (inner + inner.T))
    vectors = basis @ rotation
    signs = rng.choice([-1.0, 1.0], (NUM_SIGNS, dim))
    left = np.mean([sign * (curve(sign) - vectors @ (values * (vectors.T @ sign))) for sign in signs], 0)
    # Where the vectors take most of an axis, little is left of it, and nothing to learn from.
    share = 1 - np.sum(vectors**2, 1)
    typical = np.sum(left) / max(np.sum(share), 1.0)
    typical = typical if typical > SMALLEST else 1.0
    diagonal = np.clip((left + PRIOR * typical) / (share + PRIOR), typical / SPREAD, typical * SPREAD)
    # An upward curvature is a saddle's.
    return _Spectrum(scale, vectors, np.maximum(np.abs(values), SMALLEST), typical, diagonal)


def _outside(basis: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return vector - basis @ (basis.T @ vector)
