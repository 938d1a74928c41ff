"""Section 4.1 on the page: the toys."""

import html
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from uivi.paper import DEVIATIONS, EXPERIMENTS
from uivi.paper.report import markup, plots
from uivi.paper.report.columns import COST, Column, Section, bound_column, number, value_column, which
from uivi.paper.results import Result, distinct, experiment, grouped, label, median, values

VIEW = {"banana": ((-3.5, 3.5), (-10, 3)), "multimodal": ((-5.5, 5.5), (-4, 4))}
DEFAULT_VIEW = ((-5.0, 5.0), (-5.0, 5.0))

NOTE = (
    "KL(q‖p) is by quadrature on a grid; the median over the seeds, with the worst in brackets. The ELBO of "
    "these normalised targets is −KL, so 0 is exact; the lower side includes the ε that made z, the upper "
    "side leaves it out, and both carry a standard error of 2,048 draws. The paper's estimator (100 draws, "
    "10,000 shared ε, the generating one left out) is biased upwards. “recovered” is the share of the "
    "gradient of I(z;ε) that the reverse sampler recovers (1 is unbiased); “moved” the share of i-SIR "
    "weight that leaves the start; k-hat uses the estimate of log q from above."
)


def _kl(result: Result) -> str:
    found = values(result, "kl", "kl")
    worst = max(found) if found else None
    return f"{number(median(result, 'kl', 'kl'), 5)} [{number(worst, 5)}]"


COLUMNS = (
    *which("target"),
    Column("KL(q‖p) median [worst]", _kl, on_terminal=True),
    bound_column("ELBO (lower bound)", 4, "check", "lower"),
    bound_column("ELBO (upper bound)", 4, "check", "upper"),
    bound_column("ELBO, paper's estimator (biased upwards)", 4, "paper_elbo"),
    value_column("recovered", 2, "check", "mixing", "recovered", on_terminal=True),
    value_column("moved", 2, "check", "mixing", "moved"),
    value_column("acceptance", 2, "check", "mixing", "acceptance"),
    value_column("k-hat", 2, "check", "pareto_k_lower", on_terminal=True),
    *COST,
)


def draws_figure(results: list[Result]) -> bytes:
    """The paper's Figure 2: contours of each target with 300 draws, a column per method."""
    names, columns = distinct(map(experiment, results)), distinct(map(label, results))
    figure = Figure(figsize=(2.6 * len(columns) + 0.4, 2.6 * len(names) + 0.3), layout="constrained")
    axes = figure.subplots(len(names), len(columns), squeeze=False)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    for result in results:
        axis = axes[names.index(experiment(result)), columns.index(label(result))]
        _draw_target(axis, result)
        draws = np.asarray(result["exhibit"].get("draws") or np.empty((0, 2)))
        axis.plot(draws[:, 0], draws[:, 1], ".", color=plots.BLUE, markersize=2.5, alpha=0.7)
    for column, text in enumerate(columns):
        axes[0, column].set_title(text, fontsize=9)
    for row, name in enumerate(names):
        axes[row, 0].set_ylabel(name, fontsize=9)
    return plots.png(figure)


def _draw_target(axis: Any, result: Result) -> None:
    (left, right), (bottom, top) = VIEW.get(experiment(result), DEFAULT_VIEW)
    xs, ys = np.meshgrid(np.linspace(left, right, 150), np.linspace(bottom, top, 150))
    config = result["config"]
    what = EXPERIMENTS[config["experiment"]]
    recipe = what.recipes[config["preset"]][config["method"]]
    target = what.task(config["effort"]).target(jax.random.key(0), recipe)
    grid = jnp.asarray(np.stack([xs, ys], -1), dtype=float)
    log_p = np.asarray(jax.vmap(jax.vmap(lambda z: target.log_joint(z, ())))(grid))
    levels = log_p.max() - np.array([8.0, 5.0, 3.0, 1.5, 0.5])
    axis.contour(xs, ys, log_p, levels=levels, colors=plots.ORANGE, linewidths=0.9, linestyles="solid")
    axis.set(xlim=(left, right), ylim=(bottom, top))


def history_figure(results: list[Result]) -> bytes:
    """The recorded ELBO (lower side, first seed) against time spent in updates."""
    labels = ("seconds in updates (all seeds, no compilation)", "ELBO in nats, lower side")
    line = (plots.Line("elbo_lower"),)
    groups = grouped(results, lambda r: r["title"]).items()
    return plots.curves_figure(
        [[plots.Panel(title, labels, found, line, "seconds", log_from=1e-2) for title, found in groups]]
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
    return f"<ul>{''.join(lines)}</ul>" if lines else "<p>No run with a goal here.</p>"


def _body(results: list[Result]) -> str:
    return "\n".join(
        [
            markup.heading("Draws (the paper's Figure 2)"),
            markup.note("Contours of the target and 300 draws of each fit (first seed)."),
            markup.image(draws_figure(results), "draws over contours"),
            markup.heading("Values"),
            markup.table(COLUMNS, results),
            markup.note(NOTE),
            markup.heading("Against the goals"),
            _goals(results),
            markup.heading("Bound against time"),
            markup.image(history_figure(results), "ELBO against time"),
        ]
    )


def _summary(result: Result) -> str:
    kl = median(result, "kl", "kl")
    return "KL(q‖p) unknown" if kl is None else f"KL(q‖p) {kl:.5f}"


SECTION = Section("Two-dimensional targets (Section 4.1)", COLUMNS, _body, _summary, DEVIATIONS["toy"])
