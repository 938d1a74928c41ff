"""The experiments of the paper (Titsias & Ruiz 2019), as data: `toy/`, `regression/` and `vae/`; and `prior/`.

Each folder holds `experiments.py` (recipes, published values), `task.py` (what is fitted and how it is judged)
and `section.py` (its part of the report). `runner.py` runs any of them, `report/` shows the results.
"""

from uivi.paper.experiment import AbstractTask, Effort, Experiment, Recipe, Takes
from uivi.paper.experiments import DEVIATIONS, EXPERIMENTS, GROUPS, members, side_by_side
from uivi.paper.runner import Run, run

__all__ = [
    "DEVIATIONS",
    "EXPERIMENTS",
    "GROUPS",
    "AbstractTask",
    "Effort",
    "Experiment",
    "Recipe",
    "Run",
    "Takes",
    "members",
    "run",
    "side_by_side",
]
