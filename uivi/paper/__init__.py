"""The experiments of the paper (Titsias & Ruiz 2019), as data: `toy/`, `regression/` and `vae/`; and `prior/`.

`methods/` has the methods that have come since, side by side.

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
