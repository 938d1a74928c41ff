"""Section 4.1 in the report: three densities on the plane."""

import html
from collections.abc import Callable

import jax

from uivi.paper.experiment import Experiment
from uivi.paper.experiments import EXPERIMENTS
from uivi.paper.report import markup, plots
from uivi.paper.report.columns import COST, Column, bound_column, number, run_columns, value_column
from uivi.paper.report.contours import View, draws_figure
from uivi.paper.report.section import Section
from uivi.paper.results import Result, experiment_name, grouped, label, median, values
from uivi.paper.toy.experiments import DEVIATIONS

VIEW: dict[str, View] = {"banana": ((-3.5, 3.5), (-10.0, 3.0)), "multimodal": ((-5.5, 5.5), (-4.0, 4.0))}
DEFAULT_VIEW: View = ((-5.0, 5.0), (-5.0, 5.0))

NOTE = (
    "KL(q‖p) is computed by quadrature on a grid. The table shows the median over the seeds, and the worst "
    "seed in brackets. These targets are normalised, so the ELBO equals −KL and 0 is exact. The lower bound "
    "includes the ε that generated z in the estimate of log q(z), the upper bound leaves it out; ± is the "
    "standard error over 2,048 draws. The paper's estimator (100 draws, 10,000 shared ε, the generating one "
    "left out) is biased upwards. “recovered” is the share of the gradient of I(z;ε) that the reverse sampler "
    "recovers (1 means unbiased), “moved” the share of i-SIR weight that leaves the starting point, "
    "“acceptance” the share of HMC's proposals that are accepted. k-hat measures the tail of the importance "
    "weights p(z)/q(z): below 0.7 they can be trusted. It uses the estimate of log q(z) that is too high in "
    "expectation."
)


def _kl(result: Result) -> str:
    found = values(result, "kl", "kl")
    worst = max(found) if found else None
    return f"{number(median(result, 'kl', 'kl'), 5)} [{number(worst, 5)}]"


COLUMNS = (
    *run_columns("target"),
    Column(header="KL(q‖p) median [worst]", cell=_kl, on_terminal=True),
    bound_column("ELBO (lower bound)", 4, "check", "lower"),
    bound_column("ELBO (upper bound)", 4, "check", "upper"),
    bound_column("ELBO, paper's estimator (biased upwards)", 4, "paper_elbo"),
    value_column("recovered", 2, "check", "mixing", "recovered", on_terminal=True),
    value_column("moved", 2, "check", "mixing", "moved"),
    value_column("acceptance", 2, "check", "mixing", "acceptance"),
    value_column("k-hat", 2, "check", "weights", "pareto_k", on_terminal=True),
    *COST,
)


def draws_figures(results: list[Result]) -> list[bytes]:
    """Draws Figure 2: contours of each target with 300 draws. A target has one figure, with all methods."""
    groups = grouped(results, lambda r: r["title"]).values()
    return [draws_figure(found, _view(found[0]), _log_density(found[0])) for found in groups]


def _view(result: Result) -> View:
    return VIEW.get(experiment_name(result), DEFAULT_VIEW)


def _log_density(result: Result) -> Callable | None:
    """Returns the log density of the target, or None for a target that nobody knows."""
    shown = EXPERIMENTS.get(experiment_name(result))
    if not isinstance(shown, Experiment) or shown.kind != "toy":
        return None
    recipe = next(iter(next(iter(shown.recipes.values())).values()))  # the density is the same for all
    target = shown.task("smoke").target(jax.random.key(0), recipe)
    return lambda z: target.log_joint(z, ())


def history_figures(results: list[Result]) -> list[bytes]:
    """Draws the recorded lower bound of the ELBO (first seed) against the time spent in updates."""
    labels = ("seconds in updates (all seeds, no compilation)", "ELBO in nats (lower bound)")
    line = (plots.Line("elbo_lower"),)
    groups = grouped(results, lambda r: r["title"]).items()
    return plots.curves_figures(
        [
            [
                plots.Panel(
                    title=title, labels=labels, results=found, lines=line, against="seconds", log_from=1e-2
                )
            ]
            for title, found in groups
        ]
    )


def _goals(results: list[Result]) -> str:
    lines = []
    for result in results:
        kl, goal = median(result, "kl", "kl"), result["published"]
        if kl is None or goal is None:
            continue
        what = f"{result['title']}, {label(result)}"
        kind, word = ("ok", "reached") if kl <= goal["value"] else ("no", "missed")
        lines.append(
            f"<li>{html.escape(what)}: KL {kl:.5f}, goal {goal['value']} "
            f"(<span class='{kind}'>{word}</span>; {html.escape(goal['source'])})</li>"
        )
    return f"<ul>{''.join(lines)}</ul>" if lines else "<p>These runs have no goal.</p>"


def _body(results: list[Result]) -> str:
    return "\n".join(
        [
            markup.heading("Draws (Figure 2 of the paper)"),
            markup.note("Contours of the target and 300 draws from each fit (first seed)."),
            markup.figures(draws_figures(results), "draws over contours"),
            markup.heading("Values"),
            markup.table(COLUMNS, results),
            markup.note(NOTE),
            markup.heading("Against the goals"),
            _goals(results),
            markup.heading("Lower bound against time"),
            markup.figures(history_figures(results), "ELBO against time"),
        ]
    )


def _summary(result: Result) -> str:
    kl = median(result, "kl", "kl")
    return "KL(q‖p) unknown" if kl is None else f"KL(q‖p) {kl:.5f}"


SECTION = Section(
    title="Two-dimensional targets (Section 4.1)",
    columns=COLUMNS,
    body=_body,
    summary=_summary,
    deviations=DEVIATIONS,
)
