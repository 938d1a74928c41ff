"""The networks in the report: errors on test rows beside the published ones."""

import math
import statistics

from uivi.evaluation.check import Verdict
from uivi.paper.methods.section import FAILED
from uivi.paper.networks.experiments import CONTENDERS, NARROW, WIDE
from uivi.paper.networks.published import best, of_uivi
from uivi.paper.report import markup
from uivi.paper.report.columns import Column, number, plus_minus, run_columns, value_column
from uivi.paper.report.section import Section
from uivi.paper.results import Result, experiment_name, grouped, values

DIGITS = 3
NOTE = (
    "A layer of ReLUs. The weights of a layer have the prior N(0, 1/λ) with a λ ~ Gamma(1, 1) of its own, the "
    "precision of the noise has Gamma(1, 0.1). Features and values have mean 0 and standard deviation 1 on the "
    "training rows. Every seed splits the rows anew. All methods have as many updates."
)
JUDGED = (
    "Means over the seeds with their standard errors. RMSE is the error of the mean prediction, NLL minus the "
    "mean log density of a test row under the mixture of all draws' predictions. Both are in the units of the "
    "data, except in the protocol with 10 units, whose RMSE is in standard deviations of the training values."
)
PUBLISHED_NOTE = (
    "Published figures are second-hand, means over random splits of their authors. The best of RMSE and of NLL "
    "may belong to two methods."
)


def mean_and_error(found: list[float]) -> tuple[float | None, float | None]:
    """Returns the mean over the seeds and its standard error, which one seed has not."""
    if not found:
        return None, None
    error = statistics.stdev(found) / math.sqrt(len(found)) if len(found) > 1 else None
    return statistics.fmean(found), error


def _is_in_sds(result: Result) -> bool:
    """Whether the published RMSE is in standard deviations of the values."""
    return experiment_name(result).endswith("-narrow")


def _errors(result: Result, quantity: str) -> list[float]:
    name = "rmse_in_sds" if quantity == "rmse" and _is_in_sds(result) else quantity
    return values(result, "scores", name)


def _measured(quantity: str, header: str) -> tuple[Column, ...]:
    """Returns our error, the best published one, and that of UIVI as run by others."""

    def ours(result: Result) -> str:
        return plus_minus(*mean_and_error(_errors(result, quantity)), DIGITS)

    def is_worse(result: Result) -> bool:
        mean, goal = mean_and_error(_errors(result, quantity))[0], best(experiment_name(result), quantity)
        return mean is not None and goal is not None and mean > goal

    published = lambda find: lambda result: number(find(experiment_name(result), quantity), DIGITS)
    return (
        Column(header=header, cell=ours, on_terminal=True, flagged=is_worse),
        Column(header=f"best published {header}", cell=published(best)),
        Column(header=f"{header} of UIVI as run by others", cell=published(of_uivi)),
    )


def _verdicts(result: Result) -> str:
    found = [int(value) for value in values(result, "own", "verdict") if value in list(Verdict)]
    counts = ((Verdict(value), found.count(value)) for value in sorted(set(found)))
    return ", ".join(f"{count} {verdict}" for verdict, count in counts) or "–"


def _summary(result: Result) -> str:
    errors = (mean_and_error(_errors(result, quantity)) for quantity in ("rmse", "nll"))
    rmse, nll = (plus_minus(*error, DIGITS) for error in errors)
    return f"RMSE {rmse}, NLL {nll}"


COLUMNS = (
    *run_columns("table"),
    *_measured("rmse", "RMSE"),
    *_measured("nll", "NLL"),
    value_column("ELBO (lower bound)", 1, "own", "lower", "mean"),
    value_column("ELBO (upper bound)", 1, "own", "upper", "mean"),
    Column(header="verdicts", kind="text", cell=_verdicts),
    FAILED,
    Column(header="seeds", cell=lambda result: str(len(result["seeds"]))),
    value_column("seconds", 1, "seconds"),
    Column(header="updates", cell=lambda result: number(result["config"]["num_steps"] or None, 0)),
)
"""One table for each protocol; what fits on a terminal is marked."""


def _body(results: list[Result]) -> str:
    about = markup.bullets(f"`{name}`: {contender.words}" for name, contender in CONTENDERS.items())
    parts = [markup.note(NOTE), about, markup.note(JUDGED), markup.note(PUBLISHED_NOTE)]
    for is_narrow, found in grouped(results, _is_in_sds).items():
        words = (NARROW if is_narrow else WIDE).words
        parts += [markup.heading(words), markup.table(COLUMNS, found)]
    return "\n".join(parts)


SECTION = Section(
    title="Bayesian neural networks",
    columns=COLUMNS,
    body=_body,
    summary=_summary,
    deviations=(),
)
