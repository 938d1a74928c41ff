"""Experiments as data: those of the paper (Titsias & Ruiz 2019), and two of ours.

The paper's are in `toy/`, `regression/` and `vae/`. `prior/` has priors of autoencoders, `methods/` the field's
methods side by side.

Each folder holds `experiments.py` (recipes, published values), `task.py` (what is fitted and how it is judged)
and `section.py` (its part of the report). `runner.py` runs any of them, `report/` shows the results.
"""

from uivi.paper.budgets import SecondsOf, Updates
from uivi.paper.experiment import AbstractTask, Effort, Experiment, Recipe, Takes
from uivi.paper.experiments import DEVIATIONS, EXPERIMENTS, GROUPS, WHOLE, members, side_by_side
from uivi.paper.plan import Run
from uivi.paper.runner import run

__all__ = [
    "DEVIATIONS",
    "EXPERIMENTS",
    "GROUPS",
    "WHOLE",
    "AbstractTask",
    "Effort",
    "Experiment",
    "Recipe",
    "Run",
    "SecondsOf",
    "Takes",
    "Updates",
    "members",
    "run",
    "side_by_side",
]
