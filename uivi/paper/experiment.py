"""An experiment is data: a task, and the recipes to run on it."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import optax

from uivi._types import Key
from uivi.estimators.base import AbstractEstimator
from uivi.families.base import AbstractFamily
from uivi.fitting.posterior import Posterior
from uivi.targets.base import AbstractTarget
from uivi.training.monitors import AbstractMonitor

Effort = Literal["full", "quick", "smoke"]
"""How much is spent on updates and evaluation: as published, minutes on a CPU, or a sign of life."""

SMOKE_STEPS = 4


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How one method is run.

    Attributes:
        family: from a key and the size of z.
        estimator: of the gradient.
        optimizer: from the number of updates.
        num_steps: updates at full effort.
        quick_steps: updates at quick effort.
        model: what the task trains beside the family (a decoder), from a key and the data.
        keep_best: the monitor's column on which the final parameters are chosen; data is held out for it.
        is_brief: judged by the bounds alone, without costly references and pictures.
    """

    family: Callable[[Key, int], AbstractFamily]
    estimator: AbstractEstimator
    optimizer: Callable[[int], optax.GradientTransformation]
    num_steps: int
    quick_steps: int = 300
    model: Callable[[Key, Any], Any] | None = None
    keep_best: str | None = None
    is_brief: bool = False

    def steps(self, effort: Effort) -> int:
        """The number of updates."""
        return {"full": self.num_steps, "quick": self.quick_steps, "smoke": SMOKE_STEPS}[effort]


class AbstractTask:
    """What is fitted, and how every method is judged on it; made when it is needed, for data may be large."""

    def target(self, key: Key, recipe: Recipe) -> AbstractTarget:
        """The target of one fit."""
        raise NotImplementedError

    def monitors(self, num_steps: int, recipe: Recipe) -> Sequence[AbstractMonitor]:
        """What is recorded on the way."""
        raise NotImplementedError

    def evaluate(self, key: Key, fit: Posterior, recipe: Recipe) -> dict[str, Any]:
        """The values of one fit, for JSON: the same for every method of a preset."""
        raise NotImplementedError

    def exhibit(self, key: Key, fit: Posterior) -> dict[str, Any]:
        """What the figures show of the first fit, for JSON."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        """Data and budget of the evaluation, for JSON."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A task with the recipes to run on it.

    Attributes:
        name: on the command line.
        kind: of the page's section it belongs to: toy, logreg, iterations or vae.
        title: for people.
        reference: where in the paper.
        task: from the effort.
        recipes: by preset, then by method.
        published: by "preset-method", the value to compare with and its source.
    """

    name: str
    kind: str
    title: str
    reference: str
    task: Callable[[Effort], AbstractTask]
    recipes: dict[str, dict[str, Recipe]]
    published: dict[str, tuple[float, str]] = dataclasses.field(default_factory=dict)
