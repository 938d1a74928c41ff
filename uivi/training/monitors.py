"""Values recorded while a fit runs, besides those that every update reports."""

import abc
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array

from uivi.evaluation import bounds
from uivi.evaluation.findings import ENOUGH_ERROR, falls_short, is_close, is_doubtful, is_near
from uivi.evaluation.history import CLOSE, NEAR, SHORT
from uivi.evaluation.look import BATCH, Look, look
from uivi.evaluation.verdict import FIRST_OF_MORE, MORE_DRAWS, NUM_DRAWS, compare_weights
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
    """The ELBO from below, how far apart its two sides are, and how well the reverse sampler mixes.

    Attributes:
        every: number of updates between two looks.
    """

    every: int = eqx.field(static=True)

    def __call__(self, method: Method, state: FitState) -> dict[str, float]:
        """Returns the bound with its standard error, and what else one batch of draws tells."""
        return _bound(_looks(method, state)(num_draws=BATCH))


class RoundMonitor(AbstractMonitor):
    """The same at the end of a round, and what decides whether another round follows.

    Attributes:
        every: number of updates between two looks. The end of a round always has one.
        quantities: maps draws z to the quantities whose moments are compared, as in the verdict.
    """

    every: int = eqx.field(static=True)
    quantities: Callable[[Any], Any] = eqx.field(static=True, default=lambda z: z)

    def __call__(self, method: Method, state: FitState) -> dict[str, float]:
        """Returns the bound, and whether the fit falls short of a good one or is close to the posterior."""
        looks = _looks(method, state)
        found = looks(num_draws=NUM_DRAWS)
        more = lambda: looks(num_draws=MORE_DRAWS, first=FIRST_OF_MORE)
        doubt = functools.partial(is_doubtful, limit=ENOUGH_ERROR)
        gaps, weights = compare_weights(found, more, self.quantities, doubt=doubt)
        return _bound(found) | {
            "pareto_k": weights.pareto_k,
            "kl": weights.kl,
            SHORT: float(falls_short(weights, gaps)),
            NEAR: float(is_near(weights, gaps)),
            CLOSE: float(is_close(weights, gaps, state.family.dim)),
        }


def _looks(method: Method, state: FitState) -> Callable[..., Look]:
    """Returns a function that looks at this state, with draws that neither the fit nor another look has."""
    fit = (state.family, state.target, method.estimator, state.est_state)
    # Negative numbers: the fit itself draws with fold_in(key, t) for t from 0.
    start = -MOST_BATCHES * (1 + int(state.step))
    return lambda num_draws, first=0: look(state.key, *fit, num_draws=num_draws, first=start + first)


def _bound(found: Look) -> dict[str, float]:
    lower, upper = bounds.bracket(found.evaluated)
    return {
        "elbo_lower": lower.mean,
        "elbo_lower_stderr": lower.stderr,
        "bracket": upper.mean - lower.mean,
        "recovered": math.nan if found.mixing is None else found.mixing.recovered,
    }
