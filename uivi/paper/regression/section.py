"""Section 4.2 on the page: Bayesian multinomial logistic regression."""

from collections.abc import Iterable

from uivi.paper import DEVIATIONS
from uivi.paper.report import markup, plots
from uivi.paper.report.columns import (
    COST,
    Column,
    Section,
    bound,
    bound_column,
    number,
    plus_minus,
    value_column,
    which,
)
from uivi.paper.report.plots import Line, Panel
from uivi.paper.results import Result, grouped, median

ELBO_WINDOW, TEST_WINDOW = 20, 2


def _pointwise(result: Result) -> str:
    return plus_minus(median(result, "test_pointwise"), median(result, "test_pointwise_stderr"), 4)


COLUMNS = (
    *which("data set"),
    bound_column("ELBO (lower bound)", 2, "elbo_lower", on_terminal=True),
    bound_column("ELBO, paper's estimator (upper bound)", 2, "elbo_paper"),
    bound_column("ELBO, annealed (lower bound)", 2, "ais_lower"),
    bound_column("ELBO, annealed (upper bound)", 2, "ais_upper"),
    value_column("test log-lik. per row, joint", 4, "test_joint"),
    Column("test log-lik. per row, pointwise", _pointwise, on_terminal=True),
    value_column("accuracy", 4, "test_accuracy"),
    value_column("calibration error", 4, "test_calibration"),
    *COST,
)

TABLE_NOTE = (
    "ELBO in nats, on all training data, ± the standard error of its draws. The columns share the draws of "
    "z and differ by the estimate of log q(z), so they are closer to each other than the errors say. Lower: "
    "the ε that made z is averaged with the fresh ones. Paper's estimator: fresh ε only, too high in "
    "expectation. Annealed: log q(z) of a few further draws by annealing from q(ε) to q(ε|z) and back (only "
    "semi-implicit families need it). Joint: log of the mean over draws of the likelihood of the whole test "
    "set, over its rows, as in the authors' code. Pointwise: the mean over rows of the log of the averaged "
    "probability, ± standard error over rows. Calibration error: 15 bins. Milliseconds leave compilation "
    "and evaluation out."
)
RECOMPUTED_NOTE = (
    "The recordings of HAPT with features recomputed by this project are not UCI's matrix: values there "
    "cannot be compared with the paper's."
)

ELBO_LINES = (plots.BELOW, Line("elbo_paper", "paper's estimator (upper side)", 1.0))
SECONDS = "seconds in updates (no compilation)"


def figure_3(results: list[Result]) -> bytes:
    """ELBO and test log-likelihood against time; a column for each data set."""
    groups = grouped(results, lambda r: r["title"])

    def row(
        labels: tuple[str, str], lines: tuple[Line, ...], window: int, titles: Iterable[str]
    ) -> list[Panel]:
        pairs = zip(titles, groups.values(), strict=True)
        return [Panel(title, labels, found, lines, "seconds", window) for title, found in pairs]

    joint, pointwise = ("test log-lik. per row,\njoint (nats)", "test log-lik. per row,\npointwise (nats)")
    untitled = [""] * len(groups)
    return plots.curves_figure(
        [
            row(("", "ELBO in nats"), ELBO_LINES, ELBO_WINDOW, groups),
            row(("", joint), (Line("test_joint"),), TEST_WINDOW, untitled),
            row((SECONDS, pointwise), (Line("test_pointwise"),), TEST_WINDOW, untitled),
        ]
    )


def figure_4(results: list[Result]) -> bytes:
    """ELBO against updates for each number of HMC iterations."""
    groups = grouped(results, lambda r: r["title"]).items()
    labels = ("update", "ELBO in nats")
    row = [
        Panel(f"{title}{part}", labels, found, ELBO_LINES, "step", ELBO_WINDOW, last)
        for title, found in groups
        for part, last in (("", 1.0), (", the last third", 1 / 3))
    ]
    return plots.curves_figure([row], height=3.6)


def _body(title: str, about: str, image: bytes, results: list[Result]) -> str:
    """A figure, then the table of final values."""
    recomputed = any("recomputed" in r["title"] for r in results)
    return "\n".join(
        [
            markup.heading(title),
            markup.note(about),
            markup.image(image, title),
            markup.heading("Values at the end"),
            markup.table(COLUMNS, results),
            markup.note(TABLE_NOTE),
            markup.note(RECOMPUTED_NOTE) if recomputed else "",
        ]
    )


def _figure_3_body(results: list[Result]) -> str:
    about = (
        "First seed; rolling mean of 20 ELBO estimates and of 2 test values. ELBO estimates use the "
        "minibatch of the moment. The vertical axes show the last 80% of each curve."
    )
    title = "ELBO and test log-likelihood against time (the paper's Figure 3)"
    return _body(title, about, figure_3(results), results)


def _figure_4_body(results: list[Result]) -> str:
    about = (
        "hmc-n takes n burn-in and n kept HMC iterations; the paper's standard is 5. First seed; rolling mean "
        "of 20 estimates on the minibatch of the moment. The vertical axes show the last 80% of each curve, or "
        "its last third."
    )
    return _body("ELBO against updates (the paper's Figure 4)", about, figure_4(results), results)


def _summary(result: Result) -> str:
    return (
        f"ELBO at least {bound(result, 2, 'elbo_lower')}, test log-likelihood per row {_pointwise(result)} "
        f"(pointwise), accuracy {number(median(result, 'test_accuracy'), 4)}"
    )


FIGURE_3 = Section(
    "Bayesian multinomial logistic regression (Section 4.2)",
    COLUMNS,
    _figure_3_body,
    _summary,
    DEVIATIONS["logreg"],
)
FIGURE_4 = Section(
    "Number of HMC iterations (Section 4.2, Figure 4)", COLUMNS, _figure_4_body, _summary, DEVIATIONS["logreg"]
)
