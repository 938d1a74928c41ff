"""Tables of every estimator of log p(x) beside an annealed reference."""

from uivi.paper.report import markup
from uivi.paper.report.columns import Column, number, plus_minus, run_columns
from uivi.paper.results import Result, look_up, look_up_number

Z = 3.0
"""Number of standard errors above the AIS upper bound at which an estimator is highlighted."""


def _column(images: str, header: str, *path: str) -> Column:
    def text(result: Result) -> str:
        found = look_up(result["seeds"][0], "truth", images, *path)
        return plus_minus(look_up_number(found, "mean"), look_up_number(found, "stderr"), 2)

    def too_high(result: Result) -> bool:
        truth = look_up(result["seeds"][0], "truth", images)
        value, ceiling = (look_up_number(truth, *where, "mean") for where in (path, ("ais_upper",)))
        stderr = look_up_number(truth, *path, "stderr") or 0.0
        return value is not None and ceiling is not None and value > ceiling + Z * stderr

    return Column(header=header, cell=text, flagged=too_high)


def _count(result: Result) -> str:
    return number(look_up_number(result["seeds"][0], "truth", "images"), 0)


def _columns(images: str) -> tuple[Column, ...]:
    return (
        _column(images, "log p(x), paper's estimator (no bound)", "paper"),
        _column(images, "log p(x), generating ε included (lower bound)", "lower"),
        _column(images, "log p(x), Student-t (lower bound)", "student"),
    )


SIMULATED = (
    *run_columns("data set"),
    Column(header="images", cell=_count),
    _column("simulated", "log p(x), AIS (lower bound)", "ais_lower"),
    _column("simulated", "log p(x), AIS (upper bound)", "ais_upper"),
    *_columns("simulated"),
)
REAL = (
    *run_columns("data set"),
    Column(header="images", cell=_count),
    _column("real", "log p(x), AIS (lower bound)", "ais_lower"),
    *_columns("real"),
)


def truth_table(results: list[Result]) -> str:
    """Returns the table of simulated images, then the table of test images, for the results that have them."""
    results = [r for r in results if look_up(r["seeds"][0], "truth")] or results
    return (
        "<p>Images simulated from the fitted model:</p>"
        + markup.table(SIMULATED, results)
        + "<p>Test images:</p>"
        + markup.table(REAL, results)
    )
