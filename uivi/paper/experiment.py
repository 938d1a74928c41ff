"""The types that describe an experiment: a task, and a recipe for each method that is run on it."""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import optax

from uivi._types import Key
from uivi.estimators.base import AbstractEstimator
from uivi.families.base import AbstractFamily
from uivi.fitting.posterior import Posterior
from uivi.paper.budgets import AbstractBudget, Updates
from uivi.targets.base import AbstractTarget
from uivi.training.monitors import AbstractMonitor

Effort = Literal["full", "quick", "smoke"]
"""How much to spend on updates and evaluation: as published, minutes on a CPU, or just enough to run."""

SMOKE_STEPS = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """How one method is run.

    Attributes:
        family: builds the family from a key and the size of z.
        estimator: gradient estimator.
        optimizer: builds the optimiser from the number of updates.
        num_steps: number of updates at full effort.
        quick_steps: number of updates at quick effort.
        model: builds the model that is trained with the family (a decoder) from a key and the data.
        tie: gives the target the parts of the family that both have, as `uivi.estimators.lend` does.
        keep_best: history column that selects the final parameters; data is held out to compute it.
        budget: what the number of updates counts: updates, or the seconds of another method.
        is_brief: whether to evaluate the bounds only and skip costly references and pictures.
    """

    family: Callable[[Key, int], AbstractFamily]
    estimator: AbstractEstimator
    optimizer: Callable[[int], optax.GradientTransformation]
    num_steps: int
    quick_steps: int = 300
    model: Callable[[Key, Any], Any] | None = None
    tie: Callable[[AbstractTarget, AbstractFamily], AbstractTarget] | None = None
    keep_best: str | None = None
    budget: AbstractBudget = Updates()
    is_brief: bool = False

    def steps(self, effort: Effort) -> int:
        """Returns the number of updates at this effort."""
        return {"full": self.num_steps, "quick": self.quick_steps, "smoke": SMOKE_STEPS}[effort]


class AbstractTask(abc.ABC):
    """A problem to fit, and how every method is judged on it.

    A task holds its data in memory, so an experiment builds it only when it runs.
    """

    @abc.abstractmethod
    def target(self, key: Key, recipe: Recipe) -> AbstractTarget:
        """Returns the target of one fit."""

    @abc.abstractmethod
    def monitors(self, num_steps: int, recipe: Recipe) -> Sequence[AbstractMonitor]:
        """Returns the monitors that record the history of a fit."""

    @abc.abstractmethod
    def evaluate(self, key: Key, fit: Posterior, recipe: Recipe) -> dict[str, Any]:
        """Returns the final values of one fit, for JSON. All methods of a preset get the same values."""

    @abc.abstractmethod
    def exhibit(self, key: Key, fit: Posterior) -> dict[str, Any]:
        """Returns the data of the figures, for JSON. It is taken from the first seed's fit."""

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """Returns the data set and the evaluation budget, for JSON."""


@dataclasses.dataclass(frozen=True)
class Takes:
    """How long the updates of one fit by UIVI take: measured whole, or from the time of one update.

    Attributes:
        cores: on two cores of a CPU; empty if it was never measured.
        gpu: on one NVIDIA H200; empty if it was never measured.
    """

    cores: str = ""
    gpu: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """A task with the recipes to run on it.

    Attributes:
        name: name on the command line.
        kind: section of the report that shows it: toy, logreg, iterations, vae, vae-prior or methods.
        title: human-readable name.
        reference: section, table and figure of the paper; for other experiments, what is fitted.
        task: builds the task from the effort.
        recipes: recipes by preset, then by method.
        takes: how long a fit takes, by preset.
        published: value to compare with and its source, by "preset-method".
        dataset: name of the data set; None for an experiment without data.
        stand_in: experiment that a group runs instead where only the stand-in's data set is available.
        program: experiments with the same `program` have arrays of the same shapes. On a GPU they run side by
            side in one compiled program. None for an experiment that always runs alone.
    """

    name: str
    kind: str
    title: str
    reference: str
    task: Callable[[Effort], AbstractTask]
    recipes: dict[str, dict[str, Recipe]]
    takes: dict[str, Takes]
    published: dict[str, tuple[float, str]] = dataclasses.field(default_factory=dict)
    dataset: str | None = None
    stand_in: str | None = None
    program: str | None = None
