"""Importance weights p/q: how heavy their tails are, and what they say of the moments of q."""

from typing import NamedTuple

import numpy as np
import scipy.stats
from arviz_stats.base.array import array_stats
from jaxtyping import Array, Float


def pareto_k(log_weights: Float[Array, "S"]) -> float:
    """k-hat of Pareto-smoothed importance sampling (Vehtari et al. 2024)."""
    return smoothed_weights(log_weights)[1]


def smoothed_weights(log_weights: Float[Array, "S"]) -> tuple[np.ndarray, float]:
    """Pareto-smoothed log weights, normalised, and k-hat; through arviz-stats.

    Weights that cannot be smoothed (few, equal or not finite ones) come back as they are, with a k-hat of
    infinity, or of -infinity if they are equal.
    """
    given = np.asarray(log_weights, np.float64)
    plain = np.where(np.isfinite(given), given, -np.inf)
    with np.errstate(invalid="ignore"):
        plain = plain - np.logaddexp.reduce(plain)
    if given.size < 25 or not np.all(np.isfinite(given)):
        return plain, float("inf")
    if np.ptp(given) < 1e-12:
        return plain, float("-inf")
    with np.errstate(all="ignore"):  # a tail of equal weights divides by zero in its fit
        smooth, k = array_stats.psislw(given.max() - given)  # it takes log likelihoods: minus log weights
    return (smooth, float(k)) if np.isfinite(k) else (plain, float("inf"))


class MomentGaps(NamedTuple):
    """By how much the moments of q differ from those of the reweighted draws, where they differ most.

    Attributes:
        mean: |difference of means| over the reweighted standard deviation.
        sd: |ratio of standard deviations - 1|.
        mean_stderr: standard error of `mean`.
        sd_stderr: standard error of `sd`.
        num: how many quantities were compared.
    """

    mean: float
    sd: float
    mean_stderr: float
    sd_stderr: float
    num: int

    def is_chance(self, gap: float, stderr: float) -> bool:
        """Whether the largest of `num` gaps may be chance: at a rate of one in a hundred, by Bonferroni."""
        return not gap > _threshold(self.num) * stderr


def moment_gaps(values: Float[Array, "S K"], log_weights: Float[Array, "S"]) -> MomentGaps:
    """Compare quantities at draws of q with themselves under Pareto-smoothed weights p/q.

    Where k-hat is good, the reweighted moments are those of the posterior up to their standard errors, so the
    gaps are what using q in its place costs. Standard errors by the delta method, of the paired difference.
    """
    draws, weights = np.asarray(values, np.float64), np.exp(smoothed_weights(log_weights)[0])
    # Constants, such as the zeros of a triangular matrix, have no moments to compare.
    draws = draws[:, np.std(draws, 0) > 1e-6 * np.max(np.abs(draws), 0)]
    mean = weights @ draws
    scaled = (draws - mean) / np.sqrt(weights @ (draws - mean) ** 2)
    even, own = 1 / len(weights), weights[:, None]
    square = scaled**2 - 1
    means, squares = np.sum((even - own) * scaled, 0), even * np.sum(square, 0)
    ratios = np.sqrt(np.maximum(1 + squares - means**2, 0.0))
    mean_terms = (even - own) * scaled - 0.5 * means * own * square
    square_terms = (even - (1 + squares) * own) * square
    shift, shift_error = _worst(np.abs(means), _stderr(mean_terms))
    spread, spread_error = _worst(np.abs(ratios - 1), 0.5 * _stderr(square_terms))
    return MomentGaps(shift, spread, shift_error, spread_error, draws.shape[1])


def _stderr(terms: np.ndarray) -> np.ndarray:
    """Of sums of independent terms, down the rows."""
    return np.std(terms, 0) * np.sqrt(len(terms))


def _worst(gaps: np.ndarray, errors: np.ndarray) -> tuple[float, float]:
    """The largest gap that is no chance, or else the largest, with its standard error."""
    certain = np.where(gaps > _threshold(len(gaps)) * errors, gaps, 0.0)
    place = int(np.argmax(certain if certain.any() else gaps))
    return float(gaps[place]), float(errors[place])


def _threshold(num: int) -> float:
    return float(scipy.stats.norm.isf(0.005 / num))
