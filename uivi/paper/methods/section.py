"""The field's methods in the report: a table and published figures for each posterior, quality against time."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from uivi.evaluation.check import Verdict
from uivi.paper.methods.experiments import RATE, SIZES
from uivi.paper.methods.published import PUBLISHED
from uivi.paper.report import markup, plots
from uivi.paper.report.columns import COST, Column, bound, bound_column, number, run_columns, value_column
from uivi.paper.report.section import Section
from uivi.paper.results import Result, curve, distinct, experiment_name, grouped, look_up_number, median, values
from uivi.presets import DEFAULT_RATE

FLOOR = 1e-4
"""Smallest KL(q‖p) in the figure, below what its bounds resolve."""

Color = tuple[float, float, float]


class Score(NamedTuple):
    """How a score of a fit is shown.

    Attributes:
        header: what it is.
        digits: number of decimals.
        sign: 1 if a larger one is worse, -1 if it is better.
    """

    header: str
    digits: int
    sign: int = 1


SCORES = {
    "kl": Score("KL(q‖p) by quadrature", 4),
    "mean_error": Score("largest error of a mean, in sds", 3),
    "sd_error": Score("largest relative error of an sd", 3),
    "covariance_error": Score("covariance, relative error in the Frobenius norm", 3),
    "kde": Score("the literature's score: log density of the marginals by KDE", 2, -1),
    "rmse": Score("RMSE of the test rows", 3),
    "nll": Score("negative log-likelihood of a test row", 3),
}
"""The scores of all problems, in the order of the columns."""

NOTE = (
    "Every semi-implicit method but “pvi” and “default” fits the same family (a network with two layers of 50 "
    "units for the location, one trained scale for each coordinate) from the same start, with Adam at a rate "
    f"that falls from {RATE} to 0. “pvi” has particles instead of ε, “default” is the family, start and "
    f"estimator of `uivi.fit`, with a rate from {DEFAULT_RATE}, and a fixed number of updates. S is the number "
    "of draws of z in an update, K or L that of ε for each. Nothing was tuned on these results, and the papers "
    "have other sizes. The preset “updates” gives every method as many updates, “seconds” as many as fit into "
    "the seconds that “uivi” takes for its own, both timed on this machine; compilation does not count."
)
JUDGED = (
    "Numbers are medians over the seeds, with the worst seed in brackets. All fits are judged alike: bounds "
    "come from proposals that are learned anew for each fit, whatever its method has learned (particles and "
    "densities need none). KL(q‖p) is log Z minus the ELBO, from both sides, where log Z is known: 0 for the "
    "toys, an exact filter for the diffusion. Where it is not, a larger ELBO is better. A fit has failed if it "
    "stopped early, or if its ELBO is not finite or a million nats off. It stays in the medians as far as it "
    "has numbers. k-hat below 0.7 means that importance weights can be trusted."
)
SCORED = (
    "The diffusion's exact means and standard deviations come from the same filter. The literature's score of "
    "it saturates at 74.85 and sees no correlations. The waveforms' reference is a long run of NUTS "
    "(`benchmarks/waveform_reference.py`); its own error of the covariance is about 0.015. The networks have "
    "one split of the data, where published values are means over many."
)
PUBLISHED_NOTE = "Published figures; their protocols differ from ours."
FIGURE_NOTE = (
    "First seed, from the preset “seconds” if it was run, and otherwise (dashed) from “updates”. KL(q‖p) is "
    "bounded from above."
)


def spread_column(name: str, score: Score) -> Column:
    """Returns the column of a score: median and worst seed."""

    def cell(result: Result) -> str:
        found = values(result, "scores", name)
        worst = max(found, key=lambda x: score.sign * x) if found else None
        return f"{number(median(result, 'scores', name), score.digits)} [{number(worst, score.digits)}]"

    return Column(header=score.header, cell=cell)


def _number_failed(result: Result) -> int:
    return sum(seed.get("failed") is not False for seed in result["seeds"])


def _verdicts(result: Result) -> str:
    found = [int(value) for value in values(result, "check", "verdict") if value in list(Verdict)]
    counts = ((Verdict(value), found.count(value)) for value in sorted(set(found)))
    return ", ".join(f"{count} {verdict}" for verdict, count in counts) or "–"


def quality(result: Result) -> str:
    """Returns KL(q‖p) from above, or the ELBO from below where log Z is unknown."""
    if median(result, "kl_upper", "mean") is not None:
        return f"KL ≤ {bound(result, 3, 'kl_upper')}"
    return f"ELBO ≥ {bound(result, 2, 'check', 'lower')}"


FAILED = Column(
    header="failed",
    cell=lambda result: f"{_number_failed(result)} of {len(result['seeds'])}",
    on_terminal=True,
    flagged=lambda result: _number_failed(result) > 0,
)
COLUMNS = (
    *run_columns("target"),
    Column(header="KL or ELBO", cell=quality, on_terminal=True),
    value_column("k-hat", 2, "check", "weights", "pareto_k", on_terminal=True),
    FAILED,
)
"""What fits on a terminal."""


def _columns(results: list[Result]) -> tuple[Column, ...]:
    """Returns the columns of one posterior: only the scores that it has."""
    has = lambda *path: any(values(result, *path) for result in results)
    sides = (
        bound_column("KL(q‖p) (upper bound)", 4, "kl_upper"),
        bound_column("KL(q‖p) (lower bound)", 4, "kl_lower"),
    )
    elbos = (
        bound_column("ELBO (lower bound)", 3, "check", "lower"),
        bound_column("ELBO (upper bound)", 3, "check", "upper"),
    )
    return (
        *run_columns("target")[1:],
        Column(header="sizes", kind="text", cell=lambda r: SIZES.get(r["config"]["method"], "–")),
        *(sides if has("kl_upper", "mean") else elbos),
        *(spread_column(name, SCORES[name]) for name in SCORES if has("scores", name)),
        value_column("k-hat", 2, "check", "weights", "pareto_k"),
        Column(header="verdicts", kind="text", cell=_verdicts),
        FAILED,
        *COST[1:3],
    )


def _published(name: str) -> str:
    found = PUBLISHED.get(name, ())
    if not found:
        return ""
    return markup.note(PUBLISHED_NOTE) + markup.bullets(f"{p.method}: {p.figure} ({p.source})" for p in found)


def quality_figure(results: list[Result]) -> bytes:
    """Draws quality against seconds: one pair of axes for each posterior, one line for each method."""
    groups = list(grouped(results, lambda r: r["title"]).items())
    columns = min(2, len(groups))
    rows = -(-len(groups) // columns)
    methods = distinct(r["config"]["method"] for r in results)
    look = dict(zip(methods, _colors(len(methods)), strict=True))
    per_row = 4
    below = 0.25 * -(-len(methods) // per_row) + 0.2
    figure = Figure(figsize=(plots.WIDTH * columns, 3.0 * rows + below), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis, (title, found) in zip(axes, groups, strict=False):
        _draw(axis, title, found, look)
    for axis in axes[len(groups) :]:
        axis.set_visible(False)
    handles = [Line2D([], [], label=plots.plain(name), color=color) for name, color in look.items()]
    plots.legend_below(figure, handles, per_row)
    return plots.png(figure)


def _colors(count: int) -> Iterable[Color]:
    every = colormaps["tab20"].colors  # type: ignore[attr-defined]
    # The strong colours first.
    ordered = [*every[::2], *every[1::2]]
    return [ordered[i % len(ordered)] for i in range(count)]


def _draw(axis, title: str, results: list[Result], look: dict[str, Color]) -> None:
    timed = [r for r in results if r["config"]["preset"] == "seconds"] or results
    evidence = next((e for e in map(_log_evidence, timed) if e is not None), None)
    drawn = []
    for result in timed:
        x, y = curve(result, "elbo_lower", "seconds")
        shown = np.asarray(y) if evidence is None else np.maximum(evidence - np.asarray(y), FLOOR)
        style = "dashed" if result["config"]["preset"] == "updates" else "solid"
        color = look[result["config"]["method"]]
        axis.plot(x, shown, marker="o", markersize=2.5, linewidth=1.2, linestyle=style, color=color)
        drawn.append(shown)
    up = "ELBO in nats (lower bound)" if evidence is None else "KL(q‖p) in nats (upper bound)"
    plots.dress(axis, title, "seconds in updates (all seeds, no compilation)", up)
    axis.grid(visible=True, color="#e5e5e5", linewidth=0.6)
    if evidence is not None:
        axis.set_yscale("log")
    elif limits := plots.settled_limits(drawn):
        plots.with_commas(axis.yaxis)
        axis.set_ylim(*limits)


def _log_evidence(result: Result) -> float | None:
    """Returns log Z if the result knows it."""
    for seed in result["seeds"]:
        lower, kl = look_up_number(seed, "check", "lower", "mean"), look_up_number(seed, "kl_upper", "mean")
        if lower is not None and kl is not None:
            return lower + kl
    return None


def _body(results: list[Result]) -> str:
    parts = [markup.note(NOTE), markup.note(JUDGED), markup.note(SCORED)]
    for title, found in grouped(results, lambda r: r["title"]).items():
        parts += [markup.heading(title), markup.table(_columns(found), found)]
        parts += [_published(experiment_name(found[0]))]
    return "\n".join(
        [
            *parts,
            markup.heading("Quality against time"),
            markup.note(FIGURE_NOTE),
            markup.figures([quality_figure(results)], "quality against time"),
        ]
    )


SECTION = Section(
    title="The field's methods side by side",
    columns=COLUMNS,
    body=_body,
    summary=quality,
    deviations=(),
)
