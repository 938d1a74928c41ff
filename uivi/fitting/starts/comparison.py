"""Picks the start that is ahead after a few updates."""

import time
from collections.abc import Sequence

import numpy as np

from uivi.evaluation.bounds import bracket
from uivi.evaluation.look import BATCH, look
from uivi.training.progress import AbstractReporter
from uivi.training.rounds import Rounds
from uivi.training.update import FitState, Method, averaged_state, copied, run_updates

NUM_DRAWS = 2 * BATCH
FIRST_BATCH = -(2**31)
"""Number of the first batch of draws: a number that neither an update nor a monitor uses."""
MOST_TRIED = 500
"""Largest number of updates from each start before one is picked."""


def pick_start(
    method: Method, states: Sequence[FitState], rounds: Rounds, reporter: AbstractReporter
) -> FitState:
    """Returns the state that is ahead after `MOST_TRIED` updates, or after half of the first round.

    The updates are those with which the fit itself begins, so the fit goes on from there. A single state is
    returned as it is.
    """
    num_steps = min(MOST_TRIED, rounds.first // 2)
    if len(states) == 1 or not num_steps:
        return states[0]
    reporter.phase("comparing starts")
    return ahead(method, states, num_steps, reporter)[0]


def ahead(
    method: Method, states: Sequence[FitState], num_steps: int, reporter: AbstractReporter
) -> tuple[FitState, int]:
    """Makes `num_steps` updates of each fit; returns the one with the largest ELBO, and its index.

    `states` stay as they are. If no fit has a finite ELBO, or several are equal, the first one wins.
    """
    found = []
    for number, state in enumerate(states, start=1):
        began = time.monotonic()
        tried, _ = run_updates(method, copied(state), num_steps)
        rate = num_steps / (time.monotonic() - began)
        best = averaged_state(tried)
        fit = (best.family, best.target, method.estimator, best.est_state)
        bound = bracket(look(best.key, *fit, num_draws=NUM_DRAWS, first=FIRST_BATCH).evaluated)[0].mean
        found.append((tried, bound if np.isfinite(bound) else -np.inf))
        reporter.update(number * num_steps, len(states) * num_steps, rate, f"elbo_lower {bound:.3f}")
    index = int(np.argmax([bound for _, bound in found]))
    return found[index][0], index
