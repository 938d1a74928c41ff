"""The sampler benchmarks in the report: KL(q‖p) from both sides against our goals, draws, modes, times."""

import dataclasses
from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from uivi.evaluation.check import Verdict
from uivi.paper.methods.section import FAILED, Score, quality, spread_column
from uivi.paper.report import markup, plots
from uivi.paper.report.columns import Column, bound_column, number, run_columns, value_column
from uivi.paper.report.contours import View, draws_figure
from uivi.paper.report.section import Section
from uivi.paper.results import (
    Result,
    distinct,
    experiment_name,
    grouped,
    look_up,
    look_up_number,
    median,
    values,
)
from uivi.paper.samplers.benchmarks import BENCHMARKS
from uivi.paper.samplers.experiments import CONTENDERS
from uivi.paper.samplers.published import GOALS, in_words
from uivi.targets.mixtures import AbstractMixture

MARGIN = 1.25
"""Size of a picture in units of the largest coordinate of a mode's centre."""
FLAT = 0.01
"""Nats within which the axis of a figure is linear, on a target without a goal."""

SCORES = {
    "distance": Score("sliced W2 to exact draws, in sds", 4),
    "distance_exact": Score("the same between two exact samples", 4),
    "distance_ratio": Score("ratio of the two", 2),
    "modes_found": Score("modes found", 0, -1),
    "weight_error": Score("largest error of a mode's weight", 4),
    "weight_factor": Score("largest factor of a mode's weight", 2),
    "mean_error": Score("largest error of a mean, in sds", 3),
    "sd_error": Score("largest relative error of an sd", 3),
    "kde": Score("the literature's score: log density of the marginals by KDE", 2, -1),
}
"""The scores of all targets, in the order of the columns."""
PHASES = {
    "reading the model": "model",
    "searching for a start": "search",
    "compiling": "compile",
    "updates": "updates",
    "checking": "check",
    "warm-up": "warm-up",
    "draws": "draws",
}
"""Short names of the phases of a fit, in order."""

NOTE = (
    "`uivi` is what a user gets: it decides by itself when it is done. Each rival then has its seconds, seed "
    "by seed, with search, compilation, warm-up and check included; trials that only find the pace do not "
    "count. Programs are compiled anew for every fit."
)
JUDGED = (
    "Numbers are medians over the seeds, with the worst seed in brackets. KL(q‖p) is log Z minus the ELBO, "
    "from both sides; ± contains the standard error of log Z. Where log Z is not known, the ELBO is shown. All "
    "fits have the same judge: bounds and weights come from proposals that are learned anew for each fit. The "
    "verdict is that of the fit's own check. Chains have no bounds. k-hat below 0.7 means that importance "
    "weights can be trusted."
)
SCORED = (
    "The sliced W2 distance is in standard deviations of the exact draws. Two exact samples differ as well: a "
    "ratio of 1 cannot be told from exact. A mode is found if a third of its weight is there. The factor of "
    "a weight is the larger of found/right and right/found, the largest of all modes; a dash means that a mode "
    "has nothing. "
    "The diffusions' exact marginals come from a filter on a grid. The literature's score of them saturates at "
    "74.85 and sees no correlations."
)
PUBLISHED_NOTE = "Published figures, second-hand; their protocols differ from ours."
FIGURE_NOTE = "KL(q‖p) from both sides, a line for each seed; the goal is dashed."


def _target_name(result: Result) -> str:
    return experiment_name(result).removeprefix("samplers-")


def _goal(result: Result) -> float | None:
    return GOALS.get(_target_name(result))


def _goal_words(result: Result) -> str:
    goal, kl = _goal(result), median(result, "kl_upper", "mean")
    if goal is None or kl is None:
        return number(goal, 3)
    return f"{number(goal, 3)} ({'met' if kl <= goal else 'missed'})"


def _misses(result: Result) -> bool:
    goal, kl = _goal(result), median(result, "kl_upper", "mean")
    return goal is not None and kl is not None and kl > goal


def _verdicts(result: Result) -> str:
    found = [int(value) for value in values(result, "own", "verdict") if value in list(Verdict)]
    counts = ((Verdict(value), found.count(value)) for value in sorted(set(found)))
    return ", ".join(f"{count} {verdict}" for verdict, count in counts) or "–"


def _outcome(result: Result) -> str:
    """Returns the bound of a fit, or the R-hat of chains, which have no bound."""
    r_hat = median(result, "chains", "r_hat")
    return quality(result) if r_hat is None else f"R-hat {number(r_hat, 3)}"


def _modes(result: Result) -> str:
    """Returns how many modes the median and the worst seed have found."""
    whole, found = median(result, "scores", "modes"), values(result, "scores", "modes_found")
    if whole is None or not found:
        return "–"
    middle = number(median(result, "scores", "modes_found"), 0)
    return f"{middle} [{number(min(found), 0)}] of {number(whole, 0)}"


def _phases(result: Result) -> str:
    """Returns the median seconds of each phase."""
    medians = {short: median(result, "phases", name) for name, short in PHASES.items()}
    return ", ".join(f"{short} {number(s, 1)}" for short, s in medians.items() if s is not None) or "–"


def _worst_kl(result: Result) -> str:
    found = values(result, "kl_upper", "mean")
    return number(max(found) if found else None, 4)


KL = (
    bound_column("KL(q‖p) (upper bound)", 4, "kl_upper"),
    Column(header="its worst seed", cell=_worst_kl),
    bound_column("KL(q‖p) (lower bound)", 4, "kl_lower"),
)
ELBO = (
    bound_column("ELBO (lower bound)", 3, "check", "lower"),
    bound_column("ELBO (upper bound)", 3, "check", "upper"),
)
GOAL = Column(header="goal", cell=_goal_words, flagged=_misses)
WEIGHTS = (
    value_column("effective share of the weights", 2, "check", "weights", "ess"),
    value_column("k-hat", 2, "check", "weights", "pareto_k", on_terminal=True),
)
ALL_FAILED = dataclasses.replace(FAILED, on_terminal=False)  # the names are long
VERDICTS = Column(header="verdicts", kind="text", cell=_verdicts)
SECONDS = (
    Column(header="seeds", cell=lambda result: str(len(result["seeds"]))),
    value_column("seconds", 1, "seconds"),
)
COLUMNS = (
    *run_columns("target"),
    Column(header="KL, ELBO or largest R-hat", cell=_outcome, on_terminal=True),
    *KL,
    GOAL,
    *WEIGHTS,
    value_column("sliced W2 over that of exact draws", 2, "scores", "distance_ratio"),
    Column(header="modes found", cell=_modes),
    VERDICTS,
    ALL_FAILED,
    *SECONDS,
)
"""The table of all targets; what fits on a terminal is marked."""


def _columns(results: list[Result]) -> tuple[Column, ...]:
    """Returns the columns of one target: only those that its results have."""
    has: Callable[..., bool] = lambda *path: any(values(result, *path) for result in results)
    scores = [
        Column(header=score.header, cell=_modes) if name == "modes_found" else spread_column(name, score)
        for name, score in SCORES.items()
        if has("scores", name)
    ]
    chains = (
        value_column("largest R-hat", 3, "chains", "r_hat"),
        value_column("smallest effective sample size", 0, "chains", "ess"),
        value_column("warm-up of a chain", 0, "chains", "warmup"),
        value_column("kept draws of a chain", 0, "chains", "kept"),
        value_column("divergences", 0, "chains", "divergences"),
    )
    return (
        *run_columns("target")[1:],
        *((*KL, GOAL) if has("kl_upper", "mean") else ELBO),
        *WEIGHTS,
        *scores,
        *(chains if has("chains", "r_hat") else ()),
        VERDICTS,
        FAILED,
        *SECONDS,
        Column(header="seconds of each phase", kind="text", cell=_phases),
        Column(header="updates", cell=lambda result: number(result["config"]["num_steps"] or None, 0)),
    )


def _advice(results: list[Result]) -> str:
    """Returns what the checks of the default fits advise."""
    found = []
    for result in results:
        if result["config"]["method"] == next(iter(CONTENDERS)):
            advice = (look_up(seed, "own", "advice") for seed in result["seeds"])
            found += [text for texts in advice if isinstance(texts, list) for text in texts]
    texts = distinct(text for text in found if isinstance(text, str))
    return markup.bullets(f"`uivi`: {text}" for text in texts) if texts else ""


def _published(result: Result) -> str:
    lines = in_words(_target_name(result))
    return markup.note(PUBLISHED_NOTE) + markup.bullets(lines) if lines else ""


def kl_figure(results: list[Result]) -> bytes:
    """Draws both sides of KL(q‖p), or of the ELBO if log Z is unknown: a row for each method."""
    bounded = [r for r in results if values(r, "check", "lower", "mean")] or results
    has_kl = any(values(result, "kl_upper", "mean") for result in bounded)
    sides = (("kl_lower",), ("kl_upper",)) if has_kl else (("check", "lower"), ("check", "upper"))
    figure = Figure(figsize=(plots.WIDTH, 1.2 + 0.35 * len(bounded)), layout="constrained")
    axis = figure.subplots()
    for place, result in enumerate(bounded):
        seeds = result["seeds"]
        for i, seed in enumerate(seeds):
            ends = [end for side in sides if (end := look_up_number(seed, *side, "mean")) is not None]
            height = place + 0.5 * ((i + 0.5) / len(seeds) - 0.5)
            if len(ends) == len(sides):
                axis.plot(ends, [height] * 2, marker="|", markersize=5, linewidth=1.4, color=plots.BLUE)
    names = [plots.plain(result["config"]["method"]) for result in bounded]
    axis.set_yticks(np.arange(len(bounded)), names)
    axis.set_ylim(len(bounded) - 0.5, -0.5)
    goal = _goal(results[0])
    plots.dress(axis, results[0]["title"], "KL(q‖p) in nats" if has_kl else "ELBO in nats", "")
    axis.grid(visible=True, axis="x", color="#e5e5e5", linewidth=0.6)
    if has_kl:
        axis.set_xscale("symlog", linthresh=goal or FLAT)
        axis.axvline(0, color="black", linewidth=0.6)
        if goal is not None:
            axis.axvline(goal, color=plots.ORANGE, linewidth=1.2, linestyle="dashed")
    return plots.png(figure)


def _picture(results: list[Result]) -> str:
    """Returns the draws in the plane, over the contours of a mixture that we know."""
    draws = [z for result in results for z in result["exhibit"].get("draws") or []]
    if not draws:
        return ""
    known = BENCHMARKS.get(_target_name(results[0]))
    target = known.make() if known is not None and known.dataset is None else None
    places, log_density = np.asarray(draws, np.float64), None
    if isinstance(target, AbstractMixture) and target.dim == 2:
        places, log_density = np.asarray(target.centres.stored()), target.log_density
    most = MARGIN * max(1.0, float(np.max(np.abs(places))))
    view: View = ((-most, most), (-most, most))
    drawn = draws_figure(results, view, log_density)
    return markup.figures([drawn], "draws over contours")


def _body(results: list[Result]) -> str:
    about = markup.bullets(f"`{name}`: {contender.words}" for name, contender in CONTENDERS.items())
    parts = [markup.note(NOTE), about, markup.note(JUDGED), markup.note(SCORED)]
    has_kl = any(values(result, "kl_upper", "mean") for result in results)
    columns = [column for column in COLUMNS if has_kl or column not in KL]
    parts += [markup.heading("All targets"), markup.table(columns, results)]
    for title, found in grouped(results, lambda r: r["title"]).items():
        parts += [markup.heading(title), markup.table(_columns(found), found)]
        parts += [_advice(found), _published(found[0]), _picture(found)]
    drawn = [kl_figure(found) for found in grouped(results, lambda r: r["title"]).values()]
    parts += [markup.heading("Distance from the posterior"), markup.note(FIGURE_NOTE)]
    return "\n".join([*parts, markup.figures(drawn, "KL from both sides")])


SECTION = Section(
    title="Targets with a known log Z",
    columns=COLUMNS,
    body=_body,
    summary=_outcome,
    deviations=(),
)
