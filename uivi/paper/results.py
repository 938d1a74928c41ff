"""Reads results."""

import itertools
import json
import pathlib
import re
import statistics
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from uivi.paper import EXPERIMENTS

Result = dict[str, Any]
T = TypeVar("T", bound=Hashable)

PRESETS = ("paper", "default")
EFFORTS = ("full", "quick", "smoke")
COMPILES = 20
"""A stretch of updates that is so many times slower than the median one holds a compilation."""


def load_results(directory: pathlib.Path) -> list[Result]:
    """All `result.json` files below `directory`, in a fixed order."""
    paths = sorted(pathlib.Path(directory).glob("**/result.json"))
    if not paths:
        raise FileNotFoundError(
            f"expected results below {directory}, found none: run `uivi run toy --out {directory}` first"
        )
    return sorted((_load(path) for path in paths), key=_order)


def _load(path: pathlib.Path) -> Result:
    try:
        result = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not a whole result ({error}): delete it and run again") from error
    if "kind" not in result.get("config", {}):
        raise ValueError(f"{path} was written by another version of uivi: delete it and run again")
    return result


def _order(result: Result) -> tuple:
    config = result["config"]
    name, preset, method = config["experiment"], config["preset"], config["method"]
    digits = [int(number) for number in re.findall(r"\d+", method)]
    return _place(name, tuple(EXPERIMENTS)), name, _place(preset, PRESETS), preset, digits, method


def _place(name: str, names: tuple[str, ...]) -> int:
    return names.index(name) if name in names else len(names)


def distinct(items: Iterable[T]) -> list[T]:
    """Each item once, in the order of the first."""
    return list(dict.fromkeys(items))


def grouped(results: list[Result], key: Callable[[Result], T]) -> dict[T, list[Result]]:
    """The results under each value of `key`, in the order of the first."""
    return {name: [r for r in results if key(r) == name] for name in distinct(map(key, results))}


def experiment(result: Result) -> str:
    """The experiment's name."""
    return result["config"]["experiment"]


def preset(result: Result) -> str:
    """The preset, marked where the effort was not the full one."""
    name, effort = result["config"]["preset"], result["config"]["effort"]
    return name if effort == "full" else f"{name} ({effort})"


def label(result: Result) -> str:
    """Method and preset, for legends."""
    effort = result["config"]["effort"]
    mark = "" if effort == "full" else f", {effort}"
    return f"{result['config']['method']} ({result['config']['preset']}{mark})"


def name(result: Result) -> str:
    """As in the directory of the result."""
    return f"{experiment(result)} {result['config']['preset']}-{result['config']['method']}"


def look_up(values: Any, *path: str) -> Any:
    """The entry under `path`, or None where there is none."""
    for part in path:
        values = None if values is None else values.get(part)
    return values


def values(result: Result, *path: str) -> list[float]:
    """The value under `path` for every seed, without those that do not apply."""
    found = (look_up(seed, *path) for seed in result["seeds"])
    return [float(value) for value in found if value is not None]


def median(result: Result, *path: str) -> float | None:
    """Median over the seeds, or None where it does not apply."""
    found = values(result, *path)
    return statistics.median(found) if found else None


def curve(result: Result, column: str, against: str = "step") -> tuple[list[float], list[float]]:
    """A column of the first seed's history against another, where both are known.

    Against "seconds", compilation is left out.
    """
    history = result["history"]
    across = _times(result) if against == "seconds" else history.get(against, [])
    pairs = zip(across, history.get(column, []), strict=False)
    known = [(float(x), float(y)) for x, y in pairs if x is not None and y is not None]
    return [x for x, _ in known], [y for _, y in known]


def seconds_per_update(result: Result) -> float | None:
    """Of one fit, compilation left out; fits that ran side by side share the time."""
    steps, times = result["history"].get("step", []), _times(result)
    return times[-1] / steps[-1] / result["lanes"] if len(steps) > 1 else None


def _times(result: Result) -> list[float]:
    """Seconds at each row of the history, without compilation.

    The first stretch and those after a resumed run hold one: they count as long as the median stretch.
    """
    steps, seconds = ([0.0, *result["history"].get(name, [])] for name in ("step", "seconds"))
    lengths = [after - before for before, after in itertools.pairwise(steps)]
    paces = [(b - a) / n for (a, b), n in zip(itertools.pairwise(seconds), lengths, strict=True)]
    if len(paces) < 2:
        return seconds[1:]
    usual = statistics.median(paces[1:])
    cleaned = [usual, *(usual if pace > COMPILES * usual else pace for pace in paces[1:])]
    return list(itertools.accumulate(pace * n for pace, n in zip(cleaned, lengths, strict=True)))
