"""Experiments of the paper, as data."""

from uivi.experiments.base import Experiment, Recipe, Run, run, smoke
from uivi.experiments.toy import DEVIATIONS, TOYS

EXPERIMENTS = {experiment.name: experiment for experiment in TOYS}
GROUPS = {"toy": tuple(experiment.name for experiment in TOYS)}

__all__ = ["DEVIATIONS", "EXPERIMENTS", "GROUPS", "Experiment", "Recipe", "Run", "run", "smoke"]
