"""Runs any experiment: fits its seeds, evaluates the fits, writes `result.json`."""

import dataclasses
import functools
import json
import math
import pathlib
import platform
import shutil
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax

import uivi
from uivi import _checks, gpu
from uivi._types import Status
from uivi.fitting.fit import posteriors
from uivi.fitting.posterior import Posterior
from uivi.paper.experiment import AbstractTask, Effort, Experiment, Recipe
from uivi.storage import archive, descriptions
from uivi.storage.checkpoints import Checkpoints, locked_directory
from uivi.training.driver import drive
from uivi.training.progress import DONE, AbstractReporter, reporter
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
        num_steps: number of updates.
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

    def result_path(self, experiment: Experiment) -> pathlib.Path:
        """Returns where the result of one experiment is written."""
        return self.out / experiment.name / f"{self.preset}-{self.method}" / "result.json"

    def config(self, experiment: Experiment, task: AbstractTask) -> dict[str, Any]:
        """Returns every setting of one experiment, for JSON. Two runs with equal settings are the same run."""
        key = jax.random.key(0)
        # Shapes say all that the description needs, and spare a copy of the data and of the networks.
        target = jax.eval_shape(lambda: task.target(key, self.recipe))
        family = jax.eval_shape(lambda: self.recipe.family(key, target.dim))
        model = self.recipe.model
        return {
            "experiment": experiment.name,
            "kind": experiment.kind,
            "preset": self.preset,
            "method": self.method,
            "seeds": list(self.seeds),
            "num_steps": self.num_steps,
            "effort": self.effort,
            "keep_best": self.recipe.keep_best,
            "optimizer": _name(self.recipe.optimizer),
            "model": None if model is None else _name(model),
            "family": _describe_shapes(family),
            "target": _describe_shapes(target),
            "estimator": descriptions.describe(self.recipe.estimator),
            "task": task.describe(),
        }


def run(plan: Run, *, resume: bool = False, progress: bool = True) -> list[dict[str, Any]]:
    """Fits all lanes side by side, evaluates each fit and writes `result.json`.

    Args:
        plan: what to run.
        resume: whether to keep a finished result and to continue an unfinished run from its checkpoint.
        progress: whether to show a progress bar.

    Returns:
        The content of `result.json` for each experiment.

    Raises:
        FileExistsError: if the directory holds a result or a checkpoint and `resume` is false, or the result of
            another configuration.
        KeyboardInterrupt: if the run was interrupted. Its checkpoint is saved first.
    """
    label = f"{plan.name} {plan.preset}-{plan.method}"
    with reporter(progress, label=label) as shown:
        results = _run(plan, shown, resume=resume)
        shown.phase(DONE)
    return results


def _run(plan: Run, shown: AbstractReporter, *, resume: bool) -> list[dict[str, Any]]:
    shown.phase("reading the data")
    tasks = [experiment.task(plan.effort) for experiment in plan.experiments]
    configs = [plan.config(e, t) for e, t in zip(plan.experiments, tasks, strict=True)]
    fingerprints = [descriptions.fingerprint(config) for config in configs]
    with locked_directory(plan.directory):
        done = [
            _finished(plan, *pair, resume=resume) for pair in zip(plan.experiments, fingerprints, strict=True)
        ]
        if all(done):
            return [result for result in done if result]
        checkpoints = Checkpoints(plan.directory / "checkpoint", descriptions.fingerprint(fingerprints))
        if checkpoints.newest() and not resume:
            raise FileExistsError(
                f"expected no earlier run in {plan.directory}, found an unfinished one: pass --resume to "
                "continue it, or another --out"
            )
        lanes, seconds = _fit(plan, tasks, checkpoints, shown)
        if any(fit.status is Status.INTERRUPTED for fit in lanes):
            raise KeyboardInterrupt(f"interrupted: pass --resume to continue from {checkpoints.directory}")
        results = []
        for i, (experiment, task) in enumerate(zip(plan.experiments, tasks, strict=True)):
            fits = lanes[i * len(plan.seeds) : (i + 1) * len(plan.seeds)]
            parts = {"fingerprint": fingerprints[i], "config": configs[i]}
            result = _without_nan(parts | _result(plan, experiment, task, fits, seconds, shown))
            path = plan.result_path(experiment)
            path.parent.mkdir(parents=True, exist_ok=True)
            archive.write_bytes(path, _readable(result).encode())
            results.append(result)
        # Only now: a crash during the evaluation must not cost the fit.
        shutil.rmtree(checkpoints.directory)
    return results


def _fit(
    plan: Run, tasks: list[AbstractTask], checkpoints: Checkpoints, shown: AbstractReporter
) -> tuple[list[Posterior], float]:
    """Returns the fits, experiment by experiment and seed by seed, and the seconds of all updates."""
    shown.phase("making the first state")
    recipe = plan.recipe
    optimizer = _optimizer(recipe.optimizer, plan.num_steps)
    method = Method(recipe.estimator, optimizer, UPDATE_PRECISION)

    def start(task: AbstractTask, seed: int) -> FitState:
        family_key, run_key = jax.random.split(jax.random.key(np.uint32(seed)))
        target = task.target(jax.random.fold_in(family_key, 1), recipe)
        family = recipe.family(family_key, target.dim)
        if recipe.tie is not None:
            target = recipe.tie(target, family)
        return initial_state(run_key, method, family, target)

    states = [start(task, seed) for task in tasks for seed in plan.seeds]
    state = states[0] if len(states) == 1 else stack_states(states)
    dim = states[0].family.dim
    del states  # the stacked copy replaces them; keeping both would hold the data twice
    monitors = [task.monitors(plan.num_steps, recipe) for task in tasks]
    driven = drive(
        method,
        state,
        plan.num_steps,
        reporter=shown,
        checkpoints=checkpoints,
        monitors=[list(lanes) for lanes in zip(*[m for m in monitors for _ in plan.seeds], strict=True)],
        keep_best=recipe.keep_best,
    )
    return posteriors(driven, np.zeros(dim, np.float32)), driven.seconds


@functools.cache
def _optimizer(make: Callable[[int], optax.GradientTransformation], num_steps: int):
    """Returns one optimiser object for all runs of a recipe.

    It is a static argument of the compiled updates, so an equal but new object would compile them again.
    """
    return make(num_steps)


def _finished(plan: Run, experiment: Experiment, fingerprint: str, *, resume: bool) -> dict[str, Any] | None:
    """Returns the result of an earlier run, or None. Raises unless the caller may keep it."""
    path = plan.result_path(experiment)
    if not path.exists():
        return None
    result = json.loads(path.read_text())
    if not resume:
        raise FileExistsError(f"expected no {path}, found one: pass --resume to keep it, or another --out")
    if result["fingerprint"] != fingerprint:
        raise FileExistsError(
            f"expected the same configuration in {path}, found another: pass the same options, or another --out"
        )
    return result


def _result(
    plan: Run,
    experiment: Experiment,
    task: AbstractTask,
    fits: list[Posterior],
    seconds: float,
    shown: AbstractReporter,
) -> dict[str, Any]:
    published = experiment.published.get(f"{plan.preset}-{plan.method}")
    lanes = len(plan.experiments) * len(plan.seeds)
    began = time.perf_counter()
    # One key for all: seeds and methods are judged with the same random numbers.
    seeds = []
    for seed, fit in zip(plan.seeds, fits, strict=True):
        name = f" of {experiment.name}" if len(plan.experiments) > 1 else ""
        shown.phase(f"evaluating seed {seed}{name}")
        seeds.append(task.evaluate(jax.random.key(2), fit, plan.recipe))
    return {
        "title": experiment.title,
        "reference": experiment.reference,
        "published": published and {"value": published[0], "source": published[1]},
        "versions": {"uivi": uivi.__version__, "jax": jax.__version__, "python": platform.python_version()},
        "device": f"{jax.devices()[0].device_kind} ({platform.machine()}, {jax.local_device_count()} device)",
        "precision": getattr(jax.config, "jax_default_matmul_precision", None) or "default",
        "update_precision": UPDATE_PRECISION,
        "fused_kernels": gpu.is_available(),
        "seconds": seconds,
        "lanes": lanes,
        "seconds_per_fit": seconds / lanes,
        "evaluation_seconds": time.perf_counter() - began,
        "status": [fit.status.name for fit in fits],
        "seeds": seeds,
        "history": fits[0].history,
        "exhibit": {} if plan.recipe.is_brief else task.exhibit(jax.random.key(1), fits[0]),
    }


def _describe_shapes(module: Any) -> Any:
    """Describes a module that has shapes in place of arrays."""
    zeros = lambda x: np.zeros(x.shape, x.dtype) if isinstance(x, jax.ShapeDtypeStruct) else x
    return descriptions.describe(jax.tree.map(zeros, module))


def _name(function: Callable) -> str:
    return f"{function.__module__}:{function.__qualname__}"


def _readable(result: dict[str, Any]) -> str:
    """Formats JSON with one line per entry: short, and a diff shows which entry changed."""
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in result.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _without_nan(value: Any) -> Any:
    """Replaces NaN and infinities, which JSON lacks, by None, and rounds floats to six digits."""
    if isinstance(value, dict):
        return {k: _without_nan(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
