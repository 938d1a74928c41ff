"""How the cost of an update and of its chain grows: with the size of z, the chains, the width."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

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
"""Of the chain that is reported, and of the two that are compared."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """Sizes of a fit to a standard normal density: the model costs next to nothing."""

    dim: int = 10
    chains: int = 100
    width: int = 200

    def family(self, key: Key, dim: int) -> AbstractFamily:
        """The paper's."""
        return presets.paper_family(key, dim, noise_dim=NOISE_DIM, width=self.width)

    def seconds(self, key: Key, moves: int, precision: str | None, updates: int) -> float:
        """Of an update with a chain of this many moves."""
        sampler = HMC(moves - 1, 1, LEAPFROGS, AdaptBetween(initial=0.05))
        method = Method(UIVI(self.chains, sampler), presets.paper_optimizer(1), precision)
        target = Density(lambda z: -0.5 * jnp.sum(z**2), self.dim)
        state = initial_state(key, method, self.family(key, self.dim), target)
        return timing(method, state, updates, 3).update


def powers(first: int, last: int) -> tuple[int, ...]:
    """10^first to 10^last."""
    return tuple(10**i for i in range(first, last + 1))


SWEEPS: dict[str, Callable[[bool], Sequence[Setting]]] = {
    "dim": lambda quick: [Setting(dim=d, chains=1) for d in powers(2, 4 if quick else 6)],
    "chains": lambda quick: [Setting(chains=c) for c in powers(0, 3 if quick else 4)],
    "width": lambda quick: [Setting(width=w) for w in ((50, 200) if quick else (50, 100, 200, 400, 800))],
}


def sweep(name: str, key: Key, precision: str | None, *, quick: bool) -> Iterator[dict[str, Any]]:
    """For every setting the time of an update with ten moves, and of these: half of what twenty moves add.

    The difference leaves out what is done once for a chain, such as the quadratic form of a large z.
    """
    for setting in SWEEPS[name](quick):
        updates = max(1, min(100, int(2e6 / (setting.dim * 10 + setting.chains * setting.width * 10))))
        fewer, more = (setting.seconds(key, n, precision, updates) for n in (FEWER, MORE))
        move = max(more - fewer, 0.0) / (MORE - FEWER)
        times = {"ms": 1e3 * (fewer + (MOVES - FEWER) * move), "chain_ms": 1e3 * MOVES * move}
        yield dataclasses.asdict(setting) | times
