"""Checks a fit: measures it, then judges the numbers."""

from collections.abc import Callable

from jaxtyping import Array, PyTree

from uivi._types import Key, Status
from uivi.estimators.base import AbstractEstimator
from uivi.evaluation import bounds, importance
from uivi.evaluation.check import Check
from uivi.evaluation.findings import is_doubtful, with_verdict
from uivi.evaluation.history import History, total
from uivi.evaluation.look import BATCH, look
from uivi.families.base import AbstractFamily
from uivi.targets.base import AbstractTarget

NUM_DRAWS = 2 * BATCH
"""Number of draws z that measure the bounds, k-hat and the moments."""
MORE_DRAWS = 4
"""A second look at the moments takes this many times NUM_DRAWS."""
MORE_FIRST = 1_000
"""Number of the first batch of the second look."""


def judge(
    key: Key,
    family: AbstractFamily,
    target: AbstractTarget,
    *,
    estimator: AbstractEstimator,
    est_state: PyTree,
    status: Status,
    history: History,
    quantities: Callable[[Array], Array] = lambda z: z,
) -> Check:
    """Checks a fit, with the same budget for every method. Only moments in doubt get a second look.

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
    # Log q from above includes the ε of each draw. Without it, log q of a draw that no proposal finds is far
    # too low, and its weight enormous.
    compare = lambda made: importance.moment_gaps(quantities(made.z), made.log_p - made.log_q_high)
    evaluated, mixing = look(key, *fit, num_draws=NUM_DRAWS)
    lower, upper = bounds.bracket(evaluated)
    gaps, pareto_k = compare(evaluated), importance.pareto_k(evaluated.log_p - evaluated.log_q_high)
    if pareto_k < importance.RELIABLE_K and is_doubtful(gaps):
        # Fresh draws, since the first ones were selected for their large gaps.
        gaps = compare(look(key, *fit, num_draws=MORE_DRAWS * NUM_DRAWS, first=MORE_FIRST).evaluated)
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
