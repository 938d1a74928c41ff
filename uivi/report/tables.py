"""Tables of results."""

from rich.table import Table

from uivi.report.results import Result, median, values

HEADERS = (
    "target",
    "preset",
    "method",
    "KL(q‖p) median [worst]",
    "ELBO lower",
    "ELBO upper",
    "ELBO, paper's estimator",
    "recovered",
    "moved",
    "acceptance",
    "k-hat",
    "seeds",
    "updates",
    "s per fit",
)

ON_TERMINAL = ("target", "preset", "method", "KL(q‖p) median [worst]", "recovered", "k-hat", "s per fit")


def rows(results: list[Result]) -> list[tuple[str, ...]]:
    """One row per result, as text; medians over the seeds."""
    return [_row(result) for result in results]


def table(results: list[Result]) -> Table:
    """For the terminal: the columns that fit."""
    kept = [HEADERS.index(name) for name in ON_TERMINAL]
    made = Table(*ON_TERMINAL)
    for row in rows(results):
        made.add_row(*(row[i] for i in kept))
    return made


def one_line(result: Result) -> str:
    """What one run gave."""
    config = result["config"]
    kl = median(result, "kl", "kl")
    text = "" if kl is None else f"KL(q‖p) {kl:.5f}, "
    return (
        f"{config['experiment']} {config['preset']}-{config['method']}: {text}{len(config['seeds'])} seed(s), "
        f"{result['seconds_per_fit']:.1f} s per fit"
    )


def _row(result: Result) -> tuple[str, ...]:
    config = result["config"]
    kls = values(result, "kl", "kl")
    worst = max(kls) if kls else None
    return (
        result["title"],
        config["preset"],
        config["method"],
        f"{_number(median(result, 'kl', 'kl'), 5)} [{_number(worst, 5)}]",
        _with_error(result, "diagnosis", "lower"),
        _with_error(result, "diagnosis", "upper"),
        _with_error(result, "paper_elbo"),
        _number(median(result, "diagnosis", "mixing", "recovered"), 2),
        _number(median(result, "diagnosis", "mixing", "moved"), 2),
        _number(median(result, "diagnosis", "mixing", "acceptance"), 2),
        _number(median(result, "diagnosis", "pareto_k_lower"), 2),
        str(len(config["seeds"])),
        f"{config['num_steps']:,}",
        f"{result['seconds_per_fit']:.1f}",
    )


def _with_error(result: Result, *path: str) -> str:
    mean, stderr = median(result, *path, "mean"), median(result, *path, "stderr")
    return f"{_number(mean, 4)} ± {_number(stderr, 4)}"


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
