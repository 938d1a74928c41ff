"""Pathfinder (Zhang et al. 2022): the best Gaussian along a quasi-Newton path, on several paths side by side.

The paths run on the host, in NumPy. An iteration evaluates all trial steps of all paths in one call of the
probe. Compiling the loop itself would take longer than the search.
"""

import collections
import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from uivi.evaluation.coverage import Region
from uivi.targets.probe import Probe

MAX_ITERATIONS = 100
NUM_PAIRS = 10
"""Number of recent steps that the inverse Hessian is made of."""
NUM_FIRST, NUM_MORE = 16, 128
"""Draws that estimate the ELBO at every iterate of a path, and again at the best ones. Where a density is
expensive, a probe has fewer points, and these are at most one and two times as many."""
NUM_BEST = 3
POINTS_PER_PATH = 4
"""Least number of points of a probe for each path: where a density is expensive, there are fewer paths."""
AT_ONCE = 8
"""Paths that climb side by side where only their ends count."""
ENOUGH_GAIN = 1e-4
"""A path ends when two steps in a row gain less than this, in nats and relative to float32's rounding."""


class Gaussian(NamedTuple):
    """N(mean, C) with C = A^½ (I + Q (L Lᵀ - I) Qᵀ) A^½, A diagonal and Q with few orthonormal columns.

    Attributes:
        mean: the mean.
        diagonal: A.
        basis: Q.
        factor: L.
        elbo: estimate of its ELBO.
        log_weights: log of p over its density, at draws inside its ellipsoid; minus infinity at others.
        origin: where the path began.
    """

    mean: np.ndarray
    diagonal: np.ndarray
    basis: np.ndarray
    factor: np.ndarray
    elbo: float = -np.inf
    log_weights: np.ndarray = np.zeros(0)
    origin: np.ndarray | None = None

    def from_normal(self, noise: np.ndarray) -> np.ndarray:
        """Maps standard normal vectors, shape (S, D), to draws."""
        inside = noise @ self.basis
        changed = noise + (inside @ (self.factor.T - np.eye(len(self.factor)))) @ self.basis.T
        return self.mean + np.sqrt(self.diagonal) * changed

    def distance(self, points: np.ndarray) -> np.ndarray:
        """Returns the distances of points, shape (S, D), from the mean in standard deviations, shape (S,)."""
        scaled = (points - self.mean) / np.sqrt(self.diagonal)
        inside = scaled @ self.basis
        changed = np.linalg.solve(self.factor, inside.T).T - inside
        return np.linalg.norm(scaled + changed @ self.basis.T, axis=1)

    def entropy(self) -> float:
        """Returns the entropy in nats."""
        volume = 0.5 * np.sum(np.log(self.diagonal)) + np.sum(np.log(np.diag(self.factor)))
        return float(volume + 0.5 * len(self.mean) * np.log(2 * np.pi * np.e))

    def region(self) -> Region:
        """Returns its ellipsoid, with the mass of the posterior in it."""
        log_mass = np.logaddexp.reduce(self.log_weights) - np.log(len(self.log_weights))
        relative = np.exp(self.log_weights - log_mass)
        stderr = np.std(relative) / np.sqrt(len(relative) - 1)
        radius = radius_of(len(self.mean))
        return Region(self.mean, self.distance, radius, float(log_mass), float(stderr), self.origin)

    def covariance(self) -> np.ndarray:
        """Returns C."""
        rows = self._wide()
        root = np.sqrt(self.diagonal)
        return np.diag(self.diagonal) + root[:, None] * (rows @ rows.T - self.basis @ self.basis.T) * root

    def variance(self) -> np.ndarray:
        """Returns the diagonal of C."""
        rows = self._wide()
        return self.diagonal * (1 + np.sum(rows**2, 1) - np.sum(self.basis**2, 1))

    def _wide(self) -> np.ndarray:
        return self.basis @ self.factor


def best_gaussians(rng: np.random.Generator, probe: Probe, points: np.ndarray) -> list[Gaussian]:
    """Returns the Gaussian with the largest ELBO on the path from each point. A path may have none."""
    paths = [_Path(point, origin=point) for point in points[: max(1, probe.size // POINTS_PER_PATH)]]
    _climb(probe, paths, MAX_ITERATIONS, len(paths))
    found = []
    num_first, num_more = min(NUM_FIRST, probe.size), min(NUM_MORE, 2 * probe.size)
    for path in paths:
        ranked = _ranked(rng, probe, path.gaussians, num_first)[:NUM_BEST]
        found += _ranked(rng, probe, ranked, num_more)[:1]
    return found


def _ranked(
    rng: np.random.Generator, probe: Probe, gaussians: list[Gaussian], num_draws: int
) -> list[Gaussian]:
    """Returns the Gaussians with finite ELBOs, from the largest to the smallest."""
    if not gaussians:
        return []
    # The same noise for all, so that their differences are less noisy.
    noise = rng.standard_normal((num_draws, len(gaussians[0].mean)))
    values, _ = probe(np.concatenate([gaussian.from_normal(noise) for gaussian in gaussians]))
    squares = np.sum(noise**2, 1)
    is_inside = squares <= radius_of(noise.shape[1]) ** 2
    rated = []
    for gaussian, log_p in zip(gaussians, values.reshape(len(gaussians), num_draws), strict=True):
        entropy = gaussian.entropy()
        log_weights = log_p + entropy + 0.5 * (squares - noise.shape[1])
        elbo = float(np.mean(log_p)) + entropy
        rated.append(gaussian._replace(elbo=elbo, log_weights=np.where(is_inside, log_weights, -np.inf)))
    return sorted((g for g in rated if np.isfinite(g.elbo)), key=lambda g: -g.elbo)


def radius_of(dim: int) -> float:
    """Returns the radius of a ball with almost all of a standard normal vector."""
    return float(np.sqrt(dim + 3 * np.sqrt(2 * dim)))


def climb(
    probe: Probe, points: np.ndarray, is_known: Callable[[np.ndarray], bool], most: int = MAX_ITERATIONS
) -> list[tuple[np.ndarray, float]]:
    """Returns where the path from each point ends and log p there, without any Gaussian.

    Args:
        probe: log density.
        points: where the paths begin.
        is_known: whether a place is in a region that is known. A path ends as soon as it is in one.
        most: largest number of iterations of a path.
    """
    paths = [_Path(point, origin=point, is_light=True) for point in points]
    _climb(probe, paths, most, AT_ONCE, is_known)
    return [(path.place, path.value) for path in paths]


@dataclasses.dataclass
class _Path:
    """One climb: where it is, its recent steps, and the Gaussians that they give unless it is light."""

    place: np.ndarray
    origin: np.ndarray
    is_light: bool = False
    value: float = -np.inf
    gradient: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))
    diagonal: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))
    pairs: collections.deque = dataclasses.field(default_factory=lambda: collections.deque(maxlen=NUM_PAIRS))
    gaussians: list[Gaussian] = dataclasses.field(default_factory=list)
    num_steps: int = 0
    num_small: int = 0
    is_done: bool = False

    def begin(self, value: float, gradient: np.ndarray) -> None:
        self.value, self.gradient, self.diagonal = value, gradient, np.ones_like(gradient)
        self.is_done = not (np.isfinite(value) and np.all(np.isfinite(gradient)))

    def has_ended(self, most: int, is_known: Callable[[np.ndarray], bool]) -> bool:
        """Whether it needs no further step: it is at its top, at a known place, or has had the most steps."""
        return self.is_done or self.num_steps >= most or is_known(self.place)

    def trials(self, number: int) -> np.ndarray:
        """Returns steps of several lengths, shape (number, D)."""
        if self.pairs:
            direction, longest, ratio = self._inverse_hessian_times(self.gradient), 4.0, 0.5
        else:
            # Nothing is known about the scale: lengths from a thousandth of a percent to some thirty.
            norm = np.linalg.norm(self.gradient)
            direction, longest, ratio = self.gradient / (norm if norm > 0 else 1.0), 32.0, 0.35
        return longest * ratio ** np.arange(number)[:, None] * direction

    def advance(self, steps: np.ndarray, values: np.ndarray, gradients: np.ndarray) -> None:
        """Takes the step with the largest log density."""
        self.num_steps += 1
        usable = np.isfinite(values) & np.all(np.isfinite(gradients), 1)
        best = int(np.argmax(np.where(usable, values, -np.inf)))
        gain = values[best] - self.value if usable[best] else -np.inf
        if not gain > 0:
            # The pairs may be at fault: go on once along the gradient.
            self.is_done = not self.pairs
            self.pairs.clear()
            return
        self._learn(steps[best], self.gradient - gradients[best])
        self.place = self.place + steps[best]
        self.value, self.gradient = float(values[best]), gradients[best]
        if not self.is_light and (made := self._gaussian()) is not None:
            self.gaussians.append(made)
        is_small = gain < ENOUGH_GAIN + 1e-7 * abs(self.value)
        self.num_small = self.num_small + 1 if is_small else 0
        self.is_done = self.num_small == 2

    def _learn(self, step: np.ndarray, change: np.ndarray) -> None:
        """Adds a step with its change of the gradient, if the curvature along it is that of a maximum."""
        curvature = step @ change
        if not curvature > 1e-6 * np.linalg.norm(step) * np.linalg.norm(change):
            return
        self.pairs.append((step, change))
        # The diagonal of a BFGS update (Zhang et al. 2022, Algorithm 3).
        alpha = self.diagonal
        a, c = change @ (alpha * change), step @ (step / alpha)
        inverse = a / (curvature * alpha) + change**2 / curvature - a * step**2 / (curvature * c * alpha**2)
        self.diagonal = 1 / np.maximum(inverse, 1e-12)

    def _parts(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns β and γ of the inverse Hessian diag(α) + β γ βᵀ (Byrd, Nocedal & Schnabel 1994)."""
        steps, changes = (np.stack(x, 1) for x in zip(*self.pairs, strict=True))
        products = steps.T @ changes
        upper = np.triu(products)
        inverse = np.linalg.inv(upper)
        scaled = self.diagonal[:, None] * changes
        corner = inverse.T @ (np.diag(np.diag(products)) + changes.T @ scaled) @ inverse
        middle = np.block([[np.zeros_like(inverse), -inverse], [-inverse.T, corner]])
        return np.concatenate([scaled, steps], 1), middle

    def _inverse_hessian_times(self, vector: np.ndarray) -> np.ndarray:
        beta, gamma = self._parts()
        return self.diagonal * vector + beta @ (gamma @ (beta.T @ vector))

    def _gaussian(self) -> Gaussian | None:
        if not self.pairs:
            return None
        beta, gamma = self._parts()
        basis, triangle = np.linalg.qr(beta / np.sqrt(self.diagonal)[:, None])
        try:
            factor = np.linalg.cholesky(np.eye(len(triangle)) + triangle @ gamma @ triangle.T)
        except np.linalg.LinAlgError:
            return None
        step = self.diagonal * self.gradient + beta @ (gamma @ (beta.T @ self.gradient))
        return Gaussian(self.place + step, self.diagonal, basis, factor, origin=self.origin)


def _climb(
    probe: Probe,
    paths: list[_Path],
    most: int,
    at_once: int,
    is_known: Callable[[np.ndarray], bool] = lambda place: False,
) -> None:
    """Runs all paths to their ends, so many side by side. Where one ends, the next begins."""
    for path, value, gradient in zip(paths, *probe(np.stack([p.place for p in paths])), strict=True):
        path.begin(value, gradient)
    number = max(8, probe.size // at_once)
    waiting, active = collections.deque(paths), []
    while not probe.is_spent:
        active = [path for path in active if not path.has_ended(most, is_known)]
        while waiting and len(active) < at_once:
            if not (path := waiting.popleft()).has_ended(most, is_known):
                active.append(path)
        if not active:
            return
        steps = [path.trials(number) for path in active]
        tried = np.concatenate([p.place + s for p, s in zip(active, steps, strict=True)])
        values, gradients = probe(tried)
        for i, path in enumerate(active):
            part = slice(i * number, (i + 1) * number)
            path.advance(steps[i], values[part], gradients[part])
