"""The whole benchmark of this device: JSON, a figure, a table."""

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
from uivi.bench.cases import cases
from uivi.bench.figure import figure
from uivi.bench.flat import compare
from uivi.bench.measure import LARGE, SMALL, measure, product_rate, seconds, side_by_side
from uivi.bench.quality import RACERS, race
from uivi.bench.sweeps import SWEEPS, sweep
from uivi.storage import archive

COPIED = 2**26
Say = Callable[[str], None]
Rows = Iterator[dict[str, Any]]


def bench(
    out: pathlib.Path,
    precision: str | None,
    parts: Sequence[str] = (),
    *,
    quick: bool = False,
    say: Say = print,
) -> dict[str, Any]:
    """Measure, write `bench.json` and `bench.png` below `out`; return the numbers.

    Medians, compilation excluded. What is measured is written at once; other parts that `out` has of the same
    device and versions are kept.

    Args:
        out: a directory, made if it is not there.
        precision: of products inside updates.
        parts: some of `PARTS`, or all.
        quick: without the largest sizes, and with a shorter race.
        say: shows progress.
    """
    chosen = [_checks.known_name("part", name, PARTS) for name in parts] or list(PARTS)
    found: dict[str, Any] = {
        "device": f"{jax.devices()[0].device_kind} ({platform.machine()}, {jax.local_device_count()} device)",
        "versions": {"uivi": uivi.__version__, "jax": jax.__version__, "python": platform.python_version()},
        "precision": precision or "default",
        "rates": rates(precision),
    }
    say(", ".join(f"{name} {value / 1e9:,.0f} G/s" for name, value in found["rates"].items()))
    out.mkdir(parents=True, exist_ok=True)
    found |= _before(out / "bench.json", found)
    for name in chosen:
        found[name] = []
        for row in PARTS[name](precision, quick, say):
            found[name].append(row)
            archive.write_bytes(out / "bench.json", (json.dumps(found, indent=1) + "\n").encode())
    archive.write_bytes(out / "bench.png", figure(found))
    return found


def _before(path: pathlib.Path, found: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The parts that were measured earlier, if by the same versions on the same device."""
    old = json.loads(path.read_text()) if path.exists() else {}
    is_same = all(old.get(name) == found[name] for name in ("device", "versions", "precision"))
    return {name: old.get(name, []) if is_same else [] for name in PARTS}


def rates(precision: str | None) -> dict[str, float]:
    """FLOP/s of small and large products, bytes/s of a copy: the roofs of this machine."""
    x = jnp.ones((COPIED,), jnp.float32)
    copy = jax.jit(lambda x: x + 1)
    jax.block_until_ready(copy(x))
    copied = seconds(lambda: jax.block_until_ready(copy(x)))
    small, large = (product_rate(shape, precision) for shape in (SMALL, LARGE))
    return {"small": small, "large": large, "copy": 2 * x.nbytes / copied}


def _updates(precision: str | None, quick: bool, say: Say) -> Rows:  # noqa: FBT001
    del quick
    for case in cases():
        row = measure(case, precision)
        say(f"{case.problem}: {case.method}, {row['ms']:.3f} ms an update")
        yield row


def _flat(precision: str | None, quick: bool, say: Say) -> Rows:  # noqa: FBT001
    del precision
    say("against a hand-flattened loop")
    yield compare(1, 200 if quick else 2_000)
    yield compare(100, 20 if quick else 200)


def _lanes(precision: str | None, quick: bool, say: Say) -> Rows:  # noqa: FBT001
    for case in (case for case in cases() if case.problem == "vae"):
        for lanes in (1, 2) if quick else (1, 2, 8, 32):
            row = side_by_side(case, lanes, precision)
            say(f"{lanes} fits side by side: {case.method}, {row['ms']:.3f} ms an update of all")
            yield row


def _sweep(name: str, precision: str | None, quick: bool, say: Say) -> Rows:  # noqa: FBT001
    for row in sweep(name, jax.random.key(0), precision, quick=quick):
        say(f"{name} {row[name]:,}: {row['ms']:.3f} ms an update, {row['chain_ms']:.3f} ms ten moves")
        yield row


def _quality(precision: str | None, quick: bool, say: Say) -> Rows:  # noqa: FBT001
    del precision
    for name in RACERS:
        say(f"time to quality: {name}")
        yield from race(name, jax.random.key(0), 15.0 if quick else 120.0)


PARTS: dict[str, Callable[[str | None, bool, Say], Rows]] = {
    "updates": _updates,
    "flat": _flat,
    "lanes": _lanes,
    **{name: functools.partial(_sweep, name) for name in SWEEPS},
    "quality": _quality,
}
