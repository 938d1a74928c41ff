"""Experiments of the paper, as data."""

from uivi import datasets
from uivi.paper.experiment import AbstractTask, Effort, Experiment, Recipe
from uivi.paper.regression import experiments as regression
from uivi.paper.runner import Run, run
from uivi.paper.toy import experiments as toy
from uivi.paper.vae import experiments as vae

EXPERIMENTS = {e.name: e for e in (*toy.TOYS, *regression.REGRESSIONS, *vae.VAES)}

GROUPS = {
    "toy": tuple(e.name for e in toy.TOYS),
    "logreg": ("logreg-mnist", "logreg-hapt"),
    "vae": tuple(e.name for e in vae.VAES),
}
GROUPS["paper"] = (*GROUPS["toy"], *GROUPS["logreg"], "logreg-iterations", *GROUPS["vae"])

STAND_INS = {"logreg-hapt": ("hapt", "logreg-hapt-recomputed", "hapt-recomputed")}
"""In a group: an experiment whose data set may be missing, and what is run then if its data is here."""


def members(name: str) -> tuple[str, ...]:
    """The experiments of a group (or the one experiment), with stand-ins where only their data is here."""
    found = []
    for member in GROUPS.get(name, (name,)):
        wanted, other, have = STAND_INS.get(member, ("", "", ""))
        stands_in = name in GROUPS and other and not datasets.find(wanted) and datasets.find(have)
        found.append(other if stands_in else member)
    return tuple(found)


SIDE_BY_SIDE = {frozenset(GROUPS["vae"])}
"""Experiments whose arrays have the same shapes: on a GPU they run as one program."""

DEVIATIONS = {"toy": toy.DEVIATIONS, "logreg": regression.DEVIATIONS, "vae": vae.DEVIATIONS}

__all__ = [
    "DEVIATIONS",
    "EXPERIMENTS",
    "GROUPS",
    "SIDE_BY_SIDE",
    "STAND_INS",
    "AbstractTask",
    "Effort",
    "Experiment",
    "Recipe",
    "Run",
    "members",
    "run",
]
