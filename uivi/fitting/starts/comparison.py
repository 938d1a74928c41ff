"""Which of several starts a fit takes: the one that is ahead after a few updates."""

import time
from collections.abc import Sequence

import numpy as np

from uivi.training.monitors import ElboMonitor
from uivi.training.progress import Reporter
from uivi.training.update import FitState, Method, averaged_state, copied, run_updates

NUM_DRAWS = 8_192


def ahead(method: Method, states: Sequence[FitState], num_steps: int, reporter: Reporter) -> int:
    """The number of the fit whose ELBO is the largest after `num_steps` updates of each.

    The updates are those that the fit itself begins with; `states` are left as they are. If no fit has a
    finite ELBO, or they are equal, it is the first.
    """
    monitor = ElboMonitor(num_steps, num_draws=NUM_DRAWS)
    found = []
    for number, state in enumerate(states, start=1):
        began = time.monotonic()
        tried, _ = run_updates(method, copied(state), num_steps)
        rate = num_steps / (time.monotonic() - began)
        bound = float(monitor(method, averaged_state(tried))["elbo_lower"])
        found.append(bound if np.isfinite(bound) else -np.inf)
        reporter.update(number * num_steps, len(states) * num_steps, rate, f"elbo_lower {bound:.3f}")
    return int(np.argmax(found))
