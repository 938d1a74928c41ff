"""All experiments by name, and the groups that the command line knows."""

import itertools
from collections.abc import Iterable
from typing import Any

from uivi import datasets
from uivi.paper.experiment import Experiment
from uivi.paper.methods import experiments as methods
from uivi.paper.networks import experiments as networks
from uivi.paper.plan import Run
from uivi.paper.prior import experiments as prior
from uivi.paper.regression import experiments as regression
from uivi.paper.samplers import experiments as samplers
from uivi.paper.samplers.contest import AbstractContest
from uivi.paper.samplers.trials import Trials
from uivi.paper.toy import experiments as toy
from uivi.paper.vae import experiments as vae

_FITTED = (*toy.TOYS, *regression.REGRESSIONS, *vae.VAES, *prior.PRIORS, *methods.METHODS)

_CONTESTS = (*samplers.SAMPLERS, *networks.NETWORKS)

EXPERIMENTS: dict[str, Experiment | AbstractContest] = {e.name: e for e in (*_FITTED, *_CONTESTS)}

GROUPS = {
    "toy": ("banana", "multimodal", "xshaped"),
    "logreg": ("logreg-mnist", "logreg-hapt"),
    "vae": ("vae-mnist", "vae-fashion"),
    "vae-prior": ("vae-prior-mnist", "vae-prior-fashion"),
    "methods": methods.GROUP,
    "samplers": samplers.GROUP,
    "networks": networks.GROUP,
}
GROUPS["paper"] = (*GROUPS["toy"], *GROUPS["logreg"], "logreg-iterations", *GROUPS["vae"])

WHOLE = {
    "paper": ("paper",),
    "methods": tuple(methods.PRESETS),
    "samplers": (samplers.PRESET,),
    "networks": (networks.PRESET,),
}
"""Groups that are run with all methods unless others are asked for, with their presets."""

DEVIATIONS = {"toy": toy.DEVIATIONS, "logreg": regression.DEVIATIONS, "vae": vae.DEVIATIONS}
"""Where the preset `paper` differs from the paper, by section of the report."""


def members(name: str) -> tuple[str, ...]:
    """Returns the experiments of a group, or the one experiment with this name.

    A group replaces an experiment by its stand-in if only the stand-in's data set is available. An experiment
    that is asked for by name is never replaced.
    """
    if name not in GROUPS:
        return (name,)
    return tuple(_available(EXPERIMENTS[member]) for member in GROUPS[name])


def _available(experiment: Experiment | AbstractContest) -> str:
    if experiment.stand_in is None or _has_data(experiment) or not _has_data(EXPERIMENTS[experiment.stand_in]):
        return experiment.name
    return experiment.stand_in


def _has_data(experiment: Experiment | AbstractContest) -> bool:
    return experiment.dataset is None or bool(datasets.find(experiment.dataset))


def side_by_side(names: Iterable[str]) -> list[tuple[Experiment | AbstractContest, ...]]:
    """Returns the experiments in order, neighbours that can share one compiled program in one tuple."""
    chosen = (EXPERIMENTS[name] for name in names)
    return [tuple(group) for _, group in itertools.groupby(chosen, lambda e: e.program or e.name)]


def plan_of(group: tuple[Experiment | AbstractContest, ...], **options: Any) -> Run | Trials:
    """Returns the plan of one method on experiments that run side by side; see `Run.create` for the options."""
    contests = [each for each in group if isinstance(each, AbstractContest)]
    if contests:
        return Trials.create(contests[0], **options)
    return Run.create(tuple(each for each in group if isinstance(each, Experiment)), **options)
