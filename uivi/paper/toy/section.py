"""Section 4.1 in the report: three densities on the plane."""

import html
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from uivi.paper.experiments import EXPERIMENTS
from uivi.paper.report import markup, plots
from uivi.paper.report.columns import COST, Column, bound_column, number, run_columns, value_column
from uivi.paper.report.section import Section
from uivi.paper.results import Result, distinct, experiment_name, grouped, label, median, values
from uivi.paper.toy.experiments import DEVIATIONS

VIEW = {"banana": ((-3.5, 3.5), (-10, 3)), "multimodal": ((-5.5, 5.5), (-4, 4))}
DEFAULT_VIEW = ((-5.0, 5.0), (-5.0, 5.0))

NOTE = (
    "KL(q‖p) is computed by quadrature on a grid. The table shows the median over the seeds, and the worst "
    "seed in brackets. These targets are normalised, so the ELBO equals −KL and 0 is exact. The lower bound "
    "includes the ε that generated z in the estimate of log q(z), the upper bound leaves it out; ± is the "
    "standard error over 2,048 draws. The paper's estimator (100 draws, 10,000 shared ε, the generating one "
    "left out) is biased upwards. “recovered” is the share of the gradient of I(z;ε) that the reverse sampler "
    "recovers (1 means unbiased), “moved” the share of i-SIR weight that leaves the starting point. k-hat uses "
    "the estimate of log q(z) that is too high in expectation."
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


def draws_figure(results: list[Result]) -> bytes:
    """Draws Figure 2: contours of each target with 300 draws, one column per method."""
    names, columns = distinct(map(experiment_name, results)), distinct(map(label, results))
    figure = Figure(figsize=(2.6 * len(columns) + 0.4, 2.6 * len(names) + 0.3), layout="constrained")
    axes = figure.subplots(len(names), len(columns), squeeze=False)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    for result in results:
        axis = axes[names.index(experiment_name(result)), columns.index(label(result))]
        _draw_target(axis, result)
        draws = np.asarray(result["exhibit"].get("draws") or np.empty((0, 2)))
        axis.plot(draws[:, 0], draws[:, 1], ".", color=plots.BLUE, markersize=2.5, alpha=0.7)
    for column, text in enumerate(columns):
        axes[0, column].set_title(plots.plain(text), fontsize=9)
    for row, name in enumerate(names):
        axes[row, 0].set_ylabel(plots.plain(name), fontsize=9)
    return plots.png(figure)


def _draw_target(axis: Any, result: Result) -> None:
    (left, right), (bottom, top) = VIEW.get(experiment_name(result), DEFAULT_VIEW)
    xs, ys = np.meshgrid(np.linspace(left, right, 150), np.linspace(bottom, top, 150))
    axis.set(xlim=(left, right), ylim=(bottom, top))
    config = result["config"]
    shown = EXPERIMENTS.get(config["experiment"])
    if shown is None or shown.kind != "toy":
        return
    recipe = next(iter(next(iter(shown.recipes.values())).values()))  # the density is the same for all
    target = shown.task("smoke").target(jax.random.key(0), recipe)
    grid = jnp.asarray(np.stack([xs, ys], -1), dtype=float)
    log_p = np.asarray(jax.vmap(jax.vmap(lambda z: target.log_joint(z, ())))(grid))
    levels = log_p.max() - np.array([8.0, 5.0, 3.0, 1.5, 0.5])
    axis.contour(xs, ys, log_p, levels=levels, colors=plots.ORANGE, linewidths=0.9, linestyles="solid")


def history_figure(results: list[Result]) -> bytes:
    """Draws the recorded lower bound of the ELBO (first seed) against the time spent in updates."""
    labels = ("seconds in updates (all seeds, no compilation)", "ELBO in nats (lower bound)")
    line = (plots.Line("elbo_lower"),)
    groups = grouped(results, lambda r: r["title"]).items()
    return plots.curves_figure(
        [
            [
                plots.Panel(
                    title=title, labels=labels, results=found, lines=line, against="seconds", log_from=1e-2
                )
                for title, found in groups
            ]
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
            markup.image(draws_figure(results), "draws over contours"),
            markup.heading("Values"),
            markup.table(COLUMNS, results),
            markup.note(NOTE),
            markup.heading("Against the goals"),
            _goals(results),
            markup.heading("Lower bound against time"),
            markup.image(history_figure(results), "ELBO against time"),
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
