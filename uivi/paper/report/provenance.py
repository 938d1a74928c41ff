"""The last section of the page: how each result was made."""

from uivi.paper.experiment import Recipe
from uivi.paper.experiments import EXPERIMENTS
from uivi.paper.report import markup
from uivi.paper.report.columns import Column, number
from uivi.paper.results import Result, distinct, experiment_name

STATUS = {"NONFINITE": "ended with numbers that are not finite", "RUNNING": "not finished"}
"""The words for a status whose name does not say enough."""


def protocol(result: Result) -> str:
    """Returns the effort, and the number of updates if it differs from the recipe's."""
    config = result["config"]
    if config["effort"] != "full":
        return f"{config['effort']}: not the paper's protocol"
    steps = _recipe_steps(result)
    if steps is None or steps == config["num_steps"]:
        return "full"
    return f"full, but {config['num_steps']:,} of {steps:,} updates"


def _recipe_steps(result: Result) -> int | None:
    known, config = EXPERIMENTS.get(experiment_name(result)), result["config"]
    if "budget" in config:
        return None  # the clock has decided
    recipe = known and known.recipes.get(config["preset"], {}).get(config["method"])
    return recipe.num_steps if isinstance(recipe, Recipe) else None


def _departs(result: Result) -> bool:
    return protocol(result) != "full"


def _versions(result: Result) -> str:
    return ", ".join(f"{name} {version}" for name, version in result["versions"].items())


def _status(result: Result) -> str:
    names: list[str] = result["status"]
    return ", ".join(STATUS.get(name, name.lower()) for name in distinct(names))


def _failed(result: Result) -> bool:
    return set(result["status"]) != {"DONE"}


COLUMNS = (
    Column(header="experiment", kind="text", cell=experiment_name),
    Column(header="preset", kind="text", cell=lambda r: r["config"]["preset"]),
    Column(header="method", kind="text name", cell=lambda r: r["config"]["method"]),
    Column(header="effort", kind="text", cell=protocol, flagged=_departs),
    Column(header="seeds", kind="text", cell=lambda r: ", ".join(map(str, r["config"]["seeds"]))),
    Column(header="updates", cell=lambda r: f"{r['config']['num_steps']:,}"),
    Column(header="status", kind="text", cell=_status, flagged=_failed),
    Column(header="seconds, all fits", cell=lambda r: number(r["seconds"], 1)),
    Column(header="fits side by side", cell=lambda r: str(r["lanes"])),
    Column(header="device", kind="text", cell=lambda r: r["device"]),
    Column(header="precision of products in the evaluation", kind="text", cell=lambda r: r["precision"]),
    Column(header="versions", kind="text", cell=_versions),
    Column(header="checksum of the settings", kind="text", cell=lambda r: r["fingerprint"]),
)


def protocol_warning(results: list[Result]) -> str:
    """Returns a warning if any run had less than full effort."""
    marks = distinct(f"“{r['config']['effort']}”" for r in results if r["config"]["effort"] != "full")
    if not marks:
        return ""
    return markup.warning(
        f"Runs marked {' or '.join(marks)} had few updates and a small evaluation budget. They do not follow "
        "the paper's protocol, so do not compare their values with published ones."
    )


def data_sets(results: list[Result]) -> str:
    """Returns a list of the data sets, each with its description."""
    tasks = [result["config"]["task"] for result in results]
    pairs = distinct((str(t["dataset"]), str(t.get("description", ""))) for t in tasks if "dataset" in t)
    return markup.bullets(f"{name}: {description}" for name, description in pairs)
