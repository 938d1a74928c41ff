"""Experiments of the paper, as data."""

from uivi.experiments import regression, toy, vae
from uivi.experiments.base import AbstractTask, Effort, Experiment, Recipe
from uivi.experiments.running import Run, run, smoke

EXPERIMENTS = {e.name: e for e in (*toy.TOYS, *regression.REGRESSIONS, *vae.VAES)}

GROUPS = {
    "toy": tuple(e.name for e in toy.TOYS),
    "logreg": ("logreg-mnist", "logreg-hapt-recomputed"),
    "vae": tuple(e.name for e in vae.VAES),
}
GROUPS["paper"] = (*GROUPS["toy"], *GROUPS["logreg"], "logreg-iterations", *GROUPS["vae"])

SIDE_BY_SIDE = {frozenset(GROUPS["vae"])}
"""Experiments whose arrays have the same shapes: on a GPU they run as one program."""

DEVIATIONS = {"toy": toy.DEVIATIONS, "logreg": regression.DEVIATIONS, "vae": vae.DEVIATIONS}

__all__ = [
    "DEVIATIONS",
    "EXPERIMENTS",
    "GROUPS",
    "SIDE_BY_SIDE",
    "AbstractTask",
    "Effort",
    "Experiment",
    "Recipe",
    "Run",
    "run",
    "smoke",
]
