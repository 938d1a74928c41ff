"""The weights of separate modes, from importance weights at draws of q.

No gradient goes through the choice of a mode, so its weight is not trained. At the end of a round, q's draws
say how much of the posterior each mode has.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from uivi._jax import once_jit
from uivi.evaluation.importance import smoothed_weights
from uivi.evaluation.look import BATCH, look
from uivi.families.conditionals.modes import AtModes
from uivi.families.semi_implicit import SemiImplicit
from uivi.training.update import FitState, Method, averaged_state

NUM_DRAWS = 4 * BATCH
FIRST_BATCH = 12
"""Number of the first batch, beyond those of the monitors' looks at the same state."""
MOST_BATCHES = 16
FEWEST = 5.0
"""Least number of draws of a mode that change its weight."""
LARGEST_STEP = 10.0
"""Factor by which a weight changes at most: a few draws of a heavy tail must not take everything."""


def reweighted(method: Method, state: FitState) -> FitState:
    """Returns a fit with the weights of its modes set by importance weights; any other fit as it is.

    Within the cell of a mode, q's mass is multiplied by the mean of p/q there. The draws of each mode are
    compared with each other alone, so it does not matter how many of all draws fell to it. With p/q constant
    in every cell, the weights are exact.
    """
    family = state.family
    if state.step.ndim or not (isinstance(family, SemiImplicit) and isinstance(family.conditional, AtModes)):
        return state
    judged = averaged_state(state)
    fit = (judged.family, judged.target, method.estimator, judged.est_state)
    first = -MOST_BATCHES * (1 + int(state.step)) + FIRST_BATCH
    found = look(state.key, *fit, num_draws=NUM_DRAWS, first=first).evaluated
    relative = np.exp(smoothed_weights(found.log_weights)[0])
    if not np.all(np.isfinite(relative)):
        return state
    assert isinstance(judged.family, SemiImplicit)
    assert isinstance(judged.family.conditional, AtModes)
    shares = np.asarray(_shares(judged.family.conditional, jnp.asarray(found.z)), np.float64)
    old = np.asarray(family.conditional.log_weights.value)
    new = changed(old.astype(np.float64), shares, relative)
    where = lambda state: state.family.conditional.log_weights.value
    return eqx.tree_at(where, state, jnp.asarray(new, old.dtype))


def changed(log_weights: np.ndarray, shares: np.ndarray, relative: np.ndarray) -> np.ndarray:
    """Returns the next log weights.

    Args:
        log_weights: the log weights of K modes.
        shares: probability that each draw belongs to each mode, shape (S, K).
        relative: importance weights p/q of the draws, up to a factor.
    """
    count = shares.sum(0)
    mean = relative @ shares / np.maximum(count, 1e-300)
    is_known = (count >= FEWEST) & (mean > 0)
    own = np.where(is_known, np.exp(log_weights), 0.0)
    if not np.any(is_known):
        return log_weights
    ratio = mean * np.sum(own) / np.sum(own * mean)
    ratio = np.where(is_known, np.clip(ratio, 1 / LARGEST_STEP, LARGEST_STEP), 1.0)
    new = log_weights + np.log(ratio)
    return new - np.logaddexp.reduce(new)


@once_jit
def _shares(conditional: AtModes, z: jax.Array) -> jax.Array:
    return jax.vmap(conditional.shares)(z)
