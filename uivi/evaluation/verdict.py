"""The verdict on a fit, in numbers and in words."""

import dataclasses
import enum
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from uivi._types import Key, Status
from uivi.estimators.base import AbstractEstimator
from uivi.estimators.uivi import UIVI
from uivi.evaluation import bounds, importance, reverse_mixing
from uivi.evaluation.bounds import BoundValue
from uivi.evaluation.history import recent_gain, total
from uivi.evaluation.importance import MomentGaps
from uivi.evaluation.reverse_mixing import ReverseMixing
from uivi.families.base import AbstractFamily
from uivi.families.semi_implicit import SemiImplicit
from uivi.targets.base import AbstractTarget

NUM_DRAWS = 2_048
NUM_MIXING = 512
MOST_K = 0.7
"""k-hat up to which importance weights are reliable (Vehtari et al. 2024)."""
MORE = 4
"""Times as many draws compare the moments again where the first ones leave a doubt."""
MOST_OFF = 0.05
"""Error of a mean, in standard deviations, or of a standard deviation, in parts of it, of a good fit: half of
the tenth that users may expect, for tails where q has no draws escape the weights."""
FAR_OFF = 0.2
"""From here on there is no doubt, if it is not chance."""


class Verdict(enum.IntEnum):
    """May the draws be used? The worst of all findings."""

    GOOD = 0
    CARE = 1
    BAD = 2

    def __str__(self) -> str:
        """For people."""
        return ("good", "use with care", "do not use")[self]


@dataclasses.dataclass(frozen=True)
class Check:
    """Numbers and advice about one fit.

    Attributes:
        status: how the fit ended.
        lower: ELBO from below.
        upper: ELBO from above.
        mixing: of the reverse sampler, or None for a method without one.
        pareto_k_lower: k-hat of p/q with log q overestimated (the estimate of `lower`).
        pareto_k_upper: k-hat of p/q with log q underestimated (the estimate of `upper`).
        nonfinite: rejected proposals and densities that were not finite, over the fit.
        skipped: updates skipped because their gradient was not finite.
        gaps: between the moments of q and those of its draws reweighted to the posterior, of z or of a model's
            variables.
        verdict: whether to use the draws.
        advice: what was found and what to change, empty when all is well.
    """

    status: Status
    lower: BoundValue
    upper: BoundValue
    mixing: ReverseMixing | None
    pareto_k_lower: float
    pareto_k_upper: float
    nonfinite: float
    skipped: float
    gaps: MomentGaps | None = None
    verdict: Verdict = Verdict.GOOD
    advice: tuple[str, ...] = ()

    def __str__(self) -> str:
        """A table for people."""
        lines = [
            f"  verdict          {self.verdict}",
            f"  status           {self.status.value}",
            f"  ELBO             {self.lower.mean:.4f} ± {self.lower.stderr:.4f} (lower side)",
            f"                   {self.upper.mean:.4f} ± {self.upper.stderr:.4f} (upper side)",
        ]
        if self.mixing:
            m = self.mixing
            rows = [
                ("acceptance", m.acceptance, "of Metropolis moves"),
                ("moved", m.moved, "share of i-SIR weight that leaves the start"),
                ("jump", m.jump, "1 = as far as independent draws of q(ε)"),
                ("dependence", m.dependence, "of ε′ on ε given z; 0 is best"),
                ("recovered", m.recovered, "share of the gradient of I(z;ε); 1 is best"),
            ]
            known = [r for r in rows if not math.isnan(r[1])]
            lines += [f"  reverse {name:<9}{value:7.3f}  {what}" for name, value, what in known]
        lines += [
            f"  k-hat            {self.pareto_k_lower:.2f} (log q from above), "
            f"{self.pareto_k_upper:.2f} (log q from below)",
            f"  non-finite       {self.nonfinite:.0f} proposals rejected, {self.skipped:.0f} updates skipped",
        ]
        if self.gaps:
            g = self.gaps
            lines += [
                f"  mean off by      {g.mean:.3f} ± {g.mean_stderr:.3f} sd at worst, by its importance weights",
                f"  sd off by        {g.sd:.3f} ± {g.sd_stderr:.3f} of it at worst",
            ]
        return "\n".join(lines + [f"  advice           {a}" for a in self.advice or ("none",)])

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            **dataclasses.asdict(self),
            "status": self.status.name,
            "verdict": int(self.verdict),
            "lower": self.lower._asdict(),
            "upper": self.upper._asdict(),
            "mixing": self.mixing and self.mixing._asdict(),
            "gaps": self.gaps and self.gaps._asdict(),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Check":
        """The inverse of `to_json`."""
        parts = {
            "status": Status[value["status"]],
            "lower": BoundValue(**value["lower"]),
            "upper": BoundValue(**value["upper"]),
            "mixing": value["mixing"] and ReverseMixing(**value["mixing"]),
            "gaps": value.get("gaps") and MomentGaps(**value["gaps"]),
            "verdict": Verdict(value["verdict"]),
            "advice": tuple(value["advice"]),
        }
        return cls(**{**value, **parts})


def judge(
    key: Key,
    family: AbstractFamily,
    target: AbstractTarget,
    estimator: AbstractEstimator,
    est_state: PyTree,
    status: Status,
    history: dict[str, list[Any]],
    quantities: Callable[[Array], Array] = lambda z: z,
) -> Check:
    """Evaluate a fit: the same budget for every method, but for moments in doubt.

    `quantities` gives of draws of z what the moments are compared of, shape (S, K).
    """
    bound_key, mixing_key = jax.random.split(key)
    proposal = estimator.fitted_proposal(est_state)
    evaluate = lambda key: bounds.evaluate(key, family, target, NUM_DRAWS, NUM_MIXING, proposal)
    compare = lambda made: importance.moment_gaps(quantities(made.z), made.log_p - made.log_q_high)
    evaluated = evaluate(bound_key)
    lower, upper = bounds.bracket(evaluated)
    gaps, pareto_k = compare(evaluated), importance.pareto_k(evaluated.log_p - evaluated.log_q_high)
    if pareto_k < MOST_K and _is_doubtful(gaps):
        # Batches of one size: the program is compiled already.
        batches = [evaluate(key) for key in jax.random.split(jax.random.fold_in(bound_key, 1), MORE)]
        gaps = compare(jax.tree.map(lambda *arrays: jnp.concatenate(arrays), *batches))
    mixing = None
    if isinstance(estimator, UIVI) and isinstance(family, SemiImplicit):
        mixing = reverse_mixing.measure_mixing(mixing_key, estimator.sampler, est_state, family)
    found = Check(
        status=status,
        lower=lower,
        upper=upper,
        mixing=mixing,
        pareto_k_lower=pareto_k,
        pareto_k_upper=importance.pareto_k(evaluated.log_p - evaluated.log_q_low),
        nonfinite=total(history, "nonfinite"),
        skipped=float(sum(history.get("skipped", [0]))),
        gaps=gaps,
    )
    return with_verdict(found, history)


def with_verdict(found: Check, history: dict[str, list[Any]]) -> Check:
    """With its verdict and advice."""
    findings = _findings(found, history)
    worst = max((verdict for verdict, _ in findings), default=Verdict.GOOD)
    return dataclasses.replace(found, verdict=worst, advice=tuple(words for _, words in findings))


def _findings(found: Check, history: dict[str, list[Any]]) -> list[tuple[Verdict, str]]:
    findings = []

    def note(verdict: Verdict, words: str) -> None:
        findings.append((verdict, words))

    if found.status in (Status.NONFINITE, Status.DIVERGED):
        note(
            Verdict.BAD,
            "the fit broke down: lower the learning rate, start nearer to the mode (init=), or bound the log "
            "density where it overflows",
        )
    if found.status is Status.INTERRUPTED:
        note(Verdict.BAD, "not finished: call fit again with the same checkpoint= to go on")
    m = found.mixing
    if m and not (m.recovered > 0.8 and m.dependence < 0.3):
        note(
            Verdict.CARE if m.recovered > 0.5 else Verdict.BAD,
            "the reverse sampler stays near its start, so the entropy gradient is biased and q too narrow: "
            "use uivi.ISIR with more proposals or rounds, or compose it with uivi.HMC",
        )
    width = found.upper.mean - found.lower.mean
    if not width < 0.1 + 3 * (found.lower.stderr + found.upper.stderr):
        note(
            Verdict.CARE if width < 1 else Verdict.BAD,
            f"the ELBO is only known to {width:.2f} nats: q's components are narrow and hard to find from z",
        )
    if not found.pareto_k_lower < MOST_K:
        note(
            Verdict.BAD,
            f"k-hat {found.pareto_k_lower:.2f} is above {MOST_K}: q differs from the posterior, if only in "
            "tails; a longer fit, a larger noise_dim, a wider net or another parameterisation may help",
        )
    elif found.gaps and (off := _off(found.gaps)):
        note(
            Verdict.BAD,
            f"its importance weights say that {off}: take sample(..., reweight=True), or raise num_steps",
        )
    drift, when = recent_gain(history)
    if drift > 0.1:
        words = f"the bound still rose by {drift:.2f} nats over {when}: raise num_steps"
        note(Verdict.CARE if drift < 1 else Verdict.BAD, words)
    updates = max(history.get("step") or [0])
    if found.skipped > max(5, 0.01 * updates):
        words = f"{found.skipped:.0f} of {updates} updates had a gradient that was not finite"
        note(Verdict.CARE, f"{words}: guard the log density")
    return findings


def _is_doubtful(gaps: MomentGaps) -> bool:
    """Whether a moment may be off by too much, and none is known to be far off."""
    pairs = ((gaps.mean, gaps.mean_stderr), (gaps.sd, gaps.sd_stderr))
    is_far = any(gap >= FAR_OFF and not gaps.is_chance(gap, stderr) for gap, stderr in pairs)
    return not is_far and any(gap > MOST_OFF for gap, _ in pairs)


def _off(gaps: MomentGaps) -> str:
    """Which moment of q is off by too much, beyond chance; empty if none is."""
    found = []
    if gaps.mean > MOST_OFF and not gaps.is_chance(gaps.mean, gaps.mean_stderr):
        found.append(f"a mean of q is off by {gaps.mean:.2f} standard deviations")
    if gaps.sd > MOST_OFF and not gaps.is_chance(gaps.sd, gaps.sd_stderr):
        found.append(f"a standard deviation of q is off by {100 * gaps.sd:.0f} %")
    return " and ".join(found)
