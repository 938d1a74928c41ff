"""Runs any experiment: fits its seeds, evaluates the fits, writes `result.json`."""

import json
import platform
import shutil
import time
from typing import Any

import jax
import numpy as np

import uivi
from uivi import gpu
from uivi._types import Status
from uivi.fitting.fit import posteriors
from uivi.fitting.posterior import Posterior
from uivi.paper.experiment import AbstractTask, Experiment
from uivi.paper.granting import granted
from uivi.paper.plan import UPDATE_PRECISION, Run, first_state
from uivi.paper.samplers import trials
from uivi.paper.samplers.trials import Trials
from uivi.paper.writing import plain, readable
from uivi.storage import archive, descriptions
from uivi.storage.checkpoints import Checkpoints, locked_directory
from uivi.training.driver import drive
from uivi.training.progress import DONE, AbstractReporter, reporter

CHECKPOINTS = "checkpoint"
"""Name of the directory with the checkpoints of a run."""


def run(plan: Run | Trials, *, resume: bool = False, progress: bool = True) -> list[dict[str, Any]]:
    """Fits all lanes side by side, evaluates each fit and writes `result.json`.

    The fits of a contender run one after the other; see `uivi.paper.samplers.trials`.

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
        if isinstance(plan, Trials):
            results = [trials.run(plan, shown, resume=resume)]
        else:
            results = _run(plan, shown, resume=resume)
        shown.phase(DONE)
    return results


def _run(plan: Run, shown: AbstractReporter, *, resume: bool) -> list[dict[str, Any]]:
    shown.phase("reading the data")
    tasks = [experiment.task(plan.effort) for experiment in plan.experiments]
    with locked_directory(plan.directory):
        if not resume:
            _refuse_earlier(plan)
        grant = granted(plan, tasks, shown, resume=resume)
        configs = [plan.config(e, t, grant) for e, t in zip(plan.experiments, tasks, strict=True)]
        fingerprints = [descriptions.fingerprint(config) for config in configs]
        done = [_finished(plan, *pair) for pair in zip(plan.experiments, fingerprints, strict=True)]
        if all(done):
            return [result for result in done if result]
        checkpoints = Checkpoints(plan.directory / CHECKPOINTS, descriptions.fingerprint(fingerprints))
        lanes, seconds = _fit(plan, tasks, grant.updates, checkpoints, shown)
        if any(fit.status is Status.INTERRUPTED for fit in lanes):
            raise KeyboardInterrupt(f"interrupted: pass --resume to continue from {checkpoints.directory}")
        results = []
        for i, (experiment, task) in enumerate(zip(plan.experiments, tasks, strict=True)):
            fits = lanes[i * len(plan.seeds) : (i + 1) * len(plan.seeds)]
            parts = {"fingerprint": fingerprints[i], "config": configs[i], "timed": grant.seconds}
            result = plain(parts | _result(plan, experiment, task, fits, seconds, shown))
            path = plan.result_path(experiment)
            path.parent.mkdir(parents=True, exist_ok=True)
            archive.write_bytes(path, readable(result).encode())
            results.append(result)
        # Only now: a crash during the evaluation must not cost the fit.
        shutil.rmtree(checkpoints.directory)
    return results


def _fit(
    plan: Run, tasks: list[AbstractTask], num_steps: int, checkpoints: Checkpoints, shown: AbstractReporter
) -> tuple[list[Posterior], float]:
    """Returns the fits, experiment by experiment and seed by seed, and the seconds of all updates."""
    shown.phase("making the first state")
    method, state, dim = first_state(plan, tasks, num_steps)
    monitors = [task.monitors(num_steps, plan.recipe) for task in tasks]
    driven = drive(
        method,
        state,
        num_steps,
        reporter=shown,
        checkpoints=checkpoints,
        monitors=[list(lanes) for lanes in zip(*[m for m in monitors for _ in plan.seeds], strict=True)],
        keep_best=plan.recipe.keep_best,
    )
    return posteriors(driven, np.zeros(dim, np.float32)), driven.seconds


def _refuse_earlier(plan: Run) -> None:
    """Raises if there is a result or an unfinished run."""
    for experiment in plan.experiments:
        if (path := plan.result_path(experiment)).exists():
            raise FileExistsError(f"expected no {path}, found one: pass --resume to keep it, or another --out")
    if Checkpoints(plan.directory / CHECKPOINTS, "").newest():
        raise FileExistsError(
            f"expected no earlier run in {plan.directory}, found an unfinished one: pass --resume to continue "
            "it, or another --out"
        )


def _finished(plan: Run, experiment: Experiment, fingerprint: str) -> dict[str, Any] | None:
    """Returns the result of an earlier run, or None. Raises if it has another configuration."""
    path = plan.result_path(experiment)
    if not path.exists():
        return None
    result = json.loads(path.read_text())
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
