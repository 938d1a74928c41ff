"""How long a user waits from the call of `uivi.fit` to the verdict, and for NUTS on the same problem.

    python -m uivi.bench.answer CASE METHOD --seed 0

This measures one case in this process and prints one line of JSON. `answers` runs every case and method in a
fresh process without a compile cache, like a user's first call.

The parts of a fit are disjoint and add up to its seconds. The seconds of compilation are another view of the
same time: programs may compile in a background thread beside other parts. So parts and compilation together may
add up to more than the total.
"""

import argparse
import contextlib
import importlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from uivi.bench.answer_cases import (
    NAMES,
    NUM_DRAWS,
    QUICK,
    AbstractCase,
    load_case,
    why_skipped,
)
from uivi.evaluation.metrics import distance
from uivi.training.progress import CHECKING, LOOKING, UPDATES, AbstractReporter, print_verdict

FIRST_DRAWS = 1_000
"""Number of draws that a user asks for first."""
LARGEST = 12
"""Number of programs whose compilation is listed by name."""
REST = "all others"
LIMIT = 1_800.0
"""Seconds after which a process is stopped."""
LAST_LINES = 5
"""Number of lines that are shown of a process that failed."""
PARTS = ("reading", "search", "waiting", "updates", "looks", "check", "other")
"""Parts of the seconds of `uivi.fit`: disjoint, and all of them."""
PHASES = {
    "reading the model": "reading",
    "searching for a start": "search",
    "compiling": "waiting",
    CHECKING: "check",
}
"""The part of each phase that a fit reports. An unknown phase counts as other."""


class Stopwatch(AbstractReporter):
    """Splits the seconds of a fit into parts, by what the fit reports.

    A report of updates has their rate, so their own seconds are known. The rest of the time since the last
    report belongs to the phase that went on, or to a look at the bound if there was none.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter):
        """Starts to count."""
        self._clock = clock
        self._since = clock()
        self._part, self._step, self._in_updates = "other", 0, False
        self.seconds: dict[str, float] = dict.fromkeys(PARTS, 0.0)

    def phase(self, name: str) -> None:
        """Ends what went on, and begins the part of this phase."""
        self.finish()
        self._part = "looks" if name.startswith(LOOKING) else PHASES.get(name, "other")
        # What is not an update in the chunks of a round is a look.
        self._in_updates = name == UPDATES or name.startswith("round ")

    def update(self, step: int, total: int, rate: float, bound: str) -> None:
        """Counts the updates since the last report, and whatever else happened since then."""
        del total, bound
        elapsed = self._lap()
        updates = min((step - self._step) / rate, elapsed)
        self.seconds["updates"] += updates
        self.seconds["looks" if self._in_updates else self._part] += elapsed - updates
        self._step, self._in_updates = step, True

    def finish(self) -> float:
        """Ends what went on; returns all seconds so far."""
        self.seconds["other" if self._in_updates else self._part] += self._lap()
        self._part, self._in_updates = "other", False
        return sum(self.seconds.values())

    def _lap(self) -> float:
        now = self._clock()
        elapsed, self._since = now - self._since, now
        return elapsed


class Programs:
    """Collects the seconds that the compilation of each program takes, in any thread."""

    def __init__(self):
        self._found: list[tuple[str, float]] = []

    def __call__(self, event: str, duration_secs: float, **kwargs: Any) -> None:
        """Hears of an event of JAX."""
        if "backend_compile" in event:
            name = str(kwargs.get("fun_name", "unknown")).removeprefix("jit(").removesuffix(")")
            self._found.append((name, duration_secs))

    def total(self) -> float:
        """Returns the seconds of all programs together."""
        return sum(duration for _, duration in self._found)

    def by_name(self) -> dict[str, float]:
        """Returns the seconds of the largest programs by name, and of all others together."""
        names: dict[str, float] = {}
        for name, duration in self._found:
            names[name] = names.get(name, 0.0) + duration
        ranked = sorted(names.items(), key=lambda item: -item[1])
        rest = sum(duration for _, duration in ranked[LARGEST:])
        return dict(ranked[:LARGEST]) | ({REST: rest} if rest else {})


@contextlib.contextmanager
def listening() -> Iterator[Programs]:
    """Collects what is compiled while the context lasts."""
    programs = Programs()
    jax.monitoring.register_event_duration_secs_listener(programs)
    try:
        yield programs
    finally:
        jax.monitoring.unregister_event_duration_listener(programs)


def measure_uivi(case: AbstractCase, seed: int) -> dict[str, Any]:
    """Times `uivi.fit` until its verdict is printed, and then the first draws."""
    with listening() as programs:
        watch = Stopwatch()
        posterior = case.fit(jax.random.key(seed), watch)
        found = posterior.check()
        print_verdict(found)
        seconds = watch.finish()
    began = time.perf_counter()
    jax.block_until_ready(posterior.sample(jax.random.key(seed + 1), FIRST_DRAWS))
    first_sample = time.perf_counter() - began
    return {
        "seconds": seconds,
        "parts": watch.seconds,
        "compile_seconds": programs.total(),
        "compile_by_program": programs.by_name(),
        "sample_seconds": first_sample,
        "updates": posterior.history["step"][-1],
        "verdict": str(found.verdict),
        "pareto_k": _finite(found.pareto_k),
        **_distances(case, posterior.sample(jax.random.key(seed + 2), NUM_DRAWS)),
    }


def measure_nuts(case: AbstractCase, seed: int) -> dict[str, Any]:
    """Times NumPyro's NUTS until its draws are there."""
    with listening() as programs:
        began = time.perf_counter()
        mcmc = case.nuts(jax.random.key(seed))
        draws = jax.block_until_ready(mcmc.get_samples())
        seconds = time.perf_counter() - began
    return {
        "seconds": seconds,
        "compile_seconds": programs.total(),
        "divergences": int(np.sum(mcmc.get_extra_fields()["diverging"])),
        **_distances(case, draws),
    }


def _distances(case: AbstractCase, draws: PyTree) -> dict[str, float | None]:
    found = distance(case.flat(draws), case.flat(case.reference()))
    return {"distance": _finite(found.over_noise), "distance_sds": _finite(found.sds)}


def _finite(value: float) -> float | None:
    """Returns None for a number that JSON does not have."""
    return float(value) if math.isfinite(value) else None


METHODS: dict[str, Callable[[AbstractCase, int], dict[str, Any]]] = {
    "uivi": measure_uivi,
    "nuts": measure_nuts,
}
PACKAGES = {"uivi": "uivi", "nuts": "numpyro"}
"""What a user of each method imports beside JAX."""


def import_seconds(package: str) -> float:
    """Returns the seconds of an import after JAX's, in a process of its own.

    In this process, `python -m` has imported `uivi` before any line of this module ran.
    """
    code = (
        f"import time, jax; began = time.perf_counter(); import {package}; print(time.perf_counter() - began)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def measure(name: str, method: str, seed: int) -> dict[str, Any]:
    """Returns the row of one case and method.

    All imports and JAX's devices are ready before the clock starts. The reference is made after the clock has
    stopped, so that the methods find none of its programs compiled.
    """
    package = PACKAGES[method]
    importlib.import_module(package)
    case = load_case(name)
    jax.devices()
    row = {"case": name, "method": method, "seed": seed, "dim": case.dim}
    found = METHODS[method](case, seed)
    return row | found | {"import_seconds": import_seconds(package)}


class ChildError(RuntimeError):
    """A process that gave no answer. The message has its last lines."""


def run_child(name: str, method: str, seed: int) -> dict[str, Any]:
    """Returns the row of one case and method from a fresh process without a compile cache."""
    command = [sys.executable, "-m", "uivi.bench.answer", name, method, "--seed", str(seed)]
    environment = {key: value for key, value in os.environ.items() if key != "JAX_COMPILATION_CACHE_DIR"}
    # This process holds most of a GPU's memory already; a second one could not set aside as much.
    environment.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired as error:
        raise ChildError(f"no answer within {LIMIT:,.0f} seconds") from error
    return read_answer(done.returncode, done.stdout, done.stderr)


def read_answer(code: int, printed: str, errors: str) -> dict[str, Any]:
    """Returns the row that a process printed as its last line.

    Args:
        code: its exit code.
        printed: what it wrote to standard output.
        errors: what it wrote to standard error.

    Raises:
        ChildError: if the process failed or printed no row.
    """
    lines = printed.split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    if not code:
        with contextlib.suppress(json.JSONDecodeError):
            row = json.loads(last)
            if isinstance(row, dict):
                return row
    shown = [line for line in (errors.strip() or printed.strip()).splitlines() if line.strip()][-LAST_LINES:]
    raise ChildError("\n".join([f"exit code {code}, no row", *shown]))


def answers(*, quick: bool, say: Callable[[str], None], seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yields one row per case, with both methods.

    A case that cannot run here is skipped with a line. A process that fails is reported with its last lines,
    and its numbers are None.

    Args:
        quick: whether to run two cases only.
        say: shows a line of progress.
        seed: seed of both methods.
    """
    for name in QUICK if quick else NAMES:
        if reason := why_skipped(name):
            say(f"{name}: skipped, because {reason}")
            continue
        found: dict[str, dict[str, Any]] = {}
        errors: dict[str, str] = {}
        for method in METHODS:
            try:
                found[method] = run_child(name, method, seed)
                say(in_words(found[method]))
            except ChildError as error:
                errors[method] = str(error)
                say(f"{name}, {method}: failed\n{error}")
        yield joined(name, found, errors)


def in_words(row: dict[str, Any]) -> str:
    """Returns one line about one method: its seconds, and their parts if it has any."""
    parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in row.get("parts", {}).items())
    return f"{row['case']}, {row['method']}: {row['seconds']:.1f} s" + (f" ({parts})" if parts else "")


def joined(name: str, found: dict[str, dict[str, Any]], errors: dict[str, str]) -> dict[str, Any]:
    """Returns the row of a case: what the table shows, and all that both methods reported.

    Args:
        name: the case.
        found: the row of each method that gave one.
        errors: the last lines of each method that failed.
    """
    ours, theirs = (found.get(method, {}) for method in METHODS)
    return {
        "case": name,
        "dim": ours.get("dim", theirs.get("dim")),
        "uivi_seconds": ours.get("seconds"),
        "nuts_seconds": theirs.get("seconds"),
        "ratio": ours["seconds"] / theirs["seconds"] if ours and theirs else None,
        "uivi_distance": ours.get("distance"),
        "nuts_distance": theirs.get("distance"),
        "verdict": ours.get("verdict"),
        "uivi": ours or None,
        "nuts": theirs or None,
        "errors": errors,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures one case and prints its row."""
    parser = argparse.ArgumentParser(
        prog="python -m uivi.bench.answer", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("case", choices=NAMES, metavar="CASE", help=", ".join(NAMES))
    parser.add_argument("method", choices=METHODS, metavar="METHOD", help=", ".join(METHODS))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    # A cache that another setting names would hide the seconds of compilation.
    jax.config.update("jax_enable_compilation_cache", val=False)
    print(json.dumps(measure(given.case, given.method, given.seed)))


if __name__ == "__main__":
    main()
