"""Turns the numbers of a check into findings: what is wrong, how bad it is, and what to change."""

import dataclasses
import math
from collections.abc import Iterator
from typing import NamedTuple

from uivi._types import Status
from uivi.evaluation.check import Check, Verdict, k_hat
from uivi.evaluation.history import CLOSE, History, last, recent_gain
from uivi.evaluation.importance import RELIABLE_K, MomentGaps, Weights

# Comparisons with these limits are written so that NaN counts as a finding: `not x < limit`.

GOOD_RECOVERED, FAIR_RECOVERED = 0.8, 0.5
"""Share of the gradient of I(z;ε) that a good reverse sampler recovers, and the least that is usable."""
MOST_STEPS = 4.0
"""Largest mean number of steps until coupled chains meet. It is little more than 2 where proposals are good."""
LEAST_MOVED = 0.5
"""Least share of weight that leaves the start of coupled chains. Below it most proposals miss."""
GOOD_DEPENDENCE = 0.3
"""Largest dependence of a good reverse sampler on its start."""
SMALL_NATS, LARGE_NATS = 0.1, 1.0
"""Differences of ELBOs below the first do not matter; from the second on, the fit is bad."""
GOOD_ERROR = 0.05
"""Largest error of a good fit: of a mean in sds, of an sd relative. Half the 10 % that users expect, since
weights miss tails that q never samples."""
ENOUGH_ERROR = 0.035
"""Largest error with which a fit in progress may end. Below that of a good fit, so that the verdict, which has
other draws, agrees."""
SURE_K, HOPELESS_K = 0.5, 1.0
"""From the first k-hat to the second, chance may put a first look on the wrong side of the limit."""
CLOSE_K = 0.6
"""Largest k-hat with which a fit in progress may end at once. Below that of a good fit, as for errors."""
CLOSE_NATS, CLOSE_NATS_PER_DIM = 0.01, 1e-3
"""KL divergence from the posterior below which little is left to gain, and the same for each dimension. It is
less than half of what 5 % errors of all standard deviations cost."""
NEAR_ERROR = 0.1
"""Largest error of a fit in progress from which another round can be expected to make a good one."""
CLEAR_ERROR = 0.2
"""An error from here on is clear at the first look, unless it may be chance."""
FEWEST = 10
"""Least effective sample size of importance weights. With less, a few draws have all the weight."""
ROUGH_ERROR = 0.1
"""Standard error of a moment's error from which nothing is known about that moment."""
CARE_NATS, CARE_NATS_PER_DIM, BAD_NATS, BAD_NATS_PER_DIM = 0.5, 0.0025, 1.0, 0.01
"""KL divergences from the posterior that need care and that are bad, and the same for each dimension."""
MOST_UNSURE = 0.005
"""Largest share of draws whose log q is not known to a nat. They are in tails, where an error hides."""
HEAVY_TAIL = 0.7
"""K-hat of squares from which no number of draws gives a standard deviation (Vehtari et al. 2024). It must be
smaller by its standard error: draws of q do not reach the far tail, and a prior pulls it to 0.5."""
CARE_UNSEEN, BAD_UNSEEN = 0.02, 0.05
"""Probabilities that one more path meets a new mode, from which a search was too short."""
COARSE_NATS, COARSEST_NATS = 0.1, 1.0
"""Steps of log p in floating point that need care and that are bad."""
FEWEST_STEPS = 30
"""Least number of steps of floating point in a standard deviation of z."""


class Finding(NamedTuple):
    """One thing that is wrong with a fit.

    Attributes:
        verdict: what it means for the draws.
        words: what was found and what to change.
    """

    verdict: Verdict
    words: str


def with_verdict(check: Check, history: History) -> Check:
    """Returns the check with its verdict and advice filled in."""
    found = [
        *_status(check),
        *_mixing(check),
        *_bracket(check),
        *_precision(check),
        *_weights(check),
        *_coverage(check),
        *_thorough(check),
        *_progress(history),
        *_skipped(check, history),
    ]
    worst = max((finding.verdict for finding in found), default=Verdict.GOOD)
    return dataclasses.replace(check, verdict=worst, advice=tuple(finding.words for finding in found))


def falls_short(weights: Weights, gaps: MomentGaps) -> bool:
    """Whether a fit in progress would not be called good by its importance weights."""
    return not weights.is_reliable or bool(_errors(gaps, ENOUGH_ERROR))


def is_near(weights: Weights, gaps: MomentGaps) -> bool:
    """Whether a fit in progress that falls short is near a good one: reliable weights, small errors.

    The ELBO hardly notices such errors: a standard deviation that is off by 5 % costs 0.0025 nats.
    """
    return weights.is_reliable and gaps.mean < NEAR_ERROR and gaps.sd < NEAR_ERROR


def is_close(weights: Weights, gaps: MomentGaps, dim: int) -> bool:
    """Whether a fit in progress may end without another round: it is good, and that is certain."""
    errors = (gaps.mean + gaps.mean_stderr, gaps.sd + gaps.sd_stderr)
    is_certain = all(error < GOOD_ERROR for error in errors)
    is_near_in_nats = weights.kl < max(CLOSE_NATS, CLOSE_NATS_PER_DIM * dim)
    is_light = not gaps.tail + gaps.tail_stderr >= HEAVY_TAIL
    return weights.pareto_k < CLOSE_K and is_near_in_nats and is_certain and is_light


def is_doubtful(pareto_k: float, gaps: MomentGaps, limit: float = GOOD_ERROR) -> bool:
    """Whether a first look leaves doubt: k-hat may be too large or a moment off, but neither is clear."""
    pairs = ((gaps.mean, gaps.mean_stderr), (gaps.sd, gaps.sd_stderr))
    if pareto_k < SURE_K:
        is_clear = any(gap >= CLEAR_ERROR and not gaps.is_chance(gap, stderr) for gap, stderr in pairs)
        return not is_clear and any(gap > limit for gap, _ in pairs)
    return pareto_k < HOPELESS_K


def leaves_doubt(pareto_k: float, gaps: MomentGaps) -> bool:
    """Whether a first look does not suffice for a verdict: `is_doubtful`, or a tail that may be too heavy."""
    may_be_heavy = gaps.tail >= HEAVY_TAIL - gaps.tail_stderr and not gaps.has_tail(HEAVY_TAIL)
    return is_doubtful(pareto_k, gaps) or (pareto_k < SURE_K and may_be_heavy)


def _status(check: Check) -> Iterator[Finding]:
    if check.status in (Status.NONFINITE, Status.DIVERGED):
        yield Finding(
            Verdict.BAD,
            "the fit broke down: lower the learning rate, start nearer to the mode (init=), or bound the log "
            "density where it overflows",
        )
    if check.status is Status.INTERRUPTED:
        yield Finding(
            Verdict.BAD, "the fit was interrupted: if it had a checkpoint=, the same call continues it"
        )


def _mixing(check: Check) -> Iterator[Finding]:
    mixing = check.mixing
    if mixing is None:
        return
    # Where ε says little about z, the share is a ratio of small numbers, and noisy.
    most = mixing.recovered + 3 * mixing.recovered_stderr
    if not (most > GOOD_RECOVERED and mixing.dependence < GOOD_DEPENDENCE):
        yield Finding(
            Verdict.CARE if most > FAIR_RECOVERED else Verdict.BAD,
            "the reverse sampler stays near its start, so the entropy gradient is biased and q too narrow: "
            "use uivi.ISIR with more proposals or rounds, or compose it with uivi.HMC",
        )
    # Other samplers have no such number, and NaN is right for them.
    if mixing.steps > MOST_STEPS or (mixing.steps > 0 and mixing.moved < LEAST_MOVED):
        yield Finding(
            Verdict.CARE,
            f"coupled chains take {mixing.steps:.1f} steps to meet, and {100 * mixing.moved:.0f} % of the "
            "weight leaves their start, so the gradient is noisy: proposals are too narrow or too few; raise "
            "num_proposals, or inflation and prior_share of uivi.reverse.Learned",
        )


def _bracket(check: Check) -> Iterator[Finding]:
    width = check.upper.mean - check.lower.mean
    # Three standard errors: noise of the two means must not pass for a wide bracket.
    if not width < SMALL_NATS + 3 * (check.lower.stderr + check.upper.stderr):
        yield Finding(
            Verdict.CARE if width < LARGE_NATS else Verdict.BAD,
            f"the ELBO is only known to {width:.2f} nats: q's components are narrow and hard to find from z",
        )


def _precision(check: Check) -> Iterator[Finding]:
    if check.precision is None:
        return
    nats, steps = check.precision
    if nats >= COARSE_NATS:
        yield Finding(
            Verdict.CARE if nats < COARSEST_NATS else Verdict.BAD,
            f"log p is so large that floating point resolves it to {nats:.2g} nats only: leave constants out "
            "of the log density, or compute in double precision (JAX_ENABLE_X64=1)",
        )
    if steps < FEWEST_STEPS:
        yield Finding(
            Verdict.BAD,
            f"a standard deviation of z spans {steps:.0f} steps of floating point only: centre and scale that "
            "variable, or compute in double precision (JAX_ENABLE_X64=1)",
        )


def _weights(check: Check) -> Iterator[Finding]:
    weights, gaps = check.weights, check.gaps
    if weights.finite != 1:
        yield Finding(
            Verdict.BAD,
            f"at {100 * (1 - weights.finite):.2g} % of q's draws the log density is not finite: transform z to "
            "an unconstrained space, or guard the log density",
        )
    elif not weights.ess * weights.num_draws >= FEWEST:
        yield Finding(
            Verdict.BAD,
            f"{max(weights.ess * weights.num_draws, 1.0):.0f} of {weights.num_draws} draws have all the "
            "importance weight: q is far from the posterior; raise num_steps, or use the default family and "
            "start",
        )
    # The moments of reweighted draws mean nothing unless the weights are reliable.
    elif not weights.is_reliable:
        yield Finding(
            Verdict.BAD,
            f"k-hat {k_hat(weights)} is above {RELIABLE_K}: q differs "
            "from the posterior, if only in tails; a longer fit, a larger noise_dim, a wider net or another "
            "parameterisation may help",
        )
    elif gaps and (errors := _errors(gaps)):
        yield Finding(
            Verdict.BAD,
            f"importance weights show that {' and '.join(errors)}: use sample(..., reweight=True), or raise "
            "num_steps",
        )
    elif gaps and not max(gaps.mean_stderr, gaps.sd_stderr) < ROUGH_ERROR:
        yield Finding(
            Verdict.CARE,
            f"the error of a moment is only known to ± {max(gaps.mean_stderr, gaps.sd_stderr):.2f}: rare draws "
            "decide it; compare with a few long MCMC chains started at draws of q",
        )
    elif gaps and gaps.has_tail(HEAVY_TAIL, gaps.tail_stderr):
        yield Finding(
            Verdict.CARE,
            f"the tails of a variable are so heavy (k-hat {gaps.tail:.2f} ± {gaps.tail_stderr:.2f} of its "
            "square) that its standard deviation cannot be checked: use its quantiles",
        )
    # Two standard errors: a few draws more or less are chance.
    chance = 2 * math.sqrt(weights.unsure / weights.num_draws)
    if weights.finite == 1 and not weights.unsure - chance <= MOST_UNSURE:
        yield Finding(
            Verdict.CARE,
            f"log q is not known to a nat at {100 * weights.unsure:.2g} % of the draws, so weights may hide an "
            "error in the tails: use a method that learns a proposal of ε, such as uivi.UIVI()",
        )
    yield from _divergence(weights.kl, check.dim)


def _divergence(kl: float, dim: int) -> Iterator[Finding]:
    # Bounded weights hide a large share of draws without mass from k-hat, and symmetry hides it from moments.
    if not kl < max(CARE_NATS, CARE_NATS_PER_DIM * dim):
        yield Finding(
            Verdict.CARE if kl < max(BAD_NATS, BAD_NATS_PER_DIM * dim) else Verdict.BAD,
            f"the ELBO is {kl:.2f} nats below the log evidence by the same weights: q has mass where the "
            "posterior has little; raise num_steps, or widen the family",
        )


def _coverage(check: Check) -> Iterator[Finding]:
    coverage = check.coverage
    if coverage and coverage.unseen >= CARE_UNSEEN:
        yield Finding(
            Verdict.CARE if coverage.unseen < BAD_UNSEEN else Verdict.BAD,
            f"one more path of the search would meet a new mode with a probability of {coverage.unseen:.2f}: "
            f"there are more than the {coverage.num_regions} that it has met",
        )
    if not (coverage and coverage.missed):
        return
    # Steps of log p would pass for modes.
    if check.precision and check.precision.nats >= COARSE_NATS:
        return
    share = f"{100 * coverage.missed:.0f} % of the posterior"
    if coverage.num_regions > 1:
        yield Finding(
            Verdict.BAD,
            f"the search for a start met another mode that q misses, with {share} ({coverage.num_regions} "
            f"regions, up to {coverage.distance:.0f} standard deviations apart): fit each mode on its own with "
            "init=, or use a sampler for several modes",
        )
    else:
        yield Finding(
            Verdict.BAD,
            f"the search for a start met a narrow region that q misses, with {share}: use a larger noise_dim "
            "or a wider net, or give the peak a variable of its own",
        )


def _thorough(check: Check) -> Iterator[Finding]:
    found = check.thorough
    if found is None:
        return
    if found.missed:
        yield Finding(
            Verdict.BAD,
            f"the thorough search met a part of the posterior that q misses, about {100 * found.missed:.0f} % "
            f"of it, {found.distance:.0f} standard deviations from the mean of q: fit it on its own with "
            "init=, or use a sampler for several modes",
        )
    if not found.num_particles:
        yield Finding(
            Verdict.CARE,
            "the thorough search did not reach the posterior: its log density is too hard for tempering, so "
            "mass far from q would stay unseen",
        )


def _errors(gaps: MomentGaps, limit: float = GOOD_ERROR) -> list[str]:
    """Returns the moments of q that are off by more than the limit, beyond chance, or that are unknown."""
    errors = []
    if not gaps.mean <= limit and not gaps.is_chance(gaps.mean, gaps.mean_stderr):
        errors.append(f"a mean of q is off by {gaps.mean:.2f} standard deviations")
    if not gaps.sd <= limit and not gaps.is_chance(gaps.sd, gaps.sd_stderr):
        errors.append(f"a standard deviation of q is off by {100 * gaps.sd:.0f} %")
    return errors


def _progress(history: History) -> Iterator[Finding]:
    # A fit that ended because it was close to the posterior has nothing left to rise to.
    if last(history, CLOSE):
        return
    gain, period = recent_gain(history)
    if gain > SMALL_NATS:
        yield Finding(
            Verdict.CARE if gain < LARGE_NATS else Verdict.BAD,
            f"the bound still rose by {gain:.2f} nats over {period}: raise num_steps",
        )


def _skipped(check: Check, history: History) -> Iterator[Finding]:
    updates = max(history.get("step") or [0])
    # One in a hundred does no harm; of a short fit, neither do five.
    if check.skipped > max(5, 0.01 * updates):
        yield Finding(
            Verdict.CARE,
            f"{check.skipped:.0f} of {updates} updates had a gradient that was not finite: guard the log "
            "density",
        )
