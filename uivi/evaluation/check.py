"""The result of checking a fit: numbers, a verdict and advice, as text and as JSON."""

import dataclasses
import enum
import math
from typing import Any

from uivi._types import Status
from uivi.evaluation.bounds import BoundValue
from uivi.evaluation.importance import MomentGaps
from uivi.evaluation.reverse_mixing import ReverseMixing


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
        lower: ELBO from below.
        upper: ELBO from above.
        mixing: mixing of the reverse sampler, or None for a method without one.
        pareto_k_lower: k-hat of p/q with log q overestimated (the estimate behind `lower`).
        pareto_k_upper: k-hat of p/q with log q underestimated (the estimate behind `upper`).
        nonfinite: number of proposals and densities during the fit that were not finite and were rejected.
        skipped: number of updates skipped because their gradient was not finite.
        gaps: differences between moments of q and of its draws reweighted to the posterior. They compare the
            variables of a model, or z if there is no model.
        verdict: whether to use the draws.
        advice: what was found and what to change. It is empty if all is well.
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
        """Returns a human-readable table."""
        lines = [
            f"  verdict          {self.verdict}",
            f"  status           {self.status.value}",
            f"  ELBO             {self.lower.mean:.4f} ± {self.lower.stderr:.4f} (lower side)",
            f"                   {self.upper.mean:.4f} ± {self.upper.stderr:.4f} (upper side)",
            *_mixing_lines(self.mixing),
            f"  k-hat            {self.pareto_k_lower:.2f} (log q from above), "
            f"{self.pareto_k_upper:.2f} (log q from below)",
            f"  non-finite       {self.nonfinite:.0f} proposals rejected, {self.skipped:.0f} updates skipped",
            *_gap_lines(self.gaps),
            *(f"  advice           {words}" for words in self.advice or ("none",)),
        ]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Returns plain values that JSON can hold."""
        return {
            **dataclasses.asdict(self),
            "status": self.status.name,
            "verdict": int(self.verdict),
            # `asdict` keeps named tuples, which JSON would write as lists without their names.
            "lower": self.lower._asdict(),
            "upper": self.upper._asdict(),
            "mixing": self.mixing and self.mixing._asdict(),
            "gaps": self.gaps and self.gaps._asdict(),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Check":
        """Reads the values that `to_json` returned."""
        parts = {
            "status": Status[value["status"]],
            "lower": BoundValue(**value["lower"]),
            "upper": BoundValue(**value["upper"]),
            "mixing": value["mixing"] and ReverseMixing(**value["mixing"]),
            # Files of early versions have no gaps.
            "gaps": value.get("gaps") and MomentGaps(**value["gaps"]),
            "verdict": Verdict(value["verdict"]),
            "advice": tuple(value["advice"]),
        }
        return cls(**{**value, **parts})


def _mixing_lines(mixing: ReverseMixing | None) -> list[str]:
    if mixing is None:
        return []
    rows = [
        ("acceptance", mixing.acceptance, "of Metropolis moves"),
        ("moved", mixing.moved, "share of i-SIR weight that leaves the start"),
        ("jump", mixing.jump, "1 = as far as independent draws of q(ε)"),
        ("dependence", mixing.dependence, "of ε′ on ε given z; 0 is best"),
        ("recovered", mixing.recovered, "share of the gradient of I(z;ε); 1 is best"),
    ]
    # NaN marks a number that this sampler does not have.
    known = [row for row in rows if not math.isnan(row[1])]
    return [f"  reverse {name:<9}{value:7.3f}  {meaning}" for name, value, meaning in known]


def _gap_lines(gaps: MomentGaps | None) -> list[str]:
    if gaps is None:
        return []
    return [
        f"  mean off by      {gaps.mean:.3f} ± {gaps.mean_stderr:.3f} sd "
        "(largest error of a mean, by importance weights)",
        f"  sd off by        {gaps.sd:.3f} ± {gaps.sd_stderr:.3f} (largest relative error of an sd)",
    ]
