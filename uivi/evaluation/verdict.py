"""Checks a fit: measures it, then judges the numbers."""

from collections.abc import Callable
from typing import Any

from jaxtyping import PyTree

from uivi._types import Key, Status
from uivi.estimators.base import AbstractEstimator
from uivi.evaluation import bounds, importance
from uivi.evaluation.check import Check
from uivi.evaluation.findings import GOOD_ERROR, is_doubtful, with_verdict
from uivi.evaluation.history import History, total
from uivi.evaluation.look import BATCH, look
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
    """
    fit = (family, target, estimator, est_state)
    evaluated, mixing = look(key, *fit, num_draws=NUM_DRAWS)
    lower, upper = bounds.bracket(evaluated)
    more = lambda: look(key, *fit, num_draws=MORE_DRAWS, first=FIRST_OF_MORE).evaluated
    gaps, pareto_k = compare_weights(evaluated, more, quantities)
    measured = Check(
        status=status,
        lower=lower,
        upper=upper,
        mixing=mixing,
        pareto_k_lower=pareto_k,
        pareto_k_upper=importance.pareto_k(evaluated.log_p - evaluated.log_q_low),
        nonfinite=total(history, "nonfinite"),
        skipped=float(sum(history.get("skipped", [0]))),
        gaps=gaps,
    )
    return with_verdict(measured, history)


def compare_weights(
    evaluated: bounds.Evaluated,
    more: Callable[[], bounds.Evaluated],
    quantities: Callable[[Any], Any] = lambda z: z,
    *,
    limit: float = GOOD_ERROR,
) -> tuple[importance.MomentGaps, float]:
    """Returns what importance weights say of q: the gaps between its moments and reweighted ones, and k-hat.

    Args:
        evaluated: draws of a first look.
        more: returns more and fresh draws. It is called if the first ones leave doubt.
        quantities: maps draws z to the quantities whose moments are compared.
        limit: gap from which a moment is in doubt.
    """

    def compare(made: bounds.Evaluated) -> tuple[importance.MomentGaps, float]:
        # Log q from above includes the ε of each draw. Without it, log q of a draw that no proposal finds is
        # far too low, and its weight enormous.
        log_weights = made.log_p - made.log_q_high
        return importance.moment_gaps(quantities(made.z), log_weights), importance.pareto_k(log_weights)

    gaps, pareto_k = compare(evaluated)
    # Fresh draws decide, since the first ones were selected for their large gaps.
    return compare(more()) if is_doubtful(pareto_k, gaps, limit) else (gaps, pareto_k)
