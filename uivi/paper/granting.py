"""Grants the updates of a run. If its budget counts seconds, updates are timed first."""

import dataclasses
import json
import statistics
import time

from uivi import _checks
from uivi.paper.budgets import Granted
from uivi.paper.experiment import AbstractTask
from uivi.paper.plan import MOST_STEPS, Run, first_state
from uivi.storage import archive
from uivi.training.progress import AbstractReporter
from uivi.training.update import FitState, Method, run_updates

STRETCHES, STRETCH = 5, 0.3
"""Number of stretches of updates that are timed, and the least seconds of each."""


def granted(plan: Run, tasks: list[AbstractTask], shown: AbstractReporter, *, resume: bool) -> Granted:
    """Returns the number of updates. One that was timed is kept, so that a resumed run has the same."""
    if resume and (kept := _kept(plan)):
        return kept

    def pace(name: str) -> float:
        if name == plan.method:
            return _timed(plan, tasks, shown)
        other = dataclasses.replace(plan, method=name)
        _checks.known_name("method", name, plan.experiments[0].recipes[plan.preset])
        kept = _kept(other)
        return kept.seconds[name] if kept else _timed(other, tasks, shown)

    found = plan.recipe.budget.grant(plan.method, plan.num_steps, pace)
    if found.seconds:
        found = found._replace(updates=min(found.updates, MOST_STEPS))
        content = found._asdict() | {"number": plan.num_steps, "seeds": list(plan.seeds)}
        plan.budget_path.parent.mkdir(parents=True, exist_ok=True)
        archive.write_bytes(plan.budget_path, json.dumps(content, indent=1).encode())
    return found


def _kept(plan: Run) -> Granted | None:
    """Returns what an earlier run with as many updates and the same seeds was granted, or None."""
    if not plan.budget_path.exists():
        return None
    try:
        found = json.loads(plan.budget_path.read_text())
        granted = Granted(int(found["updates"]), {str(k): float(v) for k, v in found["seconds"].items()})
        is_same = (found["number"], found["seeds"]) == (plan.num_steps, list(plan.seeds))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"expected the number of updates in {plan.budget_path}, got something else ({error!r}): delete the "
            "file, and it will be timed again"
        ) from error
    return granted if is_same else None


def _timed(plan: Run, tasks: list[AbstractTask], shown: AbstractReporter) -> float:
    """Returns the seconds of one update of all fits: the median of a few stretches, without compilation."""
    shown.phase(f"timing an update of {plan.method}")
    method, state, _ = first_state(plan, tasks, plan.num_steps)
    return pace_of(method, state, plan.num_steps)


def pace_of(method: Method, state: FitState, num_steps: int) -> float:
    """Returns the seconds of an update from this state on, of all fits in it.

    Args:
        method: the method.
        state: the first state. It is used up.
        num_steps: most updates of a stretch.
    """
    state, _ = run_updates(method, state, 1)
    size, paces = 1, []
    while len(paces) < STRETCHES:
        began = time.perf_counter()
        state, _ = run_updates(method, state, size)
        elapsed = time.perf_counter() - began
        if elapsed < STRETCH and size < num_steps:
            size = min(2 * size, num_steps)
        else:
            paces.append(elapsed / size)
    return statistics.median(paces)
