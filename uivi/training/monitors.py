"""Values recorded while a fit runs, besides those that every update reports."""

import abc
import math
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array

from uivi.evaluation import bounds
from uivi.evaluation.findings import ENOUGH_ERROR, falls_short, is_close
from uivi.evaluation.history import CLOSE, SHORT
from uivi.evaluation.importance import kl_divergence
from uivi.evaluation.look import BATCH, look
from uivi.evaluation.verdict import FIRST_OF_MORE, MORE_DRAWS, compare_moments
from uivi.training.update import FitState, Method

MOST_BATCHES = 16
"""Largest number of batches in one look of a monitor."""


class AbstractMonitor(eqx.Module):
    """Evaluates a fit every `every` updates. Its values are columns of the history.

    The time of an evaluation does not count as time of the fit. Randomness comes from the state, so a resumed
    fit has the same history.
    """

    every: eqx.AbstractVar[int]

    @abc.abstractmethod
    def __call__(self, method: Method, state: FitState) -> Mapping[str, Array | float]:
        """Evaluates a single (unstacked) fit."""

    def key(self, state: FitState) -> Array:
        """Returns a key that differs from update to update and from every key of the fit itself."""
        return jax.random.fold_in(state.key, -1 - state.step)


class ElboMonitor(AbstractMonitor):
    """A lower bound of the ELBO, and whether the fit falls short.

    Attributes:
        every: number of updates between two looks.
        num_draws: number of draws of a look.
        quantities: maps draws z to the quantities whose moments are compared, as in the verdict.
    """

    every: int = eqx.field(static=True)
    num_draws: int = eqx.field(static=True, default=2 * BATCH)
    quantities: Callable[[Any], Any] = eqx.field(static=True, default=lambda z: z)

    def __call__(self, method: Method, state: FitState) -> dict[str, float]:
        """Returns the bound with its standard error, and what decides whether the fit needs more effort."""
        fit = (state.family, state.target, method.estimator, state.est_state)
        # Negative numbers: the fit itself draws with fold_in(key, t) for t from 0.
        first = -MOST_BATCHES * (1 + int(state.step))
        found = look(state.key, *fit, num_draws=self.num_draws, first=first)
        lower, upper = bounds.bracket(found.evaluated)
        more = lambda: look(state.key, *fit, num_draws=MORE_DRAWS, first=first + FIRST_OF_MORE).evaluated
        kl, _ = kl_divergence(found.evaluated.log_p - found.evaluated.log_q_high)
        gaps, pareto_k = compare_moments(found.evaluated, more, self.quantities, limit=ENOUGH_ERROR)
        return {
            "elbo_lower": lower.mean,
            "elbo_lower_stderr": lower.stderr,
            "bracket": upper.mean - lower.mean,
            "recovered": math.nan if found.mixing is None else found.mixing.recovered,
            "pareto_k": pareto_k,
            "kl": kl,
            SHORT: float(falls_short(pareto_k, gaps)),
            CLOSE: float(is_close(pareto_k, kl, gaps, state.family.dim)),
        }
