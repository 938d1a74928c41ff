"""Reads results."""

import json
import pathlib
import statistics
from typing import Any

Result = dict[str, Any]


def load_results(directory: pathlib.Path) -> list[Result]:
    """All `result.json` files below `directory`, in a fixed order."""
    paths = sorted(pathlib.Path(directory).glob("**/result.json"))
    if not paths:
        raise FileNotFoundError(
            f"expected results below {directory}, found none: run `uivi run toy --out {directory}` first"
        )
    results = []
    for path in paths:
        try:
            results.append(json.loads(path.read_text()))
        except json.JSONDecodeError as error:
            raise ValueError(f"{path} is not a whole result ({error}): delete it and run again") from error
    order = {"paper": 0, "default": 1}
    return sorted(results, key=lambda r: (r["config"]["experiment"], order.get(r["config"]["preset"], 2)))


def values(result: Result, *path: str) -> list[float]:
    """The value under `path` for every seed, without those that do not apply."""
    found = []
    for seed in result["seeds"]:
        value: Any = seed
        for part in path:
            value = None if value is None else value.get(part)
        if value is not None:
            found.append(value)
    return found


def median(result: Result, *path: str) -> float | None:
    """Median over the seeds, or None where it does not apply."""
    found = values(result, *path)
    return statistics.median(found) if found else None
