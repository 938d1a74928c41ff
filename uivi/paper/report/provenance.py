"""Where each result comes from."""

from uivi.paper import EXPERIMENTS
from uivi.paper.report import markup
from uivi.paper.report.columns import Column, number
from uivi.paper.results import Result, distinct, experiment


def protocol(result: Result) -> str:
    """The effort, and whether the run was shorter or longer than its recipe says."""
    config = result["config"]
    if config["effort"] != "full":
        return f"{config['effort']}: not the paper's protocol"
    steps = _recipe_steps(result)
    if steps is None or steps == config["num_steps"]:
        return "full"
    return f"full, but {config['num_steps']:,} of {steps:,} updates"


def _recipe_steps(result: Result) -> int | None:
    known, config = EXPERIMENTS.get(experiment(result)), result["config"]
    recipe = known and known.recipes.get(config["preset"], {}).get(config["method"])
    return recipe.num_steps if recipe else None


def _departs(result: Result) -> bool:
    return protocol(result) != "full"


def _versions(result: Result) -> str:
    return ", ".join(f"{name} {version}" for name, version in result["versions"].items())


def _failed(result: Result) -> bool:
    return set(result["status"]) != {"DONE"}


COLUMNS = (
    Column("experiment", experiment),
    Column("preset", lambda r: r["config"]["preset"]),
    Column("method", lambda r: r["config"]["method"]),
    Column("effort", protocol, flagged=_departs),
    Column("seeds", lambda r: ", ".join(map(str, r["config"]["seeds"]))),
    Column("updates", lambda r: f"{r['config']['num_steps']:,}"),
    Column("ended", lambda r: ", ".join(distinct(r["status"])).lower(), flagged=_failed),
    Column("seconds of the run", lambda r: number(r["seconds"], 1)),
    Column("fits side by side", lambda r: str(r["lanes"])),
    Column("device", lambda r: r["device"]),
    Column("matrix precision", lambda r: r["precision"]),
    Column("versions", _versions),
    Column("fingerprint", lambda r: r["fingerprint"]),
)


def protocol_warning(results: list[Result]) -> str:
    """A warning if a run is not of full effort."""
    if all(result["config"]["effort"] == "full" for result in results):
        return ""
    return markup.warning(
        "Runs marked “quick” or “smoke” had few updates and a small evaluation budget: they are not the "
        "paper's protocol, and their values are not to be compared with published ones."
    )


def data_sets(results: list[Result]) -> str:
    """What the data were."""
    tasks = [result["config"]["task"] for result in results]
    return markup.bullets(distinct(f"{t['dataset']}: {t['description']}" for t in tasks if "dataset" in t))
