"""Reads the `result.json` files below a directory. A file that cannot be shown does not hide the others."""

import base64
import json
import pathlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from uivi.paper.experiments import EXPERIMENTS
from uivi.paper.results import Result, is_number, look_up

PRESETS = ("paper", "default", "exact", "bound", "score", "coupled", "updates", "seconds")
KINDS = ("toy", "logreg", "iterations", "vae", "vae-prior", "methods", "samplers", "networks")
IMAGE = 28 * 28
"""Number of pixels of an image, each a byte."""


class Loaded(NamedTuple):
    """The results below a directory.

    Attributes:
        results: the results that can be shown, in the order of the paper.
        faults: for each other file, what is wrong with it and what to do.
    """

    results: list[Result]
    faults: list[str]


def load_results(directory: pathlib.Path) -> Loaded:
    """Loads every `result.json` below `directory`.

    Raises:
        NotADirectoryError: if `directory` is a file.
        FileNotFoundError: if there is no file below it.
        ValueError: if none of the files can be shown, with the reason of each.
    """
    directory = pathlib.Path(directory)
    if directory.is_file():
        raise NotADirectoryError(
            f"expected a directory with results, got the file {directory}: give its directory, "
            f"{directory.parent}"
        )
    paths = sorted(directory.glob("**/result.json"))
    if not paths:
        raise FileNotFoundError(
            f"expected results below {directory}, found none: run `uivi run toy --out {directory}` first"
        )
    found, faults = [], []
    for path in paths:
        try:
            found.append(_load(path))
        except ValueError as error:
            faults.append(str(error))
    if not found:
        raise ValueError("\n".join(faults))
    return Loaded(sorted(found, key=_order), faults)


def _load(path: pathlib.Path) -> Result:
    try:
        result = json.loads(path.read_text())
    except (ValueError, OSError, RecursionError) as error:
        raise ValueError(
            f"expected a complete result in {path}, got broken JSON ({error}): delete it and run again"
        ) from error
    if fault := _fault(result):
        raise ValueError(
            f"expected a result of this version of uivi in {path}, got something else ({fault}): delete it and "
            "run again"
        )
    return result


def _is_seeds(value: Any) -> bool:
    """Whether there is an entry for a seed at least. A value that is no number counts as missing."""
    return _is_list(value, dict) and bool(value) and all(map(_has_drift, value))


def _has_drift(seed: dict[str, Any]) -> bool:
    rows = seed.get("drift") or []
    return _is_list(rows, dict) and all(
        all(type(row.get(name)) is int and row[name] > 0 for name in ("draws", "mixing"))
        and all(row.get(name) is None or is_number(row[name]) for name in ("paper", "lower"))
        for row in rows
    )


def _is_exhibit(value: Any) -> bool:
    """Whether draws are points of the plane, images whole, and as many as their reconstructions."""
    if not isinstance(value, dict):
        return False
    draws = value.get("draws") or []
    if not _is_list(draws, list) or not all(len(z) == 2 and all(map(is_number, z)) for z in draws):
        return False
    sizes = [_count_bytes(value.get(name, "")) for name in ("images", "reconstructions", "generated")]
    return sizes[0] == sizes[1] and all(size % IMAGE == 0 for size in sizes)


def _count_bytes(text: Any) -> int:
    """Returns the number of bytes that a text in base64 stands for, or -1 if it is none."""
    try:
        return len(base64.b64decode(text, validate=True))
    except (TypeError, ValueError):
        return -1


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)


def _is_history(value: Any) -> bool:
    """Whether all columns are numbers with gaps, and as long as the steps, which grow."""
    if not isinstance(value, dict) or not all(isinstance(column, list) for column in value.values()):
        return False
    steps, seconds = value.get("step", []), value.get("seconds", [])
    if not all(is_number(x) for x in [*steps, *seconds]) or len(steps) != len(seconds):
        return False
    if any(a >= b for a, b in zip([0, *steps], steps, strict=False)):
        return False
    return all(x is None or is_number(x) for column in value.values() for x in column)


SHAPE: dict[str, Callable[[Any], bool]] = {
    "config.kind": lambda x: _is_text(x) and x in KINDS,
    "config.experiment": _is_text,
    "config.preset": _is_text,
    "config.method": _is_text,
    "config.effort": _is_text,
    "config.seeds": lambda x: isinstance(x, list) and all(type(seed) is int for seed in x),
    "config.num_steps": lambda x: type(x) is int,
    "config.task": lambda x: isinstance(x, dict),
    "title": _is_text,
    "fingerprint": _is_text,
    "device": _is_text,
    "precision": _is_text,
    "versions": lambda x: isinstance(x, dict),
    "status": lambda x: _is_list(x, str),
    "lanes": lambda x: type(x) is int and x > 0,
    "seconds": is_number,
    "seconds_per_fit": is_number,
    "seeds": _is_seeds,
    "history": _is_history,
    "exhibit": _is_exhibit,
    "published": lambda x: x is None or (is_number(look_up(x, "value")) and _is_text(look_up(x, "source"))),
}
"""What the report needs of a result: the place of each entry, and whether a value can be shown."""


def _fault(result: Any) -> str:
    """Returns what keeps a result from being shown, or an empty string."""
    if not isinstance(result, dict):
        return f"{json.dumps(result)[:40]} in place of named entries"
    for place, is_right in SHAPE.items():
        value = result
        for name in place.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if value is None and place != "published":
            return f"without {place}"
        if not is_right(value):
            return f"{place} is {str(value)[:60]!r}"
    return ""


def _order(result: Result) -> tuple:
    config = result["config"]
    name, preset, method = config["experiment"], config["preset"], config["method"]
    # By number where a method has one: hmc-5 comes before hmc-20.
    digits = [int(number) for number in re.findall(r"\d+", method)]
    return _place(name, tuple(EXPERIMENTS)), name, _place(preset, PRESETS), preset, digits, method


def _place(name: str, names: tuple[str, ...]) -> int:
    return names.index(name) if name in names else len(names)
