"""Runs the benchmark of this device, part by part, and writes JSON and a figure."""

import dataclasses
import functools
import json
import pathlib
import platform
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import uivi
from uivi import _checks
from uivi.bench.answer_figure import draw_answers
from uivi.bench.cases import available_cases
from uivi.bench.figure import draw_figure
from uivi.bench.flat import compare
from uivi.bench.measure import LARGE, SMALL, measure_case, product_rate, seconds, side_by_side
from uivi.bench.quality import RACERS, race
from uivi.bench.sweeps import SWEEPS, sweep
from uivi.storage import archive

COPIED = 2**26
"""Number of float32 values in the copy that measures the memory bandwidth."""

Rows = Iterator[dict[str, Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options that every part of the benchmark receives.

    Attributes:
        precision: precision of matrix products inside updates; None for JAX's default.
        quick: whether to leave out the largest sizes and most answers, and to shorten the race.
        say: shows a line of results.
        doing: is told what is measured next.
    """

    precision: str | None
    quick: bool
    say: Callable[[str], None]
    doing: Callable[[str], None]


def run(
    out: pathlib.Path,
    *,
    precision: str | None,
    parts: Sequence[str] = (),
    quick: bool = False,
    say: Callable[[str], None] = print,
    doing: Callable[[str], None] = lambda words: None,
) -> dict[str, Any]:
    """Measures the parts and writes `bench.json` and `bench.png` below `out`, and `answer.png` for answers.

    All times are medians without compilation, except in the part `answer`: its seconds are those of a user's
    first call, with compilation. Each row is written as soon as it is measured. Parts that are already in `out`
    are kept if the device and the versions are the same.

    Args:
        out: directory for the files; it is created if necessary.
        precision: precision of matrix products inside updates; None for JAX's default.
        parts: names from `PARTS`; all if empty.
        quick: whether to leave out the largest sizes and most answers, and to shorten the race.
        say: shows a line of results.
        doing: is told what is measured next.

    Returns:
        The content of `bench.json`.
    """
    chosen = [_checks.known_name("part", name, PARTS) for name in parts] or list(PARTS)
    doing("measuring products and copies")
    found: dict[str, Any] = {
        "device": f"{jax.devices()[0].device_kind} ({platform.machine()}, {jax.local_device_count()} device)",
        "versions": {"uivi": uivi.__version__, "jax": jax.__version__, "python": platform.python_version()},
        "precision": precision or "default",
        "rates": rates(precision),
    }
    say(", ".join(f"{name} {value / 1e9:,.0f} G/s" for name, value in found["rates"].items()))
    out.mkdir(parents=True, exist_ok=True)
    found |= _earlier(out / "bench.json", found)
    options = Options(precision=precision, quick=quick, say=say, doing=doing)
    for name in chosen:
        found[name] = []
        for row in PARTS[name](options):
            found[name].append(row)
            archive.write_bytes(out / "bench.json", (json.dumps(found, indent=1) + "\n").encode())
    archive.write_bytes(out / "bench.png", draw_figure(found))
    if found["answer"]:
        archive.write_bytes(out / "answer.png", draw_answers(found["answer"]))
    return found


def _earlier(path: pathlib.Path, found: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Returns the parts measured earlier by the same versions on the same device, and empty ones otherwise."""
    old = json.loads(path.read_text()) if path.exists() else {}
    is_same = all(old.get(name) == found[name] for name in ("device", "versions", "precision"))
    return {name: old.get(name, []) if is_same else [] for name in PARTS}


def rates(precision: str | None) -> dict[str, float]:
    """Returns FLOP/s of small and large products and bytes/s of a copy: the rooflines of this device."""
    x = jnp.ones((COPIED,), jnp.float32)
    copy = jax.jit(lambda x: x + 1)
    jax.block_until_ready(copy(x))
    copied = seconds(lambda: jax.block_until_ready(copy(x)))
    small, large = (product_rate(shape, precision) for shape in (SMALL, LARGE))
    # A copy reads every byte once and writes it once.
    return {"small": small, "large": large, "copy": 2 * x.nbytes / copied}


def _updates(options: Options) -> Rows:
    for case in available_cases():
        options.doing(f"compiling and timing {case.problem}: {case.method}")
        row = measure_case(case, options.precision)
        options.say(f"{case.problem}: {case.method}, {row['ms']:.3f} ms per update")
        yield row


def _flat(options: Options) -> Rows:
    options.doing("timing the banana's update against a loop without abstractions")
    yield compare(1, 200 if options.quick else 2_000)
    yield compare(100, 20 if options.quick else 200)


def _lanes(options: Options) -> Rows:
    for case in (case for case in available_cases() if case.problem == "vae"):
        for lanes in (1, 2) if options.quick else (1, 2, 8, 32):
            options.doing(f"compiling and timing {lanes} fits side by side: {case.method}")
            row = side_by_side(case, lanes, options.precision)
            options.say(f"{lanes} fits side by side: {case.method}, {row['ms']:.3f} ms per update of all")
            yield row


def _sweep(name: str, options: Options) -> Rows:
    options.doing(f"compiling and timing sizes of {name}")
    settings = SWEEPS[name].quick if options.quick else SWEEPS[name].full
    for row in sweep(settings, jax.random.key(0), options.precision):
        options.say(
            f"{name} {row[name]:,}: {row['ms']:.3f} ms per update, {row['chain_ms']:.3f} ms for ten moves"
        )
        yield row


def _quality(options: Options) -> Rows:
    for name in RACERS:
        options.doing(f"racing to a good fit: {name}")
        yield from race(name, jax.random.key(0), 15.0 if options.quick else 120.0)


def _answer(options: Options) -> Rows:
    # Imported here: `python -m uivi.bench.answer` imports this module, and must not find itself imported by it.
    from uivi.bench import answer

    options.doing("timing fits from the call to the answer, each in a fresh process")
    yield from answer.answers(quick=options.quick, say=options.say)


PARTS: dict[str, Callable[[Options], Rows]] = {
    "updates": _updates,
    "flat": _flat,
    "lanes": _lanes,
    **{name: functools.partial(_sweep, name) for name in SWEEPS},
    "quality": _quality,
    "answer": _answer,
}
"""The parts of the benchmark by name. Each yields the rows of its table."""
