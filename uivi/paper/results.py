"""Looks up values in a result: the content of one `result.json`, written by the runner."""

import itertools
import statistics
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

Result = dict[str, Any]
T = TypeVar("T", bound=Hashable)

EFFORTS = ("full", "quick", "smoke")
LARGEST = 1e300
"""A number beyond this is no result, and sums and figures would overflow."""
COMPILES = 20
"""A stretch of updates this many times slower than the median stretch contains a compilation."""


def distinct(items: Iterable[T]) -> list[T]:
    """Returns each item once, in order of first appearance."""
    return list(dict.fromkeys(items))


def grouped(results: list[Result], key: Callable[[Result], T]) -> dict[T, list[Result]]:
    """Returns the results under each value of `key`, in order of first appearance."""
    return {name: [r for r in results if key(r) == name] for name in distinct(map(key, results))}


def experiment_name(result: Result) -> str:
    """Returns the name of the experiment."""
    return result["config"]["experiment"]


def preset_label(result: Result) -> str:
    """Returns the preset, followed by the effort unless that is full."""
    name, effort = result["config"]["preset"], result["config"]["effort"]
    return name if effort == "full" else f"{name} ({effort})"


def label(result: Result) -> str:
    """Returns method, preset and effort, as in the legends of figures."""
    effort = result["config"]["effort"]
    mark = "" if effort == "full" else f", {effort}"
    return f"{result['config']['method']} ({result['config']['preset']}{mark})"


def run_name(result: Result) -> str:
    """Returns experiment, preset and method, named like the directory of the result."""
    return f"{experiment_name(result)} {result['config']['preset']}-{result['config']['method']}"


def look_up(values: Any, *path: str) -> Any:
    """Returns the entry under `path`, or None if any part of the path is missing."""
    for part in path:
        values = values.get(part) if isinstance(values, dict) else None
    return values


def look_up_number(values: Any, *path: str) -> float | None:
    """Returns the number under `path`, or None if there is none."""
    found = look_up(values, *path)
    return float(found) if is_number(found) else None


def is_number(value: Any) -> bool:
    """Returns whether a value of a file is a finite number."""
    return type(value) in (int, float) and abs(value) < LARGEST


def values(result: Result, *path: str) -> list[float]:
    """Returns the value under `path` for every seed that has one."""
    found = (look_up_number(seed, *path) for seed in result["seeds"])
    return [value for value in found if value is not None]


def median(result: Result, *path: str) -> float | None:
    """Returns the median over the seeds, or None if no seed has the value."""
    found = values(result, *path)
    return statistics.median(found) if found else None


def curve(result: Result, column: str, against: str = "step") -> tuple[list[float], list[float]]:
    """Returns one column of the first seed's history against another, at rows that have both.

    Against "seconds", the time of compilation is left out.
    """
    history = result["history"]
    across = _times(result) if against == "seconds" else history.get(against, [])
    pairs = zip(across, history.get(column, []), strict=False)
    known = [(float(x), float(y)) for x, y in pairs if x is not None and y is not None]
    return [x for x, _ in known], [y for _, y in known]


def seconds_per_update(result: Result) -> float | None:
    """Returns the time of an update of one fit without compilation. Fits side by side share the time."""
    steps, times = result["history"].get("step", []), _times(result)
    return times[-1] / steps[-1] / result["lanes"] if len(steps) > 1 else None


def _times(result: Result) -> list[float]:
    """Returns the seconds at each row of the history, without compilation.

    The first stretch contains a compilation, and so does the first stretch of a resumed run. The history does
    not record how long it took, so such a stretch is given the pace of the median stretch.
    """
    steps, seconds = ([0.0, *result["history"].get(name, [])] for name in ("step", "seconds"))
    lengths = [after - before for before, after in itertools.pairwise(steps)]
    paces = [(b - a) / n for (a, b), n in zip(itertools.pairwise(seconds), lengths, strict=True)]
    if len(paces) < 2:
        return seconds[1:]
    usual = statistics.median(paces[1:])
    cleaned = [usual, *(usual if pace > COMPILES * usual else pace for pace in paces[1:])]
    return list(itertools.accumulate(pace * n for pace, n in zip(cleaned, lengths, strict=True)))
