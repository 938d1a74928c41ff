"""The Gaussian with the largest ELBO, by Newton steps with averaged derivatives (Khan & Lin 2017).

At the best Gaussian the mean gradient is zero, and the precision is the mean of minus the Hessian, both over
its own draws. The Hessian at the mode alone can be far off: where a posterior is skewed, or has no mode.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_solve, solve_triangular

from uivi.fitting.starts.newton import LARGEST, spectrum
from uivi.targets.probe import Probe

HESSIANS_PER_STEP = 8
NUM_DRAWS = 192
"""Draws of a step, in pairs on both sides of the mean: they give the mean gradient and compare ELBOs."""
RATES = (1.0, 0.3, 0.1, 0.03, 0.01)
"""Shares of a step that are tried in turn, until the ELBO rises."""
ENOUGH_GAIN, ENOUGH_PER_DIM = 0.05, 5e-4
"""The search ends when two steps in a row gain less than this, in nats, or than this for each dimension: a step
fits the noise of its own draws, and seems to gain that much for ever."""


class _Normal(NamedTuple):
    """A Gaussian with a precision matrix and the lower triangular R with R Rᵀ equal to it."""

    mean: Float[np.ndarray, "D"]
    precision: Float[np.ndarray, "D D"]
    root: Float[np.ndarray, "D D"]

    def from_normal(self, noise: np.ndarray) -> np.ndarray:
        """Maps standard normal vectors, shape (S, D), to draws."""
        return self.mean + solve_triangular(self.root, noise.T, lower=True, trans=1).T

    def elbo(self, values: np.ndarray) -> float:
        """Returns the ELBO from log p at draws, minus infinity if it is not finite."""
        elbo = np.mean(values) - np.sum(np.log(np.diag(self.root)))
        elbo += 0.5 * len(self.mean) * np.log(2 * np.pi * np.e)
        return float(elbo) if np.isfinite(elbo) else -np.inf

    def moved(self, curvature: np.ndarray, gradient: np.ndarray, rate: float, share: float) -> "_Normal | None":
        """Returns the Gaussian after a step.

        Args:
            curvature: minus the mean Hessian.
            gradient: the mean gradient.
            rate: how much of Newton's step the mean makes.
            share: weight of `curvature` in the new precision.
        """
        precision = (1 - share) * self.precision + share * curvature
        root = _root(precision)
        if root is None:
            return None
        return _Normal(self.mean + rate * cho_solve((root, True), gradient), precision, root)


def averaged_newton(
    rng: np.random.Generator, probe: Probe, loc: np.ndarray, factor: np.ndarray, num_hessians: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Improves a Gaussian. Returns None if not even the first step does so.

    Args:
        rng: random numbers.
        probe: log density.
        loc: mean of the Gaussian.
        factor: F with F Fᵀ its covariance.
        num_hessians: largest number of Hessians.

    Returns:
        The mean, and a lower triangular F.
    """
    inverse = np.linalg.inv(factor)
    root = _root(precision := inverse.T @ inverse)
    if root is None:
        return None
    now, num_full, num_small, first = _Normal(loc, precision, root), 0, 0, 0
    enough = max(ENOUGH_GAIN, ENOUGH_PER_DIM * len(loc))
    for _ in range(num_hessians // HESSIANS_PER_STEP):
        half = rng.standard_normal((NUM_DRAWS // 2, len(loc)))
        noise = np.concatenate([half, -half])
        z = now.from_normal(noise)
        values, gradients = probe(z)
        elbo = now.elbo(values)
        usable = np.isfinite(values) & np.all(np.isfinite(gradients), 1)
        curvature = _curvature(probe, z[:: NUM_DRAWS // HESSIANS_PER_STEP])
        if curvature is None or not usable.any():
            break
        gradient = np.mean(gradients[usable], 0)
        # The first two full steps forget where the search began. Later ones average, against the noise of
        # eight Hessians.
        most = 2 / (max(num_full, 1) + 1)
        steps = (now.moved(curvature, gradient, rate, most * rate) for rate in RATES[first:])
        made = _first_gain(probe, noise, elbo, steps)
        if made is None:
            break
        now, gain, number = made
        number, first = first + number, max(first + number - 1, 0)
        num_full += number == 0
        num_small = num_small + 1 if gain < enough + 1e-7 * abs(elbo) else 0
        if num_small == 2:
            break
    found = _factor(now.root)
    return None if now.mean is loc or found is None else (now.mean, found)


def _first_gain(
    probe: Probe, noise: np.ndarray, elbo: float, steps: Iterable[_Normal | None]
) -> tuple[_Normal, float, int] | None:
    """Returns the first step with a larger ELBO, how much larger it is, and the number of the step."""
    for number, step in enumerate(steps):
        gain = -np.inf if step is None else step.elbo(probe(step.from_normal(noise))[0]) - elbo
        if step is not None and gain > 0:
            return step, gain, number
    return None


def _curvature(probe: Probe, points: np.ndarray) -> np.ndarray | None:
    """Returns minus the mean Hessian, made positive definite. Returns None where there is no finite one."""
    found = [hessian for point in points if np.all(np.isfinite(hessian := probe.hessian(point)))]
    if not found:
        return None
    hessian = np.mean(found, 0)
    hessian = 0.5 * (hessian + hessian.T)
    if _root(-hessian) is not None:
        return -hessian
    scale, vectors, values = spectrum(hessian)
    rows = scale[:, None] * vectors * np.sqrt(values)
    return rows @ rows.T


def _root(matrix: np.ndarray) -> np.ndarray | None:
    """Returns the lower Cholesky factor, or None if the matrix is not positive definite."""
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None


def _factor(root: np.ndarray) -> np.ndarray | None:
    """Returns a lower triangular F with F Fᵀ the inverse of R Rᵀ, standard deviations kept within bounds."""
    covariance = cho_solve((root, True), np.eye(len(root)))
    sd = np.sqrt(np.diag(covariance))
    # The jitter covers rounding of a flat direction.
    correlation = _root(covariance / np.outer(sd, sd) + 1e-6 * np.eye(len(sd)))
    return None if correlation is None else np.clip(sd, 1 / LARGEST, LARGEST)[:, None] * correlation
