"""Fits a method to a problem, and judges it like every other."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from uivi._jax import without_nan_checks
from uivi._types import Key
from uivi.evaluation import bounds
from uivi.families.semi_implicit import SemiImplicit
from uivi.fitting.posterior import Posterior
from uivi.paper.experiment import AbstractTask, Effort, Recipe
from uivi.paper.methods import judging
from uivi.paper.methods.judging import Budget
from uivi.paper.methods.problems import AbstractProblem
from uivi.reverse.proposals import FittedProposal
from uivi.targets.base import AbstractTarget
from uivi.training.driver import NUM_RECORDS
from uivi.training.monitors import AbstractMonitor
from uivi.training.update import FitState, Method

NUM_LOOKS = 10
"""Number of times that a fit looks at its ELBO."""

BUDGETS: dict[Effort, Budget] = {
    "full": Budget(),
    "quick": Budget(draws=1_024, mixing=64, regressed=2_048, learning=50, moments=4_096),
    "smoke": Budget(draws=64, mixing=8, regressed=256, learning=2, moments=256),
}


class BoundCurve(AbstractMonitor):
    """The ELBO from below, with a proposal that is regressed at every look: the same for all methods."""

    every: int = eqx.field(static=True)
    draws: int = eqx.field(static=True)
    mixing: int = eqx.field(static=True)
    regressed: int = eqx.field(static=True)

    def __call__(self, method: Method, state: FitState) -> dict[str, float]:
        """Returns the bound and its standard error."""
        proposal_key, draw_key = jax.random.split(self.key(state))
        proposal = method.estimator.fitted_proposal(state.est_state)
        if isinstance(state.family, SemiImplicit) and not judging.is_exact(state.family):
            learned = judging.regressed(proposal_key, state.family, self.regressed)
            proposal = FittedProposal(judging.PROPOSAL, learned)
        found = bounds.evaluate(draw_key, state.family, state.target, self.draws, self.mixing, proposal)
        lower, _ = bounds.bracket(found)
        return {"elbo_lower": lower.mean, "elbo_lower_stderr": lower.stderr}


class MethodTask(AbstractTask):
    """One posterior, judged by bounds, importance weights and what is known of it."""

    def __init__(self, effort: Effort, *, problem: Callable[[], AbstractProblem]):
        """Makes the problem, or takes it from an earlier run of the same process."""
        self.problem, self.budget = problem(), BUDGETS[effort]

    def target(self, key: Key, recipe: Recipe) -> AbstractTarget:
        """Returns the target, whatever the recipe."""
        del key, recipe
        return self.problem.target

    def monitors(self, num_steps: int, recipe: Recipe) -> Sequence[AbstractMonitor]:
        """Returns the monitor of the lower bound."""
        del recipe
        # A multiple of the updates between two records: any number of updates then runs in long stretches.
        b, every = self.budget, max(1, num_steps // NUM_RECORDS) * (NUM_RECORDS // NUM_LOOKS)
        return (BoundCurve(every, max(64, b.draws // 4), max(8, b.mixing // 2), max(256, b.regressed // 4)),)

    def evaluate(self, key: Key, fit: Posterior, recipe: Recipe) -> dict[str, Any]:
        """Returns the check, both sides of KL(q‖p), and the scores of the problem."""
        del recipe
        check_key, draw_key = jax.random.split(key)
        # A fit that failed is judged like any other, with whatever numbers it gives.
        with without_nan_checks():
            check = judging.judge(check_key, fit, self.budget)
            drawn = np.asarray(fit.sample_flat(draw_key, self.budget.moments), np.float64)
            scores = self.problem.scores(fit, self.problem.draws(drawn))
        return judging.values(check, self.problem.log_evidence) | {"scores": scores}

    def exhibit(self, key: Key, fit: Posterior) -> dict[str, Any]:
        """Returns nothing: the figure shows histories."""
        del key, fit
        return {}

    def describe(self) -> dict[str, Any]:
        """Returns the data set and the evaluation budget."""
        return self.problem.describe() | {"budget": dataclasses.asdict(self.budget)}
