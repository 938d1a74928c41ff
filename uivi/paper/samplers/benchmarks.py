"""The targets by name, made from their data, each with its log Z."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from uivi import datasets
from uivi.targets import (
    BrownianMotion,
    ConditionedDiffusion,
    CoxProcess,
    Funnel,
    LogisticRegression,
    Rosenbrock,
    Seeds,
    bounded_drift,
    cubic_drift,
    eight_gaussians,
    forty_gaussians,
    ten_students,
)
from uivi.targets.base import AbstractGlobalTarget


class Evidence(NamedTuple):
    """The log of the integral of a target's density.

    Attributes:
        log_z: its value.
        stderr: its standard error; 0 if the value is exact to the digits given.
        source: how it was found.
    """

    log_z: float
    stderr: float
    source: str

    @property
    def exact(self) -> bool:
        """Whether the value is exact to the digits given."""
        return self.stderr == 0.0


class Benchmark(NamedTuple):
    """A target with its log Z.

    Attributes:
        make: makes the target; loads the data set first, if there is one.
        evidence: its log Z.
        dataset: name of the data set, or None.
    """

    make: Callable[[], AbstractGlobalTarget]
    evidence: Evidence
    dataset: str | None = None


def centred(x: np.ndarray) -> np.ndarray:
    """Returns the features with mean 0 and standard deviation 1; a constant one becomes 0."""
    return (x - x.mean(0)) / _spread(x)


def divided(x: np.ndarray) -> np.ndarray:
    """Returns the features divided by their standard deviations, and not centred."""
    return x / _spread(x)


def _spread(x: np.ndarray) -> np.ndarray:
    spread = x.std(0)
    return np.where(spread > 0, spread, 1.0)


def _regression(
    dataset: str, prepare: Callable[[np.ndarray], np.ndarray], prior_scale: float | None
) -> LogisticRegression:
    """Returns the regression on all rows, with a column of ones first."""
    rows = datasets.load(dataset).train
    assert rows.y is not None
    x = prepare(rows.x.astype(np.float64))
    features = np.concatenate([np.ones((len(x), 1)), x], 1)
    return LogisticRegression.create(features, rows.y, prior_scale=prior_scale)


def _regression_benchmark(
    dataset: str,
    prepare: Callable[[np.ndarray], np.ndarray],
    prior_scale: float | None,
    log_z: float,
    stderr: float,
) -> Benchmark:
    evidence = Evidence(log_z, stderr, "importance sampling")
    return Benchmark(partial(_regression, dataset, prepare, prior_scale), evidence, dataset)


def _pines() -> CoxProcess:
    return CoxProcess.create(datasets.load("pines").train.x)


_NORMALISED = Evidence(0.0, 0.0, "normalised")

BENCHMARKS: dict[str, Benchmark] = {
    "ionosphere": _regression_benchmark("ionosphere", centred, 1.0, -111.6097, 0.0012),
    "sonar": _regression_benchmark("sonar", centred, 1.0, -108.3856, 0.0016),
    "german-credit": _regression_benchmark("german-credit", divided, 10.0, -585.0973, 0.0008),
    "german-credit-flat": _regression_benchmark("german-credit", divided, None, -504.4856, 0.0004),
    "breast-cancer": _regression_benchmark("breast-cancer", divided, 10.0, -77.563, 0.010),
    "seeds": Benchmark(Seeds, Evidence(-73.4066, 0.003, "importance sampling")),
    "brownian": Benchmark(BrownianMotion, Evidence(1.18775, 0.0, "quadrature over both scales")),
    "pines": Benchmark(_pines, Evidence(501.78, 0.05, "annealed importance sampling, one run"), "pines"),
    "funnel": Benchmark(Funnel, _NORMALISED),
    "rosenbrock": Benchmark(Rosenbrock, _NORMALISED),
    "eight-gaussians": Benchmark(eight_gaussians, _NORMALISED),
    "forty-gaussians": Benchmark(forty_gaussians, _NORMALISED),
    "forty-gaussians-50": Benchmark(partial(forty_gaussians, 50), _NORMALISED),
    "ten-students": Benchmark(ten_students, _NORMALISED),
    "ten-students-50": Benchmark(partial(ten_students, 50), _NORMALISED),
    "diffusion": Benchmark(
        partial(ConditionedDiffusion, bounded_drift), Evidence(-0.69600, 0.0, "filter on a grid")
    ),
    "diffusion-paper": Benchmark(
        partial(ConditionedDiffusion, cubic_drift), Evidence(-2.23669, 0.0, "filter on a grid")
    ),
}
"""The targets by name."""
