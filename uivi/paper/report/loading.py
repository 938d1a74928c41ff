"""Reads the `result.json` files below a directory. A file that cannot be shown does not hide the others."""

import json
import math
import pathlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from uivi.paper.experiments import EXPERIMENTS
from uivi.paper.results import Result

PRESETS = ("paper", "default")
KINDS = ("toy", "logreg", "iterations", "vae")


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
        FileNotFoundError: if there is no file.
        ValueError: if none of the files can be shown, with the reason of each.
    """
    paths = sorted(pathlib.Path(directory).glob("**/result.json"))
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
            f"expected a result of this version of uivi in {path}, got one of another ({fault}): delete it and "
            "run again"
        )
    return result


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_history(value: Any) -> bool:
    """Whether all columns are numbers with gaps, and as long as the steps, which grow."""
    if not isinstance(value, dict) or not all(isinstance(column, list) for column in value.values()):
        return False
    steps, seconds = value.get("step", []), value.get("seconds", [])
    if not all(_is_number(x) for x in [*steps, *seconds]) or len(steps) != len(seconds):
        return False
    if any(a >= b for a, b in zip([0, *steps], steps, strict=False)):
        return False
    return all(x is None or _is_number(x) for column in value.values() for x in column)


SHAPE: dict[str, Callable[[Any], bool]] = {
    "config.kind": lambda x: isinstance(x, str) and x in KINDS,
    "config.experiment": lambda x: isinstance(x, str),
    "config.preset": lambda x: isinstance(x, str),
    "config.method": lambda x: isinstance(x, str),
    "config.effort": lambda x: isinstance(x, str),
    "config.seeds": lambda x: isinstance(x, list) and all(type(seed) is int for seed in x),
    "config.num_steps": lambda x: type(x) is int,
    "config.task": lambda x: isinstance(x, dict),
    "title": lambda x: isinstance(x, str),
    "fingerprint": lambda x: isinstance(x, str),
    "device": lambda x: isinstance(x, str),
    "precision": lambda x: isinstance(x, str),
    "versions": lambda x: isinstance(x, dict),
    "status": _is_texts,
    "lanes": lambda x: type(x) is int and x > 0,
    "seconds": _is_number,
    "seconds_per_fit": _is_number,
    "seeds": lambda x: isinstance(x, list) and bool(x) and all(isinstance(seed, dict) for seed in x),
    "history": _is_history,
    "exhibit": lambda x: isinstance(x, dict),
    "published": lambda x: x is None or (isinstance(x, dict) and _is_number(x.get("value"))),
}
"""What the report needs of a result: the place of each entry, and whether a value can be shown."""


def _fault(result: Any) -> str:
    """Returns what keeps a result from being shown, or an empty string."""
    if not isinstance(result, dict):
        return f"a {type(result).__name__} in place of entries"
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
