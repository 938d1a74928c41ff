"""Seconds until a fit of the banana is good: a cheap update that learns little is no gain."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import optax

from uivi import presets
from uivi._types import Key
from uivi.estimators import AbstractEstimator
from uivi.evaluation import metrics
from uivi.families import AbstractFamily
from uivi.targets import Banana
from uivi.training.update import Method, averaged_state, initial_state, run_updates

GOALS = (0.3, 0.1, 0.03, 0.01)
"""KL(q‖p), by quadrature."""


@dataclasses.dataclass(frozen=True)
class Racer:
    """A method with its usual family and optimiser."""

    family: Callable[[Key, int], AbstractFamily]
    estimator: AbstractEstimator
    optimizer: Callable[[int], optax.GradientTransformation]
    steps: int
    chunk: int
    """Updates before the first look."""


RACERS = {
    "uivi, paper": Racer(presets.paper_family, presets.paper_uivi(), presets.paper_optimizer, 50_000, 1_000),
    "uivi, default": Racer(
        presets.default_family, presets.default_uivi(), presets.default_optimizer, 6_000, 300
    ),
    "sivi, default": Racer(
        presets.default_family, presets.default_sivi(), presets.default_optimizer, 6_000, 300
    ),
}


def race(name: str, key: Key, limit: float) -> list[dict[str, Any]]:
    """The first time, evaluation and compilation excluded, at which the KL is below each goal.

    Looked at again after a quarter of the updates so far. A goal that is not reached within `limit` seconds has
    no time.
    """
    racer, target = RACERS[name], Banana()
    method = Method(racer.estimator, racer.optimizer(racer.steps))
    state = initial_state(key, method, racer.family(key, target.dim), target)
    state, _ = run_updates(method, state, 1)
    spent, reached = 0.0, dict.fromkeys(GOALS)
    while int(state.step) < racer.steps and spent < limit and None in reached.values():
        began = time.perf_counter()
        state, _ = run_updates(method, state, max(racer.chunk, int(state.step) // 4))
        spent += time.perf_counter() - began
        family = averaged_state(state).family
        found = metrics.kl_quadrature(family, target, spacing=0.2, log2_mixing=12).kl
        for goal in GOALS:
            if reached[goal] is None and found < goal:
                reached[goal] = spent
    return [{"method": name, "kl": goal, "seconds": seconds} for goal, seconds in reached.items()]
