"""Laplace's approximation by Newton's method."""

import numpy as np

from uivi.targets.probe import Probe

MAX_ITERATIONS = 100
LARGEST = 1e4
"""Standard deviations are kept between 1 / LARGEST and LARGEST."""
DAMPINGS = 10.0 ** np.arange(-9, 7)
"""All of them are tried at every step: from Newton's step to a short one along the gradient."""


def laplace(probe: Probe, start: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Finds mode and curvature by damped Newton steps. Returns None where there are no finite derivatives.

    Returns:
        The mode, and a lower triangular F such that F Fᵀ is the covariance.
    """
    z, (values, gradients), hessian = start, probe(start[None]), probe.hessian(start)
    value, gradient = values[0], gradients[0]
    if not np.all(np.isfinite(hessian)):
        return None
    for _ in range(MAX_ITERATIONS):
        tried = z + _steps(hessian, gradient)
        values, gradients = probe(tried)
        usable = np.isfinite(values) & np.all(np.isfinite(gradients), 1)
        best = int(np.argmax(np.where(usable, values, -np.inf)))
        curvature = probe.hessian(tried[best])
        if not (usable[best] and values[best] > value and np.all(np.isfinite(curvature))):
            break
        gain, z = values[best] - value, tried[best]
        value, gradient, hessian = values[best], gradients[best], curvature
        if gain < 1e-4 or probe.is_spent:
            break
    scale, vectors, values = spectrum(hessian)
    root = vectors / scale[:, None] / np.sqrt(values)
    sd = np.linalg.norm(root, axis=1)
    unit = root / sd[:, None]
    # The jitter covers rounding of a flat direction.
    correlation = np.linalg.cholesky(unit @ unit.T + 1e-6 * np.eye(len(z)))
    return z, np.clip(sd, 1 / LARGEST, LARGEST)[:, None] * correlation


def _steps(hessian: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Returns one step for each damping."""
    scale, vectors, values = spectrum(hessian)
    vectors = vectors / scale[:, None]
    return (vectors.T @ gradient / (values + DAMPINGS[:, None])) @ vectors.T


def spectrum(hessian: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns s, V and λ > 0 with diag(s) V diag(λ) Vᵀ diag(s) minus the Hessian, made positive definite.

    In the units of s, which are those of each coordinate's own curvature, λ is of order one.
    """
    scale = np.sqrt(np.maximum(np.abs(np.diag(hessian)), 1 / LARGEST**2))
    values, vectors = np.linalg.eigh(-hessian / np.outer(scale, scale))
    # Absolute values turn a saddle's uphill direction into a step of the right length.
    return scale, vectors, np.maximum(np.abs(values), 1e-7)
