"""The posteriors that all methods are fitted to, and what is known of each."""

import abc
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from uivi import datasets
from uivi.evaluation import metrics
from uivi.families.conditionals.affine import Frame
from uivi.fitting.posterior import Posterior
from uivi.fitting.starts.effort import Curvature, curvature, probe_of
from uivi.fitting.starts.search import find_start
from uivi.paper.methods.waveform import Moments, reference
from uivi.presets import FULL_COVARIANCE_UP_TO
from uivi.targets import ConditionedDiffusion, LogisticRegression, NetworkRegression, Rescaled
from uivi.targets.base import AbstractGlobalTarget
from uivi.targets.diffusion import Marginals
from uivi.targets.toys import AbstractToy

NUM_POINTS = 4
"""Number of points from which the start is searched."""
QUADRATURE = 13
"""Log₂ of the number of ε in the quadrature of KL(q‖p) on the toys."""
FAR = 100.0
"""Size of a draw from which a fit to a toy has diverged: no grid holds it."""
KDE_DRAWS, KDE_GRID = 1_000, 7
"""Draws of q in the literature's score of the diffusion, and the share of the filter's grid that is used."""

Draws = Float[np.ndarray, "S D"]


class AbstractProblem(abc.ABC):
    """A posterior with what is known of it.

    Attributes:
        target: the target that is fitted.
        frame: where `uivi.fit` starts, or None for N(0, I).
        log_evidence: log Z, or None if nobody knows it.
    """

    target: AbstractGlobalTarget
    frame: Frame | None = None
    log_evidence: float | None = None

    @abc.abstractmethod
    def draws(self, fitted: Draws) -> Draws:
        """Returns draws on the scale of the problem for draws of the fit."""

    @abc.abstractmethod
    def scores(self, fit: Posterior, draws: Draws) -> dict[str, float]:
        """Returns how far a fit is from what is known, given draws on the scale of the problem."""

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """Returns the data set, for JSON."""


class Standard(NamedTuple):
    """A posterior on the scale of a rough Gaussian approximation.

    Attributes:
        target: the posterior, every coordinate with mean 0 and standard deviation 1 by the approximation.
        frame: the approximation on that scale, with its correlations: where `uivi.fit` starts. None if their
            search was too dear.
    """

    target: Rescaled
    frame: Frame | None


def standardised(target: AbstractGlobalTarget) -> Standard:
    """Searches for a start as `uivi.fit` does, by Pathfinder and Laplace's approximation."""
    points = np.random.default_rng(0).uniform(-1, 1, (NUM_POINTS, target.dim))
    # As in `uivi.fit`: below that size the search has a full covariance in any case.
    is_large = target.dim > FULL_COVARIANCE_UP_TO
    spent = curvature(target.log_density, target.dim) if is_large else Curvature()
    start = find_start(
        jax.random.key(0), probe_of(target), points, full_up_to=FULL_COVARIANCE_UP_TO, curvature=spent
    )
    loc, factor = np.asarray(start.loc), np.asarray(start.factor)
    if factor.ndim == 1:
        return Standard(Rescaled.create(target, loc, factor), None)
    spread = np.linalg.norm(factor, axis=1)
    frame = Frame.create(np.zeros(target.dim), factor / spread[:, None])
    return Standard(Rescaled.create(target, loc, spread), frame)


class ToyProblem(AbstractProblem):
    """A normalised density on the plane, fitted as it is."""

    def __init__(self, toy: AbstractToy):
        """Keeps the density, whose evidence is one."""
        self.target, self.toy, self.log_evidence = toy, toy, 0.0

    def draws(self, fitted: Draws) -> Draws:
        """Returns the draws of the fit."""
        return fitted

    def scores(self, fit: Posterior, draws: Draws) -> dict[str, float]:
        """Returns KL(q‖p) by quadrature and the mass of q that the grid holds."""
        if not np.max(np.abs(draws)) < FAR:
            return {"kl": float("nan"), "mass": 0.0}
        return metrics.kl_quadrature(fit.family, self.toy, log2_mixing=QUADRATURE)._asdict()

    def describe(self) -> dict[str, Any]:
        """Returns nothing: a density has no data set."""
        return {}


class DiffusionProblem(AbstractProblem):
    """The conditioned diffusion, judged by the exact marginals of its states."""

    def __init__(self, diffusion: ConditionedDiffusion):
        """Searches for a start and filters."""
        self.exact = diffusion.exact()
        self.log_evidence = self.exact.log_evidence
        self.target, self.frame = standardised(diffusion)

    def draws(self, fitted: Draws) -> Draws:
        """Returns the states."""
        return _original(self.target, fitted)

    def scores(self, fit: Posterior, draws: Draws) -> dict[str, float]:
        """Returns how far the marginals are off."""
        del fit
        return marginal_scores(self.exact, draws)

    def describe(self) -> dict[str, Any]:
        """Returns nothing: the observations belong to the target."""
        return {}


class WaveformProblem(AbstractProblem):
    """Logistic regression on 400 waveforms, judged by the moments of long chains."""

    def __init__(self):
        """Loads the data and searches for a start."""
        self.exact = reference()
        self.target, self.frame = standardised(waveform_target())

    def draws(self, fitted: Draws) -> Draws:
        """Returns the coefficients."""
        return _original(self.target, fitted)

    def scores(self, fit: Posterior, draws: Draws) -> dict[str, float]:
        """Returns how far mean and covariance are off."""
        del fit
        return moment_scores(self.exact, draws)

    def describe(self) -> dict[str, Any]:
        """Returns the data set."""
        return _described("waveform")


def waveform_target() -> LogisticRegression:
    """Returns the regression as all methods' papers have it: the training rows and the prior N(0, 100 I)."""
    train = datasets.load("waveform").train
    assert train.y is not None
    return LogisticRegression.create(train.x, train.y, prior_scale=10.0)


class NetworkProblem(AbstractProblem):
    """A Bayesian network for a table of UCI, judged by predictions for its test rows."""

    def __init__(self, dataset: str):
        """Loads the data, standardises it by its training rows, and searches for a start."""
        self.dataset, data = dataset, datasets.load(dataset)
        assert data.train.y is not None
        assert data.test is not None
        assert data.test.y is not None
        x, y = data.train.x, data.train.y
        spread = np.where(x.std(0) > 0, x.std(0), 1.0)
        self.unit = float(y.std())
        self.test_x = jnp.asarray((data.test.x - x.mean(0)) / spread, float)
        self.test_y = (data.test.y - y.mean()) / self.unit
        self.network = NetworkRegression.create((x - x.mean(0)) / spread, (y - y.mean()) / self.unit)
        self.target, self.frame = standardised(self.network)

    def draws(self, fitted: Draws) -> Draws:
        """Returns the weights."""
        return _original(self.target, fitted)

    def scores(self, fit: Posterior, draws: Draws) -> dict[str, float]:
        """Returns how good the predictions for the test rows are, in the units of the data."""
        del fit
        predicted = _predictions(self.network, jnp.asarray(draws, float), self.test_x)
        mean, log_precision = (np.asarray(x, np.float64) for x in predicted)
        return prediction_scores(mean, log_precision, self.test_y, self.unit)

    def describe(self) -> dict[str, Any]:
        """Returns the data set."""
        return _described(self.dataset)


def marginal_scores(exact: Marginals, draws: Draws) -> dict[str, float]:
    """Returns the largest errors of means and standard deviations, and the literature's score.

    That score is the mean over the posterior of the sum of the log marginal densities, which a kernel density
    estimate reads off 1,000 draws. It does not see correlations.
    """
    mean, sd = draws.mean(0), draws.std(0)
    grid, score = exact.grid[::KDE_GRID], 0.0
    for own, density in zip(draws[:KDE_DRAWS].T, exact.densities[:, ::KDE_GRID], strict=True):
        width = own.std(ddof=1) * len(own) ** -0.2  # Scott's rule
        squares = -0.5 * ((grid[:, None] - own[None]) / width) ** 2
        log_density = np.logaddexp.reduce(squares, 1) - np.log(len(own) * width * (2 * np.pi) ** 0.5)
        score += float(density @ log_density / density.sum())
    return {
        "mean_error": float(np.max(np.abs(mean - exact.mean) / exact.sd)),
        "sd_error": float(np.max(np.abs(sd / exact.sd - 1))),
        "kde": score,
    }


def moment_scores(exact: Moments, draws: Draws) -> dict[str, float]:
    """Returns the largest error of a mean, and that of the covariance in the Frobenius norm."""
    sd = np.sqrt(np.diag(exact.covariance))
    gap = np.cov(draws, rowvar=False) - exact.covariance
    return {
        "mean_error": float(np.max(np.abs(draws.mean(0) - exact.mean) / sd)),
        "covariance_error": float(np.linalg.norm(gap) / np.linalg.norm(exact.covariance)),
    }


def prediction_scores(
    mean: Float[np.ndarray, "S R"],
    log_precision: Float[np.ndarray, "S"],
    values: Float[np.ndarray, "R"],
    unit: float,
) -> dict[str, float]:
    """Returns RMSE of the mean prediction, and minus the mean log density of the values.

    Args:
        mean: prediction of each draw for each row, in standard units.
        log_precision: log precision of the noise of each draw.
        values: what was measured, in standard units.
        unit: standard deviation of the data, by which both are divided.
    """
    log_precision = log_precision[:, None]
    terms = 0.5 * (log_precision - np.log(2 * np.pi) - np.exp(log_precision) * (values - mean) ** 2)
    log_p = np.logaddexp.reduce(terms, 0) - np.log(len(mean))
    rmse = np.sqrt(np.mean((values - mean.mean(0)) ** 2))
    return {"rmse": float(unit * rmse), "nll": float(np.log(unit) - np.mean(log_p))}


@jax.jit
def _predictions(network: NetworkRegression, draws: Any, x: Any) -> tuple[Any, Any]:
    return jax.lax.map(lambda z: network.predict(z, x), draws, batch_size=256)


def _original(target: AbstractGlobalTarget, fitted: Draws) -> Draws:
    assert isinstance(target, Rescaled)
    return target.originals(fitted)


def _described(dataset: str) -> dict[str, Any]:
    return {"dataset": dataset, "description": datasets.DATASETS[dataset].description}


# Every method of an experiment gets the same problem: its start is searched once in a process.
toy = functools.cache(ToyProblem)
diffusion = functools.cache(DiffusionProblem)
waveform = functools.cache(WaveformProblem)
network = functools.cache(NetworkProblem)
