"""Experiments as data: those of the paper (Titsias & Ruiz 2019), and four of ours.

The paper's are in `toy/`, `regression/` and `vae/`. `prior/` has priors of autoencoders, `methods/` the field's
methods side by side, `samplers/` whole programs on targets with a known log Z, `networks/` Bayesian neural
networks.

Each folder holds `experiments.py` (recipes, published values), `task.py` (what is fitted and how it is judged)
and `section.py` (its part of the report). `runner.py` runs any of them, `report/` shows the results. In
`samplers/` and `networks/`, a contender takes the place of a recipe, and `samplers/trials.py` runs it.
"""

from uivi.paper.budgets import SecondsOf, Updates
from uivi.paper.experiment import AbstractTask, Effort, Experiment, Recipe, Takes
from uivi.paper.experiments import DEVIATIONS, EXPERIMENTS, GROUPS, WHOLE, members, plan_of, side_by_side
from uivi.paper.plan import Run
from uivi.paper.runner import run
from uivi.paper.samplers.contest import AbstractContest
from uivi.paper.samplers.experiments import Contest
from uivi.paper.samplers.trials import Trials

__all__ = [
    "DEVIATIONS",
    "EXPERIMENTS",
    "GROUPS",
    "WHOLE",
    "AbstractContest",
    "AbstractTask",
    "Contest",
    "Effort",
    "Experiment",
    "Recipe",
    "Run",
    "SecondsOf",
    "Takes",
    "Trials",
    "Updates",
    "members",
    "plan_of",
    "run",
    "side_by_side",
]
