"""How finely floating point resolves a log density and its draws."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Precision(NamedTuple):
    """What rounding leaves of a posterior.

    Attributes:
        nats: step between neighbouring values of log p, in nats. Importance weights are no finer than this.
        steps: number of steps of floating point in one standard deviation of z, at the coarsest coordinate.
    """

    nats: float
    steps: float


def measure_precision(z: Float[np.ndarray, "S D"], log_p: Float[np.ndarray, "S"]) -> Precision:
    """Measures the steps of log p and of z at draws, in the precision that they were computed in."""
    with np.errstate(invalid="ignore", divide="ignore"):
        scale, spread = np.max(np.abs(z), 0), np.std(z.astype(np.float64), 0)
        steps = np.min(spread / np.spacing(scale).astype(np.float64))
    return Precision(step_of(log_p), float(steps))


def step_of(values: Float[np.ndarray, "S"]) -> float:
    """Returns the step between neighbouring values of log p, NaN if none is finite."""
    values = values[np.isfinite(values)]
    if not values.size:
        return float("nan")
    step = float(np.spacing(np.max(np.abs(values))))
    distinct = np.unique(values)
    # Many ties: a constant that was added and taken away again has left a grid.
    if 1 < distinct.size < values.size / 2:
        step = max(step, float(np.min(np.diff(distinct.astype(np.float64)))))
    return step
