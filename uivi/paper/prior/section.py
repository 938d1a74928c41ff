"""Priors of variational autoencoders in the report."""

from uivi.paper.prior.experiments import DEVIATIONS
from uivi.paper.prior.generated_figure import generated_figures
from uivi.paper.report import markup
from uivi.paper.report.columns import COST, Column, bound, bound_column, number, run_columns, value_column
from uivi.paper.report.section import Section
from uivi.paper.results import Result, median, values
from uivi.presets.vae_prior import MOST_STEPS

PLAIN = "normal"
"""The method whose prior is N(0, I)."""


def _spread(result: Result) -> str:
    found = values(result, "log_p", "mean")
    return number(max(found) - min(found) if len(found) > 1 else None, 2)


COLUMNS = (
    *run_columns("data set"),
    bound_column("log p(x) (lower bound)", 2, "log_p", on_terminal=True),
    Column(header="largest difference of the seeds", cell=_spread, on_terminal=True),
    bound_column("ELBO (lower bound)", 2, "elbo_lower"),
    bound_column("ELBO (upper bound)", 2, "elbo_upper"),
    value_column("between the two", 3, "width"),
    value_column("share of z with an unsure log p(z)", 4, "unsure"),
    *COST,
)

NOTE = (
    "Nats per test image, ± the Monte Carlo standard error for these images; medians over the seeds. All fits "
    "have the same encoder, decoder and optimiser, and differ by the prior. The preset says where the gradient "
    "of log p(z) comes from: “exact” its density, “bound” the bound of doubly semi-implicit inference, “score” "
    "an importance-weighted estimate of the gradient of log p(z) itself, “coupled” one by coupled chains, "
    f"which is unbiased but for chains that have not met after {MOST_STEPS} steps."
)
BOUND_NOTE = (
    "log p(x) is the log of the mean importance weight p(x|z) p(z) / q(z|x). An implicit p(z) is replaced by "
    "an unbiased estimate from proposals of ζ, so the mean weight is unbiased and its log too low in "
    "expectation. The ELBO from below has the log of that estimate, the ELBO from above a tangent of the "
    "logarithm. The density of N(0, I) and of a prior of rows is exact: both sides agree."
)


def gain(results: list[Result]) -> Column:
    """Returns a column with log p(x) minus that of N(0, I) on the same data set."""
    levels = {r["title"]: median(r, "log_p", "mean") for r in results if r["config"]["method"] == PLAIN}

    def cell(result: Result) -> str:
        ours, theirs = median(result, "log_p", "mean"), levels.get(result["title"])
        return number(None if ours is None or theirs is None else ours - theirs, 2)

    return Column(header="gain over N(0, I)", cell=cell)


def _body(results: list[Result]) -> str:
    columns = (*COLUMNS[:5], gain(results), *COLUMNS[5:])
    parts = [
        markup.table(columns, results),
        markup.note(NOTE),
        markup.note(BOUND_NOTE),
        markup.heading("Where it differs from Tomczak & Welling (2018) and Molchanov et al. (2019)"),
        markup.bullets(DEVIATIONS),
    ]
    figures = generated_figures(results)
    if figures:
        parts += [
            markup.heading("Images from the model"),
            markup.note("Means of p(x|z) at draws of z from the prior (first seed)."),
            markup.pictures(figures, "images from the model"),
        ]
    return "\n".join(parts)


def _summary(result: Result) -> str:
    return (
        f"log p(x) at least {bound(result, 2, 'log_p')}, ELBO from {bound(result, 2, 'elbo_lower')} to "
        f"{bound(result, 2, 'elbo_upper')}"
    )


SECTION = Section(
    title="Priors of variational autoencoders",
    columns=COLUMNS,
    body=_body,
    summary=_summary,
    deviations=(),
)
