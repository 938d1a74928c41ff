"""The result of checking a fit: numbers, a verdict and advice, as text and as JSON."""

import dataclasses
import enum
import math
from typing import Any

from uivi._types import Status
from uivi.evaluation.bounds import BoundValue
from uivi.evaluation.coverage import Coverage
from uivi.evaluation.importance import MomentGaps, Weights
from uivi.evaluation.precision import Precision
from uivi.evaluation.reverse_mixing import ReverseMixing
from uivi.evaluation.thorough import Thorough

LABEL_WIDTH = 20
"""Width of the labels in the text of a check."""


class Verdict(enum.IntEnum):
    """Whether the draws may be used. The verdict on a fit is the worst of all findings."""

    GOOD = 0
    CARE = 1
    BAD = 2

    def __str__(self) -> str:
        """Returns human-readable words."""
        return ("good", "use with care", "do not use")[self]


@dataclasses.dataclass(frozen=True)
class Check:
    """Numbers and advice about one fit.

    Attributes:
        status: how the fit ended.
        dim: size of z, D.
        lower: ELBO from below.
        upper: ELBO from above.
        mixing: mixing of the reverse sampler, or None for a method without one.
        weights: what the importance weights p/q tell, with log q from above (the estimate behind `lower`).
        nonfinite: number of proposals and densities during the fit that were not finite and were rejected.
        skipped: number of updates skipped because their gradient was not finite.
        gaps: differences between moments of q and of its draws reweighted to the posterior. They compare the
            variables of a model, or z if there is no model.
        precision: how finely floating point resolves log p and z; None if unknown.
        coverage: what the search for a start has met; None if there was no search.
        thorough: what a search from far-off points has found; None unless it was asked for.
        verdict: whether to use the draws.
        advice: what was found and what to change. It is empty if all is well.
    """

    status: Status
    dim: int
    lower: BoundValue
    upper: BoundValue
    mixing: ReverseMixing | None
    weights: Weights
    nonfinite: float
    skipped: float
    gaps: MomentGaps | None = None
    precision: Precision | None = None
    coverage: Coverage | None = None
    thorough: Thorough | None = None
    verdict: Verdict = Verdict.GOOD
    advice: tuple[str, ...] = ()

    @property
    def pareto_k(self) -> float:
        """K-hat of the importance weights, the number behind the verdict, reweighted draws and ArviZ."""
        return self.weights.pareto_k

    def __str__(self) -> str:
        """Returns a human-readable table."""
        advice = [labelled("advice", words) for words in self.advice or ("none",)]
        return "\n".join([labelled("verdict", str(self.verdict)), *number_lines(self), *advice])

    def to_json(self) -> dict[str, Any]:
        """Returns plain values that JSON can hold."""
        # `asdict` keeps named tuples, which JSON would write as lists without their names.
        parts = {name: value and value._asdict() for name in _PARTS for value in [getattr(self, name)]}
        numbers = {"status": self.status.name, "verdict": int(self.verdict)}
        return {**dataclasses.asdict(self), **parts, **numbers}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Check":
        """Reads the values that `to_json` returned."""
        # Older files do not have all of them.
        parts = {name: value[name] and kind(**value[name]) for name, kind in _PARTS.items() if name in value}
        others = {
            "status": Status[value["status"]],
            "verdict": Verdict(value["verdict"]),
            "advice": tuple(value["advice"]),
        }
        return cls(**{**value, **parts, **others})


_PARTS = {
    "lower": BoundValue,
    "upper": BoundValue,
    "mixing": ReverseMixing,
    "weights": Weights,
    "gaps": MomentGaps,
    "precision": Precision,
    "coverage": Coverage,
    "thorough": Thorough,
}
"""The fields of a check that have fields of their own."""


def labelled(label: str, words: str) -> str:
    """Returns one line of the text of a check. The words of all lines begin in one column."""
    return f"  {label:<{LABEL_WIDTH}}{words}"


def number_lines(check: Check) -> list[str]:
    """Returns the lines between verdict and advice in the text of a check."""
    lower, upper = (f"{x.mean:.4f} ± {x.stderr:.4f}" for x in (check.lower, check.upper))
    weights = check.weights
    rows = [
        ("status", check.status.value),
        ("ELBO", f"{lower} (lower side)"),
        ("", f"{upper} (upper side)"),
        *_mixing_rows(check.mixing),
        ("k-hat", f"{k_hat(weights)} (from {weights.num_draws:,} draws)"),
        ("weights", f"effective sample size {100 * weights.ess:.0f} %, KL(q‖p) {weights.kl:.3f} nats"),
        ("non-finite", f"{check.nonfinite:.0f} proposals rejected, {check.skipped:.0f} updates skipped"),
        *_gap_rows(check.gaps),
        *_coverage_rows(check.coverage),
        *_thorough_rows(check.thorough),
    ]
    return [labelled(label, words) for label, words in rows]


def k_hat(weights: Weights) -> str:
    """Returns k-hat in words, with its standard error if it is finite."""
    k, stderr = weights.pareto_k, weights.pareto_k_stderr
    return f"{k:.2f} ± {stderr:.2f}" if math.isfinite(k) else f"{k}"


def _mixing_rows(mixing: ReverseMixing | None) -> list[tuple[str, str]]:
    if mixing is None:
        return []
    rows = [
        ("acceptance", mixing.acceptance, "of Metropolis moves"),
        ("moved", mixing.moved, "share of i-SIR weight that leaves the start"),
        ("steps", mixing.steps, "until coupled chains meet; 2 is best"),
        ("jump", mixing.jump, "1 = as far as independent draws of q(ε)"),
        ("dependence", mixing.dependence, "of ε′ on ε given z; 0 is best"),
        ("recovered", mixing.recovered, "share of the gradient of I(z;ε); 1 is best"),
    ]
    # NaN marks a number that this sampler does not have.
    known = [row for row in rows if not math.isnan(row[1])]
    return [(f"reverse {name}", f"{value:.3f}  {meaning}") for name, value, meaning in known]


def _gap_rows(gaps: MomentGaps | None) -> list[tuple[str, str]]:
    if gaps is None:
        return []
    mean, sd = f"{gaps.mean:.3f} ± {gaps.mean_stderr:.3f} sd", f"{gaps.sd:.3f} ± {gaps.sd_stderr:.3f}"
    rows = [
        ("mean off by", f"{mean} (largest error, by importance weights)"),
        ("sd off by", f"{sd} (largest relative error)"),
    ]
    if math.isfinite(gaps.tail):
        tail = f"{gaps.tail:.2f} ± {gaps.tail_stderr:.2f}"
        rows.append(("heaviest tail", f"{tail} (k-hat of the squares of a variable)"))
    return rows


def _coverage_rows(found: Coverage | None) -> list[tuple[str, str]]:
    if found is None:
        return []
    regions = f"in {found.num_regions} regions up to {found.distance:.0f} sds apart"
    where = regions if found.num_regions > 1 else "in one region"
    begun = f" from up to {found.reach:.0f} sds away" if found.reach else ""
    return [("search", f"{found.num_paths} paths{begun} ended {where}")]


def _thorough_rows(found: Thorough | None) -> list[tuple[str, str]]:
    if found is None:
        return []
    lost = f", {found.num_lost:,} of them in vain" if found.num_lost else ""
    number = found.num_particles + found.num_lost
    prior = ", and from the prior" if found.from_prior else ""
    return [("thorough search", f"{number:,} particles from up to {found.reach:.0f} sds away{prior}{lost}")]
