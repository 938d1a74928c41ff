"""An experiment is data; this is the one way to run it."""

import dataclasses
import json
import math
import pathlib
import platform
import shutil
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax

import uivi
from uivi import _checks, _serial, archive, bounds, loop, metrics
from uivi._types import Key, Status
from uivi.checkpoint import Checkpoints, locked_directory
from uivi.drive import drive
from uivi.estimators.base import AbstractEstimator
from uivi.families.base import AbstractFamily
from uivi.fit import posteriors
from uivi.posterior import Posterior
from uivi.progress import reporter
from uivi.targets.base import AbstractTarget
from uivi.targets.toys import AbstractToy

NUM_FIGURE_DRAWS = 300


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How one method is run: family, estimator, optimiser and number of updates."""

    family: Callable[[Key, int], AbstractFamily]
    estimator: AbstractEstimator
    optimizer: Callable[[int], optax.GradientTransformation]
    num_steps: int


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A target with the recipes to run on it.

    Attributes:
        name: on the command line.
        title: for people.
        reference: where in the paper.
        target: what is fitted.
        recipes: by preset, then by method.
        expected: KL that the default preset must reach (median over seeds), and the source of that figure.
    """

    name: str
    title: str
    reference: str
    target: AbstractTarget
    recipes: dict[str, dict[str, Recipe]]
    expected: tuple[float, str]


@dataclasses.dataclass(frozen=True)
class Run:
    """One recipe of one experiment with its seeds, and the directory of its result."""

    experiment: Experiment
    preset: str
    method: str
    seeds: tuple[int, ...]
    num_steps: int
    directory: pathlib.Path

    @classmethod
    def create(
        cls,
        experiment: Experiment,
        preset: str,
        method: str,
        seeds: tuple[int, ...],
        out: pathlib.Path,
        num_steps: int | None = None,
    ) -> "Run":
        """Look up the recipe and check the numbers."""
        _checks.known_name("preset", preset, experiment.recipes)
        _checks.known_name("method", method, experiment.recipes[preset])
        recipe = experiment.recipes[preset][method]
        steps = recipe.num_steps if num_steps is None else _checks.positive_int("steps", num_steps)
        return cls(experiment, preset, method, seeds, steps, out / experiment.name / f"{preset}-{method}")

    @property
    def recipe(self) -> Recipe:
        """The recipe that is run."""
        return self.experiment.recipes[self.preset][self.method]

    @property
    def result_path(self) -> pathlib.Path:
        """Where the result is written when all is done."""
        return self.directory / "result.json"

    def config(self) -> dict[str, Any]:
        """All settings, resolved."""
        family = jax.eval_shape(lambda: self.recipe.family(jax.random.key(0), self.experiment.target.dim))
        return {
            "experiment": self.experiment.name,
            "preset": self.preset,
            "method": self.method,
            "seeds": list(self.seeds),
            "num_steps": self.num_steps,
            "optimizer": _name(self.recipe.optimizer),
            "family": _describe_shapes(family),
            "target": _serial.describe(self.experiment.target),
            "estimator": _serial.describe(self.recipe.estimator),
        }


def run(what: Run, *, resume: bool = False, progress: bool = True) -> dict[str, Any]:
    """Fit all seeds side by side, evaluate each, write `result.json`; return its content.

    A finished run is not run again with `resume`; an unfinished one goes on from its checkpoint.
    """
    fingerprint = _serial.fingerprint(what.config())
    with locked_directory(what.directory):
        if what.result_path.exists():
            return _finished(what, fingerprint, resume=resume)
        checkpoints = Checkpoints(what.directory / "checkpoint", fingerprint)
        if checkpoints.newest() and not resume:
            raise FileExistsError(
                f"{what.directory} holds an unfinished run: pass --resume to go on, or another --out"
            )
        fitted, seconds = _fit(what, checkpoints, progress=progress)
        if any(p.status is Status.INTERRUPTED for p in fitted):
            raise KeyboardInterrupt(f"interrupted; go on with --resume (checkpoint in {what.directory})")
        result = _result(what, fitted, seconds, fingerprint)
        archive.write_bytes(what.result_path, json.dumps(_without_nan(result), indent=1).encode())
        shutil.rmtree(checkpoints.directory)
    return result


def smoke(experiment: Experiment, out: pathlib.Path, num_steps: int = 5) -> list[dict[str, Any]]:
    """Every recipe with a few updates: shows that it runs, nothing more."""
    return [
        run(Run.create(experiment, preset, method, (0, 1), out, num_steps), progress=False)
        for preset, recipes in experiment.recipes.items()
        for method in recipes
    ]


def _fit(what: Run, checkpoints: Checkpoints, *, progress: bool) -> tuple[list[Posterior], float]:
    target, recipe = what.experiment.target, what.recipe
    method = loop.Method(recipe.estimator, recipe.optimizer(what.num_steps))

    def start(seed: int) -> loop.FitState:
        family_key, run_key = jax.random.split(jax.random.key(seed))
        return loop.init(run_key, method, recipe.family(family_key, target.dim), target)

    states = [start(seed) for seed in what.seeds]
    state = states[0] if len(states) == 1 else loop.stack(states)
    label = f"{what.experiment.name} {what.preset}-{what.method}"
    with reporter(what.num_steps, show=progress, label=label) as shown:
        driven = drive(method, state, what.num_steps, reporter=shown, checkpoints=checkpoints)
    return posteriors(driven, recipe.estimator, np.zeros(target.dim, np.float32)), driven.seconds


def _finished(what: Run, fingerprint: str, *, resume: bool) -> dict[str, Any]:
    result = json.loads(what.result_path.read_text())
    if not resume:
        raise FileExistsError(
            f"{what.result_path} is there already: pass --resume to keep it, or another --out"
        )
    if result["fingerprint"] != fingerprint:
        raise FileExistsError(
            f"{what.result_path} belongs to another configuration: pass another --out, or the same options"
        )
    return result


def _result(what: Run, fitted: list[Posterior], seconds: float, fingerprint: str) -> dict[str, Any]:
    draws = fitted[0].sample_flat(jax.random.key(1), NUM_FIGURE_DRAWS)
    return {
        "fingerprint": fingerprint,
        "title": what.experiment.title,
        "reference": what.experiment.reference,
        "expected": {"kl": what.experiment.expected[0], "source": what.experiment.expected[1]},
        "config": what.config(),
        "versions": {
            "uivi": uivi.__version__,
            "jax": jax.__version__,
            "python": platform.python_version(),
        },
        "device": f"{jax.devices()[0].device_kind} ({platform.machine()}, {jax.local_device_count()} device)",
        "seconds": seconds,
        "seconds_per_fit": seconds / len(fitted),
        "seeds": [_evaluate(what, p) for p in fitted],
        "history": fitted[0].history,
        "draws": np.round(np.asarray(draws, float), 4).tolist(),
    }


def _evaluate(what: Run, posterior: Posterior) -> dict[str, Any]:
    """The same evaluation for every method."""
    target = what.experiment.target
    values = {
        "diagnosis": posterior.diagnose().to_json(),
        "paper_elbo": bounds.PaperElbo()(jax.random.key(2), posterior.family, target)._asdict(),
    }
    if isinstance(target, AbstractToy):
        values["kl"] = metrics.kl_quadrature(posterior.family, target)._asdict()
    return values


def _describe_shapes(family: Any) -> Any:
    """The description of a family of which only shapes are known."""
    zeros = lambda x: np.zeros(x.shape, x.dtype) if isinstance(x, jax.ShapeDtypeStruct) else x  # noqa: E731
    return _serial.describe(jax.tree.map(zeros, family))


def _name(function: Callable) -> str:
    return f"{function.__module__}:{function.__qualname__}"


def _without_nan(value: Any) -> Any:
    """JSON has no NaN: null instead."""
    if isinstance(value, dict):
        return {k: _without_nan(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
