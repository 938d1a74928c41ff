"""Is the fit to be trusted? Mixing of the reverse sampler and tails of the importance weights."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from arviz_stats.base.array import array_stats
from jaxtyping import Array, Float

from uivi._types import Draw, Key, ReverseDraws
from uivi.estimators.score import score
from uivi.evaluation.bounds import importance_weights
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.base import AbstractReverseSampler, jump, sample_reverse


class Mixing(NamedTuple):
    """How far ε′ gets from the ε it starts at.

    Attributes:
        acceptance: mean Metropolis acceptance (NaN without such moves).
        moved: share of i-SIR weight that leaves the start (NaN without i-SIR).
        jump: squared distance of ε′ from ε over that of independent draws of q(ε).
        dependence: correlation of ε and ε′ given z: 0 independent, 1 stuck.
        recovered: share of the gradient of I(z;ε) that the score recovers: 1 unbiased, 0 the gradient
            of H(z|ε) alone.
    """

    acceptance: float
    moved: float
    jump: float
    dependence: float
    recovered: float


def mixing(
    key: Key,
    sampler: AbstractReverseSampler,
    state: Any,
    family: SemiImplicit,
    *,
    num_draws: int = 512,
    num_reference: int = 1024,
) -> Mixing:
    """Run the sampler once on fresh draws and compare with self-normalised importance sampling.

    Args:
        key: random key.
        sampler: the reverse sampler.
        state: as the fit left it.
        family: without context.
        num_draws: how many z.
        num_reference: importance draws per z, from the sampler's own proposal, the generating ε among them.
    """
    values = _mixing(key, sampler, state, family, num_draws, num_reference)
    return Mixing(*(float(v) for v in values))


@eqx.filter_jit
def _mixing(key: Key, sampler, state, family, num_draws: int, num_reference: int):
    draw_key, reverse_key, reference_key = jax.random.split(key, 3)
    draws = jax.vmap(lambda k: family.sample(k))(jax.random.split(draw_key, num_draws))
    reverse = sample_reverse(reverse_key, sampler, family, draws, None, state)
    proposal = sampler.fitted_proposal(state)

    def reference(args):
        key, draw, used = args
        eps, fresh, own = importance_weights(key, family, draw, num_reference, proposal)
        all_eps = jnp.concatenate([eps, draw.eps[None]])
        weights = jax.nn.log_softmax(jnp.concatenate([fresh, own[None]]))
        exact = ReverseDraws(all_eps, weights, draw.eps)
        start = ReverseDraws(draw.eps[None], jnp.zeros_like(own)[None], draw.eps)
        return _compare(family, draw, used, exact, start)

    keys = jax.random.split(reference_key, num_draws)
    parts = jax.lax.map(reference, (keys, draws, reverse.draws), batch_size=max(1, 65_536 // num_reference))
    totals = jax.tree.map(lambda x: jnp.sum(x, 0), parts)
    jumps = jax.vmap(lambda d, r: jump(family, d, r))(draws, reverse.draws)
    return (
        jnp.mean(reverse.info.acceptance),
        jnp.mean(reverse.info.moved),
        jnp.mean(jumps),
        totals[0] / totals[1],
        totals[2] / totals[3],
    )


def _compare(
    family: SemiImplicit, draw: Draw, used: ReverseDraws, exact: ReverseDraws, start: ReverseDraws
) -> tuple[Array, Array, Array, Array]:
    """Sums for `dependence` and `recovered` at one z."""
    mean = jnp.exp(exact.log_weights) @ exact.eps
    here, there = draw.eps - mean, jnp.exp(used.log_weights) @ used.eps - mean
    score_used, score_exact, score_start = (score(family, draw.z, r) for r in (used, exact, start))
    gap = score_exact - score_start
    return here @ there, here @ here, (score_used - score_start) @ gap, gap @ gap


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
