"""Seconds until a fit of the banana is good, since a cheap update that learns little gains nothing."""

import dataclasses
import functools
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
"""Values of KL(q‖p), computed by quadrature, that the methods race to."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Racer:
    """A method with its usual family and optimiser.

    Attributes:
        family: builds the family from a key and the size of z.
        estimator: gradient estimator.
        optimizer: builds the optimiser from the number of updates.
        num_steps: largest number of updates.
        chunk: number of updates before the first evaluation.
    """

    family: Callable[[Key, int], AbstractFamily]
    estimator: AbstractEstimator
    optimizer: Callable[[int], optax.GradientTransformation]
    num_steps: int
    chunk: int


_default = functools.partial(
    Racer,
    family=presets.default_family,
    optimizer=presets.default_optimizer,
    num_steps=6_000,
    chunk=300,
)

RACERS = {
    "uivi, paper": Racer(
        family=presets.paper_family,
        estimator=presets.paper_uivi(),
        optimizer=presets.paper_optimizer,
        num_steps=50_000,
        chunk=1_000,
    ),
    "uivi, default": _default(estimator=presets.default_uivi()),
    "sivi, default": _default(estimator=presets.default_sivi()),
}


def race(name: str, key: Key, limit: float) -> list[dict[str, Any]]:
    """Returns the seconds at which the KL first falls below each goal, without evaluation and compilation.

    The KL is evaluated each time the number of updates has grown by a quarter. A goal that is not reached
    within `limit` seconds has None for its seconds.
    """
    racer, target = RACERS[name], Banana()
    method = Method(racer.estimator, racer.optimizer(racer.num_steps))
    state = initial_state(key, method, racer.family(key, target.dim), target)
    state, _ = run_updates(method, state, 1)  # compiles
    spent, reached = 0.0, dict.fromkeys(GOALS)
    while int(state.step) < racer.num_steps and spent < limit and None in reached.values():
        began = time.perf_counter()
        state, _ = run_updates(method, state, max(racer.chunk, int(state.step) // 4))
        spent += time.perf_counter() - began
        family = averaged_state(state).family
        found = metrics.kl_quadrature(family, target, spacing=0.2, log2_mixing=12).kl
        for goal in GOALS:
            if reached[goal] is None and found < goal:
                reached[goal] = spent
    return [{"method": name, "kl": goal, "seconds": seconds} for goal, seconds in reached.items()]
