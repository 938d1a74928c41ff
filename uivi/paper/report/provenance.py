"""The last section of the page: how each result was made."""

from uivi.paper.experiments import EXPERIMENTS
from uivi.paper.report import markup
from uivi.paper.report.columns import Column, number
from uivi.paper.results import Result, distinct, experiment_name


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
    recipe = known and known.recipes.get(config["preset"], {}).get(config["method"])
    return recipe.num_steps if recipe else None


def _departs(result: Result) -> bool:
    return protocol(result) != "full"


def _versions(result: Result) -> str:
    return ", ".join(f"{name} {version}" for name, version in result["versions"].items())


def _failed(result: Result) -> bool:
    return set(result["status"]) != {"DONE"}


COLUMNS = (
    Column(header="experiment", cell=experiment_name),
    Column(header="preset", cell=lambda r: r["config"]["preset"]),
    Column(header="method", cell=lambda r: r["config"]["method"]),
    Column(header="effort", cell=protocol, flagged=_departs),
    Column(header="seeds", cell=lambda r: ", ".join(map(str, r["config"]["seeds"]))),
    Column(header="updates", cell=lambda r: f"{r['config']['num_steps']:,}"),
    Column(header="status", cell=lambda r: ", ".join(distinct(r["status"])).lower(), flagged=_failed),
    Column(header="seconds, all fits", cell=lambda r: number(r["seconds"], 1)),
    Column(header="fits side by side", cell=lambda r: str(r["lanes"])),
    Column(header="device", cell=lambda r: r["device"]),
    Column(header="matrix precision", cell=lambda r: r["precision"]),
    Column(header="versions", cell=_versions),
    Column(header="fingerprint", cell=lambda r: r["fingerprint"]),
)


def protocol_warning(results: list[Result]) -> str:
    """Returns a warning if any run had less than full effort."""
    if all(result["config"]["effort"] == "full" for result in results):
        return ""
    return markup.warning(
        "Runs marked “quick” or “smoke” had few updates and a small evaluation budget. They do not follow "
        "the paper's protocol, so do not compare their values with published ones."
    )


def data_sets(results: list[Result]) -> str:
    """Returns a list of the data sets, each with its description."""
    tasks = [result["config"]["task"] for result in results]
    return markup.bullets(distinct(f"{t['dataset']}: {t['description']}" for t in tasks if "dataset" in t))
