"""Runs contenders: one file for each seed, so that a run that is killed loses one fit only.

`result.json` is made of the files of all seeds that are there, whichever run or process wrote them.
"""

import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import platform
import statistics
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

import uivi
from uivi import _checks
from uivi.paper.experiment import Effort
from uivi.paper.samplers.contenders import AbstractContender, Allowance
from uivi.paper.samplers.contest import PACER, AbstractContest
from uivi.paper.writing import plain, readable
from uivi.storage import archive, descriptions
from uivi.training.progress import AbstractReporter


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trials:
    """One contender of a contest, with its seeds.

    Attributes:
        contest: the problem and its contenders.
        preset: name of the preset.
        method: name of the contender.
        seeds: random seeds; each is a fit of its own.
        effort: how much to spend.
        out: directory of all results.
    """

    contest: AbstractContest
    preset: str
    method: str
    seeds: tuple[int, ...]
    effort: Effort
    out: pathlib.Path

    @classmethod
    def create(
        cls,
        contest: AbstractContest,
        *,
        preset: str,
        method: str,
        seeds: tuple[int, ...],
        out: pathlib.Path,
        num_steps: int | None = None,
        effort: Effort = "full",
    ) -> "Trials":
        """Checks the names and numbers, and that the packages of the contender are installed."""
        _checks.known_name("preset", preset, contest.recipes)
        _checks.known_name("method", method, contest.recipes[preset])
        for seed in seeds:
            _checks.seed("seed", seed)
        if num_steps is not None:
            raise ValueError(
                f"expected no `steps` for {contest.name}, got {num_steps}: what a method may spend is fixed "
                f"({contest.share}); leave it out"
            )
        contest.recipes[preset][method].require()
        return cls(contest=contest, preset=preset, method=method, seeds=seeds, effort=effort, out=out)

    @property
    def contender(self) -> AbstractContender:
        """The contender."""
        return self.contest.recipes[self.preset][self.method]

    @property
    def name(self) -> str:
        """Name of the experiment."""
        return self.contest.name

    @property
    def directory(self) -> pathlib.Path:
        """Directory of all seeds."""
        return self.out / self.name / f"{self.preset}-{self.method}"

    @property
    def result_path(self) -> pathlib.Path:
        """Where the result of all seeds is written."""
        return self.directory / "result.json"

    def seed_path(self, seed: int) -> pathlib.Path:
        """Returns where one fit is written."""
        return self.directory / f"seed-{seed}.json"

    def config(self) -> dict[str, Any]:
        """Returns every setting but the seeds, for JSON."""
        return {
            "experiment": self.name,
            "kind": self.contest.kind,
            "preset": self.preset,
            "method": self.method,
            "effort": self.effort,
            "budget": self.contest.share,
            "contender": descriptions.describe(self.contender),
            "task": self.contest.describe(self.effort),
        }


def run(plan: Trials, shown: AbstractReporter, *, resume: bool) -> dict[str, Any]:
    """Runs all seeds that are not done, and returns the result of all seeds in the directory."""
    for seed in plan.seeds:
        _trial(plan, seed, shown, resume=resume)
    return _joined(plan)


def _trial(plan: Trials, seed: int, shown: AbstractReporter, *, resume: bool) -> dict[str, Any]:
    """Returns the file of one seed. Another process that works on it is waited for."""
    path = plan.seed_path(seed)
    fingerprint = descriptions.fingerprint(plan.config())
    shown.phase(f"waiting for seed {seed}")
    with _held(plan.directory / f"seed-{seed}.lock"):
        if path.exists():
            if not resume:
                raise FileExistsError(
                    f"expected no {path}, found one: pass --resume to keep it, or another --out"
                )
            return _read(path, fingerprint)
        seconds = None
        if plan.contender.is_paced:
            pacer = dataclasses.replace(plan, method=PACER)
            seconds = _trial(pacer, seed, shown, resume=True)["seconds"]
        trial = {"fingerprint": fingerprint} | _measured(plan, seed, Allowance(plan.effort, seconds), shown)
        archive.write_bytes(path, readable(plain(trial)).encode())
    _joined(plan)
    return plain(trial)


def _measured(plan: Trials, seed: int, allowance: Allowance, shown: AbstractReporter) -> dict[str, Any]:
    """Runs the contender and judges it."""
    shown.phase("reading the data")
    target = plan.contest.target(seed)
    entry = plan.contender.compete(jax.random.key(np.uint32(seed)), target, allowance, shown)
    shown.phase(f"evaluating seed {seed}")
    outcome, judged = entry.outcome, plan.contest.judge(seed, entry.outcome, plan.effort)
    cost = {"seed": seed, "seconds": entry.seconds, "allowed": allowance.seconds, "phases": entry.phases}
    return {
        "seed": seed,
        "seconds": entry.seconds,
        "updates": outcome.updates,
        "status": outcome.status,
        "values": judged.values | cost,
        "history": outcome.history,
        "exhibit": judged.exhibit,
        "versions": {"uivi": uivi.__version__, "jax": jax.__version__, "python": platform.python_version()},
        "device": f"{jax.devices()[0].device_kind} ({platform.machine()}, {_cores()})",
        "precision": getattr(jax.config, "jax_default_matmul_precision", None) or "default",
    }


def _joined(plan: Trials) -> dict[str, Any]:
    """Writes and returns the result of all seeds in the directory."""
    config = plan.config()
    fingerprint = descriptions.fingerprint(config)
    with _held(plan.directory / "result.lock"):
        paths = plan.directory.glob("seed-*.json")
        trials = sorted((_read(path, fingerprint) for path in paths), key=lambda trial: trial["seed"])
        first, total = trials[0], sum(trial["seconds"] for trial in trials)
        # Updates are what the clock has allowed: no setting.
        found = {
            "seeds": [trial["seed"] for trial in trials],
            "num_steps": round(statistics.median(trial["updates"] for trial in trials)),
        }
        result = plain(
            {
                "fingerprint": fingerprint,
                "config": config | found,
                "title": plan.contest.title,
                "reference": plan.contest.reference,
                "published": None,
                "versions": first["versions"],
                "device": "; ".join(dict.fromkeys(trial["device"] for trial in trials)),
                "precision": first["precision"],
                "seconds": total,
                "lanes": 1,
                "seconds_per_fit": total / len(trials),
                "status": [trial["status"] for trial in trials],
                "seeds": [trial["values"] for trial in trials],
                "history": first["history"],
                "exhibit": first["exhibit"],
            }
        )
        archive.write_bytes(plan.result_path, readable(result).encode())
    return result


def _read(path: pathlib.Path, fingerprint: str) -> dict[str, Any]:
    """Returns the file of a seed. Raises if it has another configuration."""
    try:
        trial = json.loads(path.read_text())
        is_same = trial["fingerprint"] == fingerprint
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"expected a finished fit in {path}, got something else ({error!r}): delete the file and run again"
        ) from error
    if not is_same:
        raise FileExistsError(
            f"expected the same configuration in {path}, found another: pass the same options, or another --out"
        )
    return trial


@contextlib.contextmanager
def _held(path: pathlib.Path) -> Iterator[None]:
    """Holds a lock while the context lasts, after waiting for a process that has it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise OSError(
            f"cannot write to {path.parent} ({error.strerror}): choose another directory or change its rights"
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _cores() -> str:
    """Returns the number of cores that this process may use, in words."""
    usable = getattr(os, "sched_getaffinity", None)  # not on every system
    number = len(usable(0)) if usable else os.cpu_count() or 1
    return f"{number} core{'' if number == 1 else 's'}"
