"""What one run of an experiment consists of, and the state that it begins with."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax

from uivi import _checks
from uivi.paper.budgets import Granted
from uivi.paper.experiment import AbstractTask, Effort, Experiment, Recipe
from uivi.storage import descriptions
from uivi.training.update import FitState, Method, initial_state, stack_states

UPDATE_PRECISION = "tensorfloat32"
"""Precision of matrix products inside updates on a GPU. A CPU has float32 only, and evaluation always uses
JAX's own setting."""

MOST_STEPS = 2**31 - 1
"""Largest number of updates: they are counted in 32 bits."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One recipe on one experiment, or on several that share a program, with its seeds.

    All fits (experiments × seeds) are lanes of one compiled program. Each experiment gets its own result.

    Attributes:
        experiments: experiments that run side by side, usually one.
        preset: name of the preset.
        method: name of the method in the preset.
        seeds: random seeds; each gives one fit per experiment.
        num_steps: number of updates, as the recipe's budget counts them.
        effort: how much to spend on the evaluation.
        out: directory of all results.
    """

    experiments: tuple[Experiment, ...]
    preset: str
    method: str
    seeds: tuple[int, ...]
    num_steps: int
    effort: Effort
    out: pathlib.Path

    @classmethod
    def create(
        cls,
        experiments: Experiment | tuple[Experiment, ...],
        *,
        preset: str,
        method: str,
        seeds: tuple[int, ...],
        out: pathlib.Path,
        num_steps: int | None = None,
        effort: Effort = "full",
    ) -> "Run":
        """Looks up the recipe and checks the names and numbers.

        Args:
            experiments: one experiment, or several that share a program.
            preset: name of the preset.
            method: name of the method in the preset.
            seeds: random seeds.
            out: directory of all results.
            num_steps: number of updates; by default the recipe's, at this effort.
            effort: how much to spend on updates and evaluation.
        """
        group = experiments if isinstance(experiments, tuple) else (experiments,)
        for experiment in group:
            _checks.known_name("preset", preset, experiment.recipes)
            _checks.known_name("method", method, experiment.recipes[preset])
        for seed in seeds:
            _checks.seed("seed", seed)
        recipe = group[0].recipes[preset][method]
        steps = recipe.steps(effort) if num_steps is None else _checks.positive_int("steps", num_steps)
        if steps > MOST_STEPS:
            raise ValueError(f"expected `steps` to be at most {MOST_STEPS:,}, got {steps}")
        return cls(
            experiments=group,
            preset=preset,
            method=method,
            seeds=seeds,
            num_steps=steps,
            effort=effort,
            out=out,
        )

    @property
    def recipe(self) -> Recipe:
        """The recipe, which all experiments of the run share."""
        return self.experiments[0].recipes[self.preset][self.method]

    @property
    def name(self) -> str:
        """Names of the experiments, joined by a plus sign."""
        return "+".join(experiment.name for experiment in self.experiments)

    @property
    def directory(self) -> pathlib.Path:
        """Directory of the checkpoints."""
        return self.out / self.name / f"{self.preset}-{self.method}"

    @property
    def budget_path(self) -> pathlib.Path:
        """Where the number of updates is kept that a timed budget has granted."""
        return self.directory / "budget.json"

    def result_path(self, experiment: Experiment) -> pathlib.Path:
        """Returns where the result of one experiment is written."""
        return self.out / experiment.name / f"{self.preset}-{self.method}" / "result.json"

    def config(self, experiment: Experiment, task: AbstractTask, granted: Granted) -> dict[str, Any]:
        """Returns every setting of one experiment, for JSON. Two runs with equal settings are the same run."""
        key = jax.random.key(0)
        # Shapes say all that the description needs, and spare a copy of the data and of the networks.
        target = jax.eval_shape(lambda: task.target(key, self.recipe))
        family = jax.eval_shape(lambda: self.recipe.family(key, target.dim))
        model = self.recipe.model
        timed = {"budget": self.recipe.budget.words} if granted.seconds else {}
        return timed | {
            "experiment": experiment.name,
            "kind": experiment.kind,
            "preset": self.preset,
            "method": self.method,
            "seeds": list(self.seeds),
            "num_steps": granted.updates,
            "effort": self.effort,
            "keep_best": self.recipe.keep_best,
            "optimizer": _name(self.recipe.optimizer),
            "model": None if model is None else _name(model),
            "family": _describe_shapes(family),
            "target": _describe_shapes(target),
            "estimator": descriptions.describe(self.recipe.estimator),
            "task": task.describe(),
        }


def first_state(plan: Run, tasks: list[AbstractTask], num_steps: int) -> tuple[Method, FitState, int]:
    """Returns the method, the state of all fits before the first update, and the size of z.

    Args:
        plan: what to run.
        tasks: task of every experiment of the plan.
        num_steps: number of updates, on which the optimiser's schedule depends.
    """
    recipe = plan.recipe
    method = Method(recipe.estimator, _optimizer(recipe.optimizer, num_steps), UPDATE_PRECISION)

    def start(task: AbstractTask, seed: int) -> FitState:
        family_key, run_key = jax.random.split(jax.random.key(np.uint32(seed)))
        target = task.target(jax.random.fold_in(family_key, 1), recipe)
        family = recipe.family(family_key, target.dim)
        if recipe.tie is not None:
            target = recipe.tie(target, family)
        return initial_state(run_key, method, family, target)

    states = [start(task, seed) for task in tasks for seed in plan.seeds]
    dim = states[0].family.dim
    return method, states[0] if len(states) == 1 else stack_states(states), dim


@functools.cache
def _optimizer(make: Callable[[int], optax.GradientTransformation], num_steps: int):
    """Returns one optimiser object for all runs of a recipe.

    It is a static argument of the compiled updates, so an equal but new object would compile them again.
    """
    return make(num_steps)


def _describe_shapes(module: Any) -> Any:
    """Describes a module that has shapes in place of arrays."""
    zeros = lambda x: np.zeros(x.shape, x.dtype) if isinstance(x, jax.ShapeDtypeStruct) else x
    return descriptions.describe(jax.tree.map(zeros, module))


def _name(function: Callable) -> str:
    return f"{function.__module__}:{function.__qualname__}"
