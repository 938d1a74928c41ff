"""Section 4.2 in the report: Bayesian multinomial logistic regression (Figures 3 and 4)."""

from uivi.paper.regression.experiments import DEVIATIONS
from uivi.paper.report import markup, plots
from uivi.paper.report.columns import (
    COST,
    Column,
    bound,
    bound_column,
    number,
    plus_minus,
    run_columns,
    value_column,
)
from uivi.paper.report.plots import Line, Panel
from uivi.paper.report.section import Section
from uivi.paper.results import Result, grouped, median

ELBO_WINDOW, TEST_WINDOW = 20, 2
"""Lengths of the rolling means in the figures."""


def _pointwise(result: Result) -> str:
    return plus_minus(median(result, "test_pointwise"), median(result, "test_pointwise_stderr"), 4)


COLUMNS = (
    *run_columns("data set"),
    bound_column("ELBO (lower bound)", 2, "elbo_lower", on_terminal=True),
    bound_column("ELBO, paper's estimator (upper bound)", 2, "elbo_paper"),
    bound_column("ELBO, annealed (lower bound)", 2, "ais_lower"),
    bound_column("ELBO, annealed (upper bound)", 2, "ais_upper"),
    value_column("test log-lik. per row, joint", 4, "test_joint"),
    Column(header="test log-lik. per row, pointwise", cell=_pointwise, on_terminal=True),
    value_column("accuracy", 4, "test_accuracy"),
    value_column("calibration error", 4, "test_calibration"),
    *COST,
)

TABLE_NOTE = (
    "The ELBO is in nats, on all training data, ± its standard error over the draws of z. All ELBO columns "
    "share these draws and differ only in the estimate of log q(z), so they agree more closely than the "
    "standard errors suggest. Lower bound: the ε that generated z is averaged with the fresh ones. Paper's "
    "estimator: fresh ε only, too high in expectation. Annealed: log q(z) at a few more draws, by annealing "
    "from q(ε) to q(ε|z) and back (semi-implicit families only). Joint: the log of the test set's likelihood, "
    "averaged over draws, divided by the number of rows, as in the authors' code. Pointwise: the log of each "
    "row's averaged probability, averaged over the rows, ± its standard error over rows. The calibration error "
    "uses 15 bins. Milliseconds exclude compilation and evaluation."
)
RECOMPUTED_NOTE = (
    "The HAPT recordings with recomputed features are not UCI's matrix: do not compare their values with the "
    "paper's."
)

ELBO_LINES = (plots.BELOW, Line("elbo_paper", "paper's estimator (upper bound)", width=1.0))
SECONDS = "seconds in updates (no compilation)"


def figure_3(results: list[Result]) -> list[bytes]:
    """Draws ELBO and test log-likelihood against time, one figure per data set."""
    joint, pointwise = ("test log-lik. per row,\njoint (nats)", "test log-lik. per row,\npointwise (nats)")
    rows = (
        (("", "ELBO in nats"), ELBO_LINES, ELBO_WINDOW),
        (("", joint), (Line("test_joint"),), TEST_WINDOW),
        ((SECONDS, pointwise), (Line("test_pointwise"),), TEST_WINDOW),
    )

    def stack(title: str, found: list[Result]) -> list[Panel]:
        titles = (title, "", "")
        return [
            Panel(title=text, labels=labels, results=found, lines=lines, against="seconds", window=window)
            for text, (labels, lines, window) in zip(titles, rows, strict=True)
        ]

    groups = grouped(results, lambda r: r["title"])
    return plots.curves_figures([stack(title, found) for title, found in groups.items()])


def figure_4(results: list[Result]) -> list[bytes]:
    """Draws the ELBO against updates for each number of HMC iterations: all updates, and the last third."""
    groups = grouped(results, lambda r: r["title"]).items()
    labels = ("update", "ELBO in nats")
    panels = [
        Panel(
            title=f"{title}{part}",
            labels=labels,
            results=found,
            lines=ELBO_LINES,
            window=ELBO_WINDOW,
            last=last,
        )
        for title, found in groups
        for part, last in (("", 1.0), (", the last third", 1 / 3))
    ]
    return plots.curves_figures([[panel] for panel in panels], height=3.6)


def _body(title: str, about: str, figures: list[bytes], results: list[Result]) -> str:
    """Returns figures followed by the table of final values."""
    recomputed = any("recomputed" in r["title"] for r in results)
    return "\n".join(
        [
            markup.heading(title),
            markup.note(about),
            markup.figures(figures, title),
            markup.heading("Final values"),
            markup.table(COLUMNS, results),
            markup.note(TABLE_NOTE),
            markup.note(RECOMPUTED_NOTE) if recomputed else "",
        ]
    )


def _figure_3_body(results: list[Result]) -> str:
    about = (
        "First seed; rolling means over 20 ELBO estimates and over 2 test values. Each ELBO estimate uses the "
        "current minibatch. The vertical axes fit the last 80% of each curve."
    )
    title = "ELBO and test log-likelihood against time (Figure 3 of the paper)"
    return _body(title, about, figure_3(results), results)


def _figure_4_body(results: list[Result]) -> str:
    about = (
        "hmc-n takes n burn-in and n kept HMC iterations; the paper's standard is 5. First seed; rolling mean "
        "over 20 estimates on the current minibatch. The vertical axes fit the last 80% of each curve, or its "
        "last third."
    )
    return _body("ELBO against updates (Figure 4 of the paper)", about, figure_4(results), results)


def _summary(result: Result) -> str:
    return (
        f"ELBO at least {bound(result, 2, 'elbo_lower')}, test log-likelihood per row {_pointwise(result)} "
        f"(pointwise), accuracy {number(median(result, 'test_accuracy'), 4)}"
    )


FIGURE_3 = Section(
    title="Bayesian multinomial logistic regression (Section 4.2)",
    columns=COLUMNS,
    body=_figure_3_body,
    summary=_summary,
    deviations=DEVIATIONS,
)
FIGURE_4 = Section(
    title="Number of HMC iterations (Section 4.2, Figure 4)",
    columns=COLUMNS,
    body=_figure_4_body,
    summary=_summary,
    deviations=DEVIATIONS,
)
