"""One contest for each target of the sampler benchmarks: the same contenders, at the seconds of `uivi`."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax

from uivi import datasets
from uivi._jax import without_nan_checks
from uivi.paper.experiment import Effort, Takes
from uivi.paper.methods.judging import Budget
from uivi.paper.samplers.benchmarks import BENCHMARKS, Benchmark, Evidence
from uivi.paper.samplers.contenders import AbstractContender, AtEqualSeconds, Default, Flow, Gaussian, Sivi
from uivi.paper.samplers.contest import PACER, AbstractContest, Judged
from uivi.paper.samplers.nuts import Nuts
from uivi.paper.samplers.outcomes import AbstractOutcome
from uivi.paper.samplers.scores import is_scored, scores
from uivi.targets.base import AbstractGlobalTarget

PRESET = "seconds"

BUDGETS: dict[Effort, Budget] = {
    "full": Budget(draws=4_096, mixing=1_024, learning=2_000),
    "quick": Budget(draws=1_024, mixing=64, regressed=2_048, learning=50, moments=4_096),
    "smoke": Budget(draws=64, mixing=8, regressed=256, learning=2, moments=256),
}
"""Draws of the evaluation, the same for all contenders. Many ε keep both sides of a bound together."""
EXHIBITED = 300
"""Number of draws in the picture of a target in the plane."""

CONTENDERS: dict[str, AbstractContender] = {
    PACER: Default(),
    "sivi": AtEqualSeconds(Sivi()),
    "gaussian": AtEqualSeconds(Gaussian()),
    "flow": AtEqualSeconds(Flow()),
    "nuts": Nuts(),
}
"""The contenders by name, the pacer first."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contest(AbstractContest):
    """A target, the same for all seeds, and the programs that compete on it.

    Attributes:
        name: name on the command line.
        title: human-readable name.
        reference: what the target is.
        make: makes the target; loads the data set first, if there is one.
        evidence: its log Z; None if nobody knows it.
        recipes: contenders by preset, then by name.
        takes: how long a fit takes, by preset.
        dataset: name of the data set, or None.
        kind: section of the report that shows it.
        share: what the contenders may spend, in words.
        is_timed: whether seconds decide.
        stand_in: always None: the target is never replaced by another.
        program: always None: every fit is a program of its own.
    """

    name: str
    title: str
    reference: str
    make: Callable[[], AbstractGlobalTarget]
    evidence: Evidence | None
    recipes: dict[str, dict[str, AbstractContender]]
    takes: dict[str, Takes]
    dataset: str | None = None
    kind: str = "samplers"
    share: str = f"seconds of {PACER}"
    is_timed: bool = True
    stand_in: None = None
    program: None = None

    def target(self, seed: int) -> AbstractGlobalTarget:
        """Returns the target, whatever the seed."""
        del seed
        return _made(self.make)

    def judge(self, seed: int, outcome: AbstractOutcome, effort: Effort) -> Judged:
        """Returns bounds, importance weights, and what is wrong with draws by all that is known."""
        target, budget = self.target(seed), BUDGETS[effort]
        judge_key, draw_key, show_key = jax.random.split(jax.random.key(2), 3)
        values = outcome.judge(judge_key, self.evidence, budget)
        if is_scored(target):
            # A fit that failed is scored like any other, with whatever numbers it gives.
            with without_nan_checks():
                values["scores"] = scores(target, outcome.draws(draw_key, budget.moments))
        exhibit = {"draws": outcome.draws(show_key, EXHIBITED).tolist()} if target.dim == 2 else {}
        return Judged(values, exhibit)

    def describe(self, effort: Effort) -> dict[str, Any]:
        """Returns data set, log Z and the budget of the judge."""
        name, evidence = self.dataset, self.evidence
        data = {} if name is None else {"dataset": name, "description": datasets.DATASETS[name].description}
        known = {"evidence": None if evidence is None else evidence._asdict()}
        return data | known | {"budget": dataclasses.asdict(BUDGETS[effort])}


@functools.cache
def _made(make: Callable[[], AbstractGlobalTarget]) -> AbstractGlobalTarget:
    """Makes each target once in a process."""
    return make()


_TITLES = {
    "ionosphere": ("Ionosphere", "logistic regression, 35-d"),
    "sonar": ("Sonar", "logistic regression, 61-d"),
    "german-credit": ("German credit", "logistic regression, 25-d"),
    "german-credit-flat": ("German credit, flat prior", "logistic regression, 25-d"),
    "breast-cancer": ("Breast cancer", "logistic regression, 31-d"),
    "seeds": ("Seeds", "random effects, 26-d"),
    "brownian": ("Brownian motion", "two unknown scales, 32-d"),
    "pines": ("Pines", "log-Gaussian Cox, 1,600-d"),
    "funnel": ("Funnel", "Neal's, 10-d, sd 3"),
    "rosenbrock": ("Rosenbrock", "hybrid, 4-d"),
    "eight-gaussians": ("8 Gaussians", "on a circle, 2-d"),
    "forty-gaussians": ("40 Gaussians", "2-d"),
    "forty-gaussians-50": ("40 Gaussians in 50 dimensions", "50-d"),
    "ten-students": ("10 Students", "two degrees of freedom, 10-d"),
    "ten-students-50": ("10 Students in 50 dimensions", "two degrees of freedom, 50-d"),
    "diffusion": ("Diffusion, the drift of the code", "bridge, 100-d"),
    "diffusion-paper": ("Diffusion, the drift of the papers", "bridge, 100-d"),
}


def contest(name: str, benchmark: Benchmark, title: str, reference: str) -> Contest:
    """Returns the contest of all contenders on a target."""
    return Contest(
        name=name,
        title=title,
        reference=reference,
        make=benchmark.make,
        evidence=benchmark.evidence,
        dataset=benchmark.dataset,
        recipes={PRESET: CONTENDERS},
        takes={PRESET: Takes()},
    )


SAMPLERS = tuple(contest(f"samplers-{name}", BENCHMARKS[name], *words) for name, words in _TITLES.items())

GROUP = tuple(each.name for each in SAMPLERS)
"""What `uivi run samplers` runs."""
