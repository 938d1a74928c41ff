"""Importance weights p/q: their mean, the shape of their tail, and the moments of q that they correct."""

import math
import statistics
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from uivi._types import Scalar

RELIABLE_K = 0.7
"""Importance weights are reliable if k-hat is below this limit (Vehtari et al. 2024)."""

MOST_RELIABLE_K, SMALL_TAIL = 1.0, 0.005
"""They are reliable up to this larger limit if less than this share of their sum is above the cutoff of the
tail that k-hat is fitted to. K-hat is the shape of that tail, whatever its size: a q that is right but for a
strip between two modes can have a k-hat of 0.9 though no weight is above three."""

EQUAL = 1e-4
"""Range of log weights up to which they count as equal."""
NUM_TAILS = 8
"""Number of quantities whose tails are looked at."""
MANY_TAILS, NUM_LARGEST, NUM_TYPICAL = 100, 20, 32
"""Number of quantities above which they are chosen by so many of their squares, and compared with so many."""
TINY = 1e-290
"""Where a quarter of the tail is below this, relative to the largest weight, most of it is zero in floating
point. The fit of such a tail would return the prior of k-hat, which is small."""


def log_mean_weight(log_weights: Float[Array | np.ndarray, "S"]) -> tuple[Scalar, Scalar]:
    """Returns the log of the mean weight and its standard error by the delta method.

    The standard error is the relative error of the mean weight, with ddof=1. It is NaN for a single weight.
    """
    number = log_weights.shape[0]
    log_mean = jax.nn.logsumexp(log_weights) - math.log(number)
    # d log m = dm / m. The weights are divided by their mean in logs: on their own they may overflow.
    relative = jnp.exp(log_weights - log_mean)
    return log_mean, jnp.std(relative, ddof=1) / math.sqrt(number)


def kl_divergence(log_weights: Float[Array | np.ndarray, "S"]) -> tuple[float, float]:
    """Estimates KL(q‖p) from log p/q at draws of q, p unnormalised, and returns its standard error.

    It is the log of the mean weight, which estimates log Z, minus the mean log weight. It means something where
    k-hat is good: draws that q never makes have no weight. It is infinite if a weight is not finite.
    """
    logs = np.asarray(log_weights, np.float64)
    if not np.all(np.isfinite(logs)):
        return math.inf, math.nan
    relative = np.exp(logs - np.logaddexp.reduce(logs)) * len(logs)
    # d log m = dm / m: each draw adds its relative weight to the first term and its log to the second.
    stderr = np.std(relative - logs) / math.sqrt(max(len(logs) - 1, 1))
    return float(np.logaddexp.reduce(logs) - math.log(len(logs)) - np.mean(logs)), float(stderr)


class Weights(NamedTuple):
    """What the importance weights of a number of draws tell.

    Attributes:
        pareto_k: k-hat of Pareto-smoothed importance sampling (Vehtari et al. 2024).
        pareto_k_stderr: its standard error, from the size of the tail that it is fitted to.
        ess: effective sample size of the weights, as a share of the draws.
        kl: KL(q‖p) in nats; see `kl_divergence`.
        finite: share of the draws whose weight is finite and above zero.
        num_draws: number of draws.
        unsure: share of the draws whose log q is not known to a nat; zero for an explicit family.
        tail: share of the sum of the weights above the cutoff of the tail; 1 if unknown, as in older files.
    """

    pareto_k: float
    pareto_k_stderr: float
    ess: float
    kl: float
    finite: float
    num_draws: int
    unsure: float = 0.0
    tail: float = 1.0

    @property
    def is_reliable(self) -> bool:
        """Whether k-hat is small, or not large and of a tail that is small."""
        return self.pareto_k < (MOST_RELIABLE_K if self.tail < SMALL_TAIL else RELIABLE_K)


def summarise(log_weights: Float[Array | np.ndarray, "S"], unsure: float = 0.0) -> Weights:
    """Returns k-hat, the effective sample size and the KL divergence of log weights p/q, p unnormalised.

    Args:
        log_weights: the log weights.
        unsure: share of the draws whose log q is not known to a nat.
    """
    k, number = pareto_k(log_weights), len(log_weights)
    ess, finite = effective_size(log_weights) / number, float(np.mean(np.isfinite(log_weights)))
    kl = kl_divergence(log_weights)[0]
    return Weights(k, _k_stderr(k, number), ess, kl, finite, number, unsure, tail_share(log_weights))


def effective_size(log_weights: Float[Array | np.ndarray, "S"]) -> float:
    """Returns the effective sample size (Σw)² / Σw², zero if a weight is NaN or infinite."""
    logs = np.asarray(log_weights, np.float64)
    if np.any(np.isnan(logs) | np.isposinf(logs)) or not np.any(np.isfinite(logs)):
        return 0.0
    return float(np.exp(2 * np.logaddexp.reduce(logs) - np.logaddexp.reduce(2 * logs)))


def tail_share(log_weights: Float[Array | np.ndarray, "S"]) -> float:
    """Returns the share of the sum of the weights above the cutoff of the tail to which k-hat is fitted.

    It is 1 if a weight is not finite.
    """
    logs = np.asarray(log_weights, np.float64)
    if not np.all(np.isfinite(logs)):
        return 1.0
    weights = np.sort(np.exp(logs - np.logaddexp.reduce(logs)))
    return float(np.sum(np.maximum(weights - weights[-1 - _tail_size(len(weights))], 0.0)))


def pareto_k(log_weights: Float[Array | np.ndarray, "S"]) -> float:
    """Returns k-hat of Pareto-smoothed importance sampling (Vehtari et al. 2024)."""
    return smoothed_weights(log_weights)[1]


def smoothed_weights(log_weights: Float[Array | np.ndarray, "S"]) -> tuple[np.ndarray, float]:
    """Returns Pareto-smoothed log weights, normalised, and k-hat.

    Some weights cannot be smoothed: fewer than 25, equal ones (up to rounding), a tail of equal ones, some that
    are not finite, or a few that outweigh all others. They come back normalised but not smoothed. Their k-hat
    is -infinity if all are equal, and infinity otherwise.
    """
    given = np.asarray(log_weights, np.float64)
    plain = np.where(np.isfinite(given), given, -np.inf)
    with np.errstate(invalid="ignore"):  # -inf - -inf, if no weight is finite
        plain = plain - np.logaddexp.reduce(plain)
    # The tail of fewer than 25 weights, a fifth, has fewer than the five values that its fit needs.
    if given.size < 25 or not np.all(np.isfinite(given)):
        return plain, float("inf")
    # Where q is the posterior, weights differ by the rounding of float32 only: ties, which the fit cannot take.
    if np.ptp(given) < EQUAL:
        return plain, float("-inf")
    shifted = given - given.max()
    order, size = np.argsort(shifted), _tail_size(given.size)
    tail, cutoff = order[-size:], np.exp(shifted[order[-size - 1]])
    excess = np.exp(shifted[tail]) - cutoff
    if not _quartile(excess) > TINY:  # a few weights that outweigh all others, or equal ones
        return plain, float("inf")
    with np.errstate(all="ignore"):  # a tail with ties may divide by zero in its fit
        k, scale = _fit_pareto(excess)
        # The expected order statistics of the fitted tail, none above the largest weight.
        places = (np.arange(size) + 0.5) / size
        smooth = np.log(cutoff + scale * np.expm1(-k * np.log1p(-places)) / k)
    if not (np.isfinite(k) and np.all(np.isfinite(smooth))):  # equal weights in the tail, say
        return plain, float("inf")
    shifted[tail] = np.minimum(smooth, 0.0)
    return shifted - np.logaddexp.reduce(shifted), float(k)


def _tail_size(number: int) -> int:
    """Returns the number of largest weights that count as the tail (Vehtari et al. 2024, Appendix H)."""
    return int(3 * math.sqrt(number)) if number > 225 else number // 5


def _k_stderr(k: float, number: int) -> float:
    """Returns the standard error of k-hat of so many weights."""
    # The asymptotic error of the shape, which the prior of ten values makes a little smaller.
    return (1 + max(k, 0.0)) / math.sqrt(_tail_size(number) + 10)


def _quartile(values: np.ndarray) -> float:
    """Returns the lower quartile of sorted values, as Zhang & Stephens define it."""
    return float(values[int(len(values) / 4 + 0.5) - 1])


def _fit_pareto(excess: np.ndarray) -> tuple[float, float]:
    """Returns shape k and scale of a generalised Pareto distribution (Zhang & Stephens 2009).

    Args:
        excess: sorted values above the cutoff.
    """
    number = len(excess)
    size = 30 + int(math.sqrt(number))
    # A grid of rates b = -k / scale, weighted by the profile likelihood at each.
    rates = 1 / excess[-1] + (1 - np.sqrt(size / (np.arange(size) + 0.5))) / (3 * _quartile(excess))
    shapes = np.mean(np.log1p(-rates[:, None] * excess), 1)
    likelihood = number * (np.log(-rates / shapes) - shapes - 1)
    weights = np.exp(likelihood - np.logaddexp.reduce(likelihood))
    rate = weights @ rates
    shape = np.mean(np.log1p(-rate * excess))
    # A prior of ten values at k = 0.5 (Vehtari et al. 2024, Appendix G).
    return float((number * shape + 10 * 0.5) / (number + 10)), float(-shape / rate)


class MomentGaps(NamedTuple):
    """The largest differences between moments of q and moments of its reweighted draws.

    Attributes:
        mean: |difference of means| over the reweighted standard deviation.
        sd: |ratio of standard deviations - 1|.
        mean_stderr: standard error of `mean`.
        sd_stderr: standard error of `sd`.
        num: number of quantities that were compared.
        tail: k-hat of the squares of the quantity with the heaviest tails under the posterior. From 0.5 on,
            the standard error of `sd` does not hold.
        tail_stderr: standard error of `tail`.
        typical_tail: median k-hat of the squares of several quantities, if there are more than `MANY_TAILS`.
        typical_tail_stderr: standard error of one such k-hat.
    """

    mean: float
    sd: float
    mean_stderr: float
    sd_stderr: float
    num: int
    tail: float = -math.inf
    tail_stderr: float = 0.0
    typical_tail: float = -math.inf
    typical_tail_stderr: float = 0.0

    def is_chance(self, gap: float, stderr: float) -> bool:
        """Whether the largest of `num` gaps may be chance, at the 1 % level with Bonferroni's correction."""
        return gap <= _threshold(self.num) * stderr  # a NaN is no chance

    def has_tail(self, limit: float, margin: float = 0.0) -> bool:
        """Whether a tail comes as near to the limit as the margin, and not by chance.

        Weights alone give all squares some k-hat, in a thousand dimensions a large one, and the largest of so
        many noisy ones exceeds most limits. So of many tails the heaviest must stand out, at the 1 % level with
        Bonferroni's correction for `NUM_TAILS`, or the typical one must reach the limit.
        """
        most = self.typical_tail + _threshold(NUM_TAILS) * self.typical_tail_stderr
        return not self.tail + margin < limit and not (self.tail < most and self.typical_tail < limit)


def moment_gaps(
    values: Float[Array | np.ndarray, "S K"],
    log_weights: Float[Array | np.ndarray, "S"],
    own: Float[Array | np.ndarray, "S"] | None = None,
) -> MomentGaps:
    """Compares moments of K quantities under q and under Pareto-smoothed weights of p.

    If k-hat is good, the reweighted moments match the posterior up to their standard errors. The gaps then show
    the cost of using q in place of the posterior. Their standard errors come from the delta method and account
    for the pairing: both moments use the same draws.

    Args:
        values: the quantities at draws from q, or from another distribution r.
        log_weights: log p/q (or p/r) of the same draws, up to a constant.
        own: log q/r, for draws of another distribution.
    """
    draws, weights = np.asarray(values, np.float64), np.exp(smoothed_weights(log_weights)[0])
    ours = np.full(len(weights), 1 / len(weights)) if own is None else _normalised(own)
    if not all(np.all(np.isfinite(x)) for x in (draws, weights, ours)):
        return MomentGaps(math.nan, math.nan, math.nan, math.nan, draws.shape[1])
    # Constants, such as the zeros of a triangular matrix, have no moments to compare.
    draws = draws[:, np.std(draws, 0) > 8 * np.finfo(np.asarray(values).dtype).eps * np.max(np.abs(draws), 0)]
    if not draws.shape[1]:
        return MomentGaps(0.0, 0.0, 0.0, 0.0, 0)
    mean = weights @ draws
    # In units of the reweighted moments, the posterior has mean 0 and variance 1, and q has `means` and
    # 1 + `squares` - `means`².
    spread = np.sqrt(weights @ (draws - mean) ** 2)
    if not np.all(spread > 0):  # all weight on one draw
        return MomentGaps(math.inf, math.inf, math.nan, math.nan, draws.shape[1])
    scaled = (draws - mean) / spread
    square = scaled**2 - 1
    theirs, ours = weights[:, None], ours[:, None]
    means, squares = np.sum((ours - theirs) * scaled, 0), np.sum(ours * square, 0)
    # Rounding may take a variance of almost zero below zero.
    ratios = np.sqrt(np.maximum(1 + squares - means**2, 0.0))
    # The same draws give both moments, so each draw contributes one term to their difference. The last parts
    # are the derivatives with respect to the scale, which is estimated too.
    mean_terms = ours * (scaled - means) - theirs * (scaled + 0.5 * means * square)
    square_terms = ours * (square - squares) - (1 + squares) * theirs * square
    shift, shift_error = worst_gap(np.abs(means), _stderr(mean_terms))
    # d√r = dr / 2 near r = 1; the part of `means`² is of second order.
    change, change_error = worst_gap(np.abs(ratios - 1), 0.5 * _stderr(square_terms))
    tail, typical = _tails_of_squares(scaled, log_weights)
    tails = tail, _k_stderr(tail, len(weights)), typical, _k_stderr(typical, len(weights))
    return MomentGaps(shift, change, shift_error, change_error, draws.shape[1], *tails)


def _tails_of_squares(scaled: np.ndarray, log_weights: Float[Array | np.ndarray, "S"]) -> tuple[float, float]:
    """Returns the largest k-hat of weighted squares over the columns of `scaled`, and a typical one of many.

    Few columns are looked at: those where a single draw has the largest share of the variance. Of many columns
    some have such a draw by its weight alone, so several draws must have the share.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.asarray(log_weights, np.float64)[:, None] + 2 * np.log(np.abs(scaled))
        logs = logs - np.logaddexp.reduce(logs, 0)
    number, dim = logs.shape
    is_many = dim > MANY_TAILS
    rest = number - min(number, NUM_LARGEST if is_many else 1)
    shares = np.sum(np.exp(np.partition(logs, rest, 0)[rest:]), 0)
    largest = max(_tail_of(column) for column in logs.T[np.argsort(-shares)[:NUM_TAILS]])
    if not is_many:
        return largest, -math.inf
    others = logs.T[np.linspace(0, dim - 1, NUM_TYPICAL).astype(int)]
    return largest, float(np.median([_tail_of(column) for column in others]))


def _tail_of(log_shares: np.ndarray) -> float:
    # A draw in the middle, or one without weight, has no part in the tail.
    k = pareto_k(np.maximum(log_shares, -700.0))
    # Ties, as of a variable with two values, have no k-hat and no tail. A draw with half of the sum has one.
    return k if math.isfinite(k) else math.copysign(math.inf, np.max(log_shares) - math.log(0.5))


def _normalised(log_weights: Float[Array | np.ndarray, "S"]) -> np.ndarray:
    logs = np.asarray(log_weights, np.float64)
    return np.exp(logs - np.logaddexp.reduce(logs))


def _stderr(terms: np.ndarray) -> np.ndarray:
    """Returns the standard error of the sum of independent terms, for each column."""
    return np.std(terms, 0) * np.sqrt(len(terms))


def worst_gap(gaps: np.ndarray, errors: np.ndarray) -> tuple[float, float]:
    """Returns the largest gap beyond chance, or the largest of all if none is, with its standard error."""
    certain = np.where(gaps > _threshold(len(gaps)) * errors, gaps, 0.0)
    place = int(np.argmax(certain if certain.any() else gaps))
    return float(gaps[place]), float(errors[place])


def _threshold(num: int) -> float:
    """Returns the two-sided normal quantile at the 1 % level, shared among `num` comparisons."""
    return statistics.NormalDist().inv_cdf(1 - 0.005 / max(num, 1))
