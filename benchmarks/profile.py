"""Lists the GPU kernels that make up one update, with the times that JAX's profiler records.

    python -m benchmarks.profile [PROBLEM] [METHOD] [FITS]
    python -m benchmarks.profile vae "uivi, default" 32

Prints for each kernel how often an update runs it and how long it takes. FITS is the number of fits side by
side. Without arguments, every case of `uivi bench` is profiled with one fit.
"""

import collections
import gzip
import json
import pathlib
import sys
import tempfile

import jax

from uivi.bench.cases import Case, available_cases
from uivi.bench.measure import timing
from uivi.paper.plan import UPDATE_PRECISION
from uivi.training.update import run_updates, stack_states

UPDATES = 50
MOST_ROWS = 40


def kernels(folder: pathlib.Path) -> list[tuple[str, float]]:
    """Returns the name and the microseconds of every kernel in the newest trace below `folder`."""
    path = max(folder.rglob("*.trace.json.gz"), key=lambda p: p.stat().st_mtime)
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    streams = {
        (e["pid"], e["tid"])
        for e in events
        if e.get("name") == "thread_name" and "Stream" in str(e["args"].get("name", ""))
    }
    return [
        (e["name"], float(e["dur"])) for e in events if e.get("ph") == "X" and (e["pid"], e["tid"]) in streams
    ]


def profile(case: Case, lanes: int) -> None:
    """Prints the kernels of one case."""
    method, state = case.start(UPDATE_PRECISION)
    state = state if lanes == 1 else stack_states([state] * lanes)
    timed = timing(method, state, UPDATES)
    state = timed.state
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            run_updates(method, state, UPDATES)
        seen = kernels(pathlib.Path(folder))
    count: dict[str, int] = collections.defaultdict(int)
    total: dict[str, float] = collections.defaultdict(float)
    for name, duration in seen:
        count[name] += 1
        total[name] += duration
    busy = sum(total.values()) / UPDATES
    launches = sum(count.values()) / UPDATES
    untraced = f"{1e6 * timed.update:.0f} µs per update without tracing"
    print(f"== {case.problem}, {case.method}, {lanes} fits: {untraced}", end=", ")
    print(f"{launches:.0f} kernels, {busy:.0f} µs busy")
    for name, duration in sorted(total.items(), key=lambda item: -item[1])[:MOST_ROWS]:
        print(f"{duration / UPDATES:8.2f} µs {count[name] / UPDATES:7.2f} times  {name[:110]}")
    sys.stdout.flush()


def main() -> None:
    """Profiles the cases that the arguments name."""
    problem, method, lanes = (sys.argv[1:] + ["", "", "1"][len(sys.argv) - 1 :])[:3]
    for case in available_cases():
        if problem in ("", case.problem) and method in ("", case.method):
            profile(case, int(lanes))


if __name__ == "__main__":
    main()
