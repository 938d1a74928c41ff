"""Checks a fit: measures it, then judges the numbers."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from uivi._types import Key, Status
from uivi.estimators.base import AbstractEstimator
from uivi.evaluation import bounds, importance
from uivi.evaluation.check import Check
from uivi.evaluation.coverage import Region, coverage
from uivi.evaluation.findings import leaves_doubt, with_verdict
from uivi.evaluation.history import History, total
from uivi.evaluation.look import BATCH, Look, look
from uivi.evaluation.precision import measure_precision
from uivi.evaluation.thorough import search_far
from uivi.families.base import AbstractFamily
from uivi.targets.base import AbstractTarget

NUM_DRAWS = 2 * BATCH
"""Number of draws z of a first look, for the bounds, k-hat and the moments."""
MORE_DRAWS = 8 * BATCH
"""Number of draws of a second look at k-hat and the moments."""
FIRST_OF_MORE = 4
"""Number of the first batch of a second look, above all of a first look."""


def judge(
    key: Key,
    family: AbstractFamily,
    target: AbstractTarget,
    *,
    estimator: AbstractEstimator,
    est_state: PyTree,
    status: Status,
    history: History,
    quantities: Callable[[Any], Any] = lambda z: z,
    regions: Sequence[Region] = (),
) -> Check:
    """Checks a fit, with the same budget for every method. Only doubt asks for a second look.

    Args:
        key: random key.
        family: the fitted family, without context.
        target: the target that was fitted.
        estimator: the method of the fit.
        est_state: state of the method at the end of the fit.
        status: how the fit ended.
        history: columns recorded during the fit.
        quantities: maps draws z, shape (S, D), to the quantities whose moments are compared, shape (S, K).
        regions: where the paths of the search for a start have ended; empty without a search.
    """
    fit = (family, target, estimator, est_state)
    first = look(key, *fit, num_draws=NUM_DRAWS)
    evaluated = first.evaluated
    lower, upper = bounds.bracket(evaluated)
    more = lambda: look(key, *fit, num_draws=MORE_DRAWS, first=FIRST_OF_MORE)
    gaps, weights = compare_weights(first, more, quantities, doubt=leaves_doubt)
    log_mass = lower.mean + weights.kl
    measured = Check(
        status=status,
        dim=family.dim,
        lower=lower,
        upper=upper,
        mixing=first.mixing,
        weights=weights,
        nonfinite=total(history, "nonfinite"),
        skipped=float(sum(history.get("skipped", [0]))),
        gaps=gaps,
        precision=measure_precision(evaluated.z, evaluated.log_p),
        coverage=coverage(regions, evaluated.z, log_mass) if regions and math.isfinite(log_mass) else None,
    )
    return with_verdict(measured, history)


def judge_thoroughly(
    check: Check,
    key: Key,
    family: AbstractFamily,
    target: AbstractTarget,
    *,
    estimator: AbstractEstimator,
    est_state: PyTree,
    history: History,
) -> Check:
    """Adds to a check what a search from far-off points finds; see `uivi.evaluation.thorough`.

    Args:
        check: the check of the fit.
        key: random key.
        family: the fitted family, without context.
        target: the target that was fitted.
        estimator: the method of the fit.
        est_state: state of the method at the end of the fit.
        history: columns recorded during the fit.
    """
    fit = (family, target, estimator, est_state)
    look_key, search_key = jax.random.split(key)
    z = look(look_key, *fit).evaluated.z
    found = search_far(search_key, *fit, z, check.lower.mean + check.weights.kl)
    return with_verdict(dataclasses.replace(check, thorough=found), history)


def compare_weights(
    first: Look,
    more: Callable[[], Look],
    quantities: Callable[[Any], Any] = lambda z: z,
    *,
    doubt: Callable[[float, importance.MomentGaps], bool],
) -> tuple[importance.MomentGaps, importance.Weights]:
    """Returns what importance weights say of q: the gaps between its moments and the posterior's, and k-hat.

    Args:
        first: a first look.
        more: takes a second look, with more and fresh draws. It is called if the first one leaves doubt.
        quantities: maps draws z to the quantities whose moments are compared.
        doubt: whether k-hat and the gaps of the first look leave doubt.
    """

    def compare(made: Look) -> tuple[importance.MomentGaps, importance.Weights]:
        return _gaps(made, quantities), importance.summarise(made.evaluated.log_weights, made.evaluated.unsure)

    gaps, weights = compare(first)
    # Fresh draws decide, since the first ones were selected for their large gaps.
    return compare(more()) if doubt(weights.pareto_k, gaps) else (gaps, weights)


def _gaps(made: Look, quantities: Callable[[Any], Any]) -> importance.MomentGaps:
    """Compares the moments, also at wide draws. Those may leave the support, and then count for nothing."""
    z, log_p, log_q, log_r, is_wide = made.pooled
    values = np.asarray(quantities(z))
    finite = np.isfinite(log_p) & np.isfinite(log_q) & np.isfinite(log_r) & np.all(np.isfinite(values), 1)
    kept = finite | ~is_wide
    log_p = log_p.astype(np.float64)
    return importance.moment_gaps(values[kept], (log_p - log_r)[kept], (log_q - log_r)[kept])
