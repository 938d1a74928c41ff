"""Reads the `result.json` files below a directory."""

import json
import pathlib
import re

from uivi.paper.experiments import EXPERIMENTS
from uivi.paper.results import Result

PRESETS = ("paper", "default")


def load_results(directory: pathlib.Path) -> list[Result]:
    """Loads every `result.json` below `directory`, in the order of the paper.

    Raises:
        FileNotFoundError: if there is no result.
        ValueError: if a file is incomplete or was written by another version.
    """
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
        raise ValueError(
            f"expected a complete result in {path}, got broken JSON ({error}): delete it and run again"
        ) from error
    if "kind" not in result.get("config", {}):
        raise ValueError(
            f"expected a result of this version of uivi in {path}, got one of another: delete it and run again"
        )
    return result


def _order(result: Result) -> tuple:
    config = result["config"]
    name, preset, method = config["experiment"], config["preset"], config["method"]
    # By number where a method has one: hmc-5 comes before hmc-20.
    digits = [int(number) for number in re.findall(r"\d+", method)]
    return _place(name, tuple(EXPERIMENTS)), name, _place(preset, PRESETS), preset, digits, method


def _place(name: str, names: tuple[str, ...]) -> int:
    return names.index(name) if name in names else len(names)
