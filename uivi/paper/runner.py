"""The one way to run an experiment."""

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
from uivi.storage import archive, serialisation
from uivi.storage.checkpoints import Checkpoints, locked_directory
from uivi.training.driver import drive
from uivi.training.progress import reporter
from uivi.training.update import FitState, Method, initial_state, stack_states

UPDATE_PRECISION = "tensorfloat32"
"""Of products inside updates on a GPU (a CPU has float32 only); evaluation has JAX's own setting."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One recipe on one experiment, or on several that fit side by side, with its seeds.

    All fits (experiments × seeds) are lanes of one compiled program; each experiment gets its own result.
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
        preset: str,
        method: str,
        seeds: tuple[int, ...],
        out: pathlib.Path,
        num_steps: int | None = None,
        effort: Effort = "full",
    ) -> "Run":
        """Look up the recipe and check the numbers."""
        group = experiments if isinstance(experiments, tuple) else (experiments,)
        for experiment in group:
            _checks.known_name("preset", preset, experiment.recipes)
            _checks.known_name("method", method, experiment.recipes[preset])
        recipe = group[0].recipes[preset][method]
        steps = recipe.steps(effort) if num_steps is None else _checks.positive_int("steps", num_steps)
        return cls(group, preset, method, seeds, steps, effort, out)

    @property
    def recipe(self) -> Recipe:
        """The recipe that is run: the same for all experiments of the run."""
        return self.experiments[0].recipes[self.preset][self.method]

    @property
    def name(self) -> str:
        """For people and directories."""
        return "+".join(experiment.name for experiment in self.experiments)

    @property
    def directory(self) -> pathlib.Path:
        """Of the checkpoints."""
        return self.out / self.name / f"{self.preset}-{self.method}"

    def result_path(self, experiment: Experiment) -> pathlib.Path:
        """Where the result of one experiment is written when all is done."""
        return self.out / experiment.name / f"{self.preset}-{self.method}" / "result.json"

    def config(self, experiment: Experiment, task: AbstractTask) -> dict[str, Any]:
        """All settings, resolved."""
        key = jax.random.key(0)
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
            "estimator": serialisation.describe(self.recipe.estimator),
            "task": task.describe(),
        }


def run(what: Run, *, resume: bool = False, progress: bool = True) -> list[dict[str, Any]]:
    """Fit all lanes side by side, evaluate each, write `result.json`; return the results.

    A finished run is not run again with `resume`; an unfinished one goes on from its checkpoint.
    """
    tasks = [experiment.task(what.effort) for experiment in what.experiments]
    configs = [what.config(e, t) for e, t in zip(what.experiments, tasks, strict=True)]
    fingerprints = [serialisation.fingerprint(config) for config in configs]
    with locked_directory(what.directory):
        done = [
            _finished(what, *pair, resume=resume) for pair in zip(what.experiments, fingerprints, strict=True)
        ]
        if all(done):
            return [result for result in done if result]
        checkpoints = Checkpoints(what.directory / "checkpoint", serialisation.fingerprint(fingerprints))
        if checkpoints.newest() and not resume:
            raise FileExistsError(
                f"{what.directory} holds an unfinished run: pass --resume to go on, or another --out"
            )
        lanes, seconds = _fit(what, tasks, checkpoints, progress=progress)
        if any(fit.status is Status.INTERRUPTED for fit in lanes):
            raise KeyboardInterrupt(f"interrupted; go on with --resume (checkpoint in {what.directory})")
        results = []
        for i, (experiment, task) in enumerate(zip(what.experiments, tasks, strict=True)):
            fits = lanes[i * len(what.seeds) : (i + 1) * len(what.seeds)]
            parts = {"fingerprint": fingerprints[i], "config": configs[i]}
            result = _without_nan(parts | _result(what, experiment, task, fits, seconds))
            path = what.result_path(experiment)
            path.parent.mkdir(parents=True, exist_ok=True)
            archive.write_bytes(path, _readable(result).encode())
            results.append(result)
        shutil.rmtree(checkpoints.directory)
    return results


def _fit(
    what: Run, tasks: list[AbstractTask], checkpoints: Checkpoints, *, progress: bool
) -> tuple[list[Posterior], float]:
    recipe = what.recipe
    optimizer = _optimizer(recipe.optimizer, what.num_steps)
    method = Method(recipe.estimator, optimizer, UPDATE_PRECISION)

    def start(task: AbstractTask, seed: int) -> FitState:
        family_key, run_key = jax.random.split(jax.random.key(seed))
        target = task.target(jax.random.fold_in(family_key, 1), recipe)
        return initial_state(run_key, method, recipe.family(family_key, target.dim), target)

    states = [start(task, seed) for task in tasks for seed in what.seeds]
    state = states[0] if len(states) == 1 else stack_states(states)
    dim = states[0].family.dim
    del states
    label = f"{what.name} {what.preset}-{what.method}"
    monitors = [task.monitors(what.num_steps, recipe) for task in tasks]
    with reporter(what.num_steps, show=progress, label=label) as shown:
        driven = drive(
            method,
            state,
            what.num_steps,
            reporter=shown,
            checkpoints=checkpoints,
            monitors=[list(lanes) for lanes in zip(*[m for m in monitors for _ in what.seeds], strict=True)],
            keep_best=recipe.keep_best,
        )
    return posteriors(driven, recipe.estimator, np.zeros(dim, np.float32)), driven.seconds


@functools.cache
def _optimizer(make: Callable[[int], optax.GradientTransformation], num_steps: int):
    """One optimiser object for all runs of a recipe: programs that are equal are compiled once."""
    return make(num_steps)


def _finished(what: Run, experiment: Experiment, fingerprint: str, *, resume: bool) -> dict[str, Any] | None:
    path = what.result_path(experiment)
    if not path.exists():
        return None
    result = json.loads(path.read_text())
    if not resume:
        raise FileExistsError(f"{path} is there already: pass --resume to keep it, or another --out")
    if result["fingerprint"] != fingerprint:
        raise FileExistsError(
            f"{path} belongs to another configuration: pass another --out, or the same options"
        )
    return result


def _result(
    what: Run, experiment: Experiment, task: AbstractTask, fits: list[Posterior], seconds: float
) -> dict[str, Any]:
    published = experiment.published.get(f"{what.preset}-{what.method}")
    lanes = len(what.experiments) * len(what.seeds)
    began = time.perf_counter()
    seeds = [task.evaluate(jax.random.key(2), fit, what.recipe) for fit in fits]
    return {
        "title": experiment.title,
        "reference": experiment.reference,
        "published": published and {"value": published[0], "source": published[1]},
        "versions": {
            "uivi": uivi.__version__,
            "jax": jax.__version__,
            "python": platform.python_version(),
        },
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
        "exhibit": {} if what.recipe.is_brief else task.exhibit(jax.random.key(1), fits[0]),
    }


def _describe_shapes(module: Any) -> Any:
    """The description of a module of which only shapes are known."""
    zeros = lambda x: np.zeros(x.shape, x.dtype) if isinstance(x, jax.ShapeDtypeStruct) else x  # noqa: E731
    return serialisation.describe(jax.tree.map(zeros, module))


def _name(function: Callable) -> str:
    return f"{function.__module__}:{function.__qualname__}"


def _readable(result: dict[str, Any]) -> str:
    """JSON with a line for each entry: short, and a difference shows where it is."""
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in result.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _without_nan(value: Any) -> Any:
    """JSON has no NaN: null instead. Floats keep six digits."""
    if isinstance(value, dict):
        return {k: _without_nan(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
