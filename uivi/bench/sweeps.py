"""How the cost of an update and of its chain grows with the size of z, the chains and the width."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from uivi import presets
from uivi._types import Key
from uivi.bench.measure import timing
from uivi.estimators import UIVI
from uivi.families import AbstractFamily
from uivi.reverse import HMC, AdaptBetween
from uivi.targets import Density
from uivi.training.update import Method, initial_state

NOISE_DIM, LEAPFROGS = 10, 5
MOVES, FEWER, MORE = 10, 5, 25
"""Moves of the reported chain, and of the two chains whose times are compared."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """Sizes of a fit to a standard normal density, which costs next to nothing itself.

    Attributes:
        dim: size of z.
        chains: number of chains, S.
        width: width of the hidden layers.
    """

    dim: int = 10
    chains: int = 100
    width: int = 200

    def family(self, key: Key, dim: int) -> AbstractFamily:
        """Returns the paper's family at this width."""
        return presets.paper_family(key, dim, noise_dim=NOISE_DIM, width=self.width)

    def seconds(self, key: Key, moves: int, precision: str | None, updates: int) -> float:
        """Returns the time of an update with a chain of this many moves."""
        sampler = HMC(
            num_burnin=moves - 1,
            num_draws=1,
            num_leapfrog=LEAPFROGS,
            step_size=AdaptBetween(initial=0.05),
        )
        method = Method(UIVI(self.chains, sampler), presets.paper_optimizer(1), precision)
        target = Density(lambda z: -0.5 * jnp.sum(z**2), self.dim)
        state = initial_state(key, method, self.family(key, self.dim), target)
        return timing(method, state, updates).update


def powers(first: int, last: int) -> tuple[int, ...]:
    """Returns the powers of ten from 10^first to 10^last."""
    return tuple(10**i for i in range(first, last + 1))


class Sweep(NamedTuple):
    """The settings of one sweep, and the fewer ones of a quick benchmark."""

    full: list[Setting]
    quick: list[Setting]


SWEEPS = {
    "dim": Sweep(
        full=[Setting(dim=d, chains=1) for d in powers(2, 6)],
        quick=[Setting(dim=d, chains=1) for d in powers(2, 4)],
    ),
    "chains": Sweep(
        full=[Setting(chains=c) for c in powers(0, 4)],
        quick=[Setting(chains=c) for c in powers(0, 3)],
    ),
    "width": Sweep(
        full=[Setting(width=w) for w in (50, 100, 200, 400, 800)],
        quick=[Setting(width=w) for w in (50, 200)],
    ),
}


def sweep(settings: Sequence[Setting], key: Key, precision: str | None) -> Iterator[dict[str, Any]]:
    """Yields the time of an update with ten moves and the time of these moves alone, for every setting.

    Ten moves take half the time that twenty more moves add. This difference leaves out the work that is done
    once per chain, such as the quadratic form of a large z.
    """
    for setting in settings:
        updates = max(1, min(100, int(2e6 / (setting.dim * 10 + setting.chains * setting.width * 10))))
        fewer, more = (setting.seconds(key, n, precision, updates) for n in (FEWER, MORE))
        move = max(more - fewer, 0.0) / (MORE - FEWER)
        times = {"ms": 1e3 * (fewer + (MOVES - FEWER) * move), "chain_ms": 1e3 * MOVES * move}
        yield dataclasses.asdict(setting) | times
