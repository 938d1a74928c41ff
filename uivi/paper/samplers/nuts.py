"""NumPyro's NUTS as a contender, in the seconds of `uivi`."""

import math
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from uivi._jax import ordinary_promotion
from uivi._types import Key
from uivi.integrations._optional import needs
from uivi.paper.samplers.contenders import AbstractContender, Allowance, Entry
from uivi.paper.samplers.outcomes import Chains
from uivi.targets.base import AbstractSingleSiteTarget
from uivi.training.progress import AbstractReporter

PILOT, SMOKE = 100, 8
"""Transitions of the run that is only timed, and of the warm-up at smoke effort."""
LEAST_KEPT = 8
"""Least draws of a chain: R-hat needs some."""
BLOCKS = 10
"""Number of blocks of the warm-up. The draws come in blocks of the same size, from the same program."""
LEAST_WARMUP, MOST_WARMUP = 100, 1_000_000
MOST_NUMBERS = 2**25
"""Numbers of the planned draws of all chains beyond which they are thinned."""


class Nuts(AbstractContender):
    """NUTS with NumPyro's defaults: chains side by side, half of the seconds for the warm-up.

    A short run tells the pace and plans a warm-up of half the seconds. Draws then come in blocks until the
    seconds are over, so there are about as many of them as transitions of warm-up.

    Attributes:
        chains: number of chains. They start uniformly from -2 to 2, as NumPyro's models do.
    """

    chains: int = eqx.field(static=True, default=4)

    @property
    def is_paced(self) -> bool:
        """It gets the seconds of `uivi`."""
        return True

    @property
    def words(self) -> str:
        """What it is."""
        return f"NumPyro's NUTS, {self.chains} chains, half of the seconds for the warm-up"

    def require(self) -> None:
        """Needs NumPyro."""
        _kernel()

    def compete(
        self, key: Key, target: AbstractSingleSiteTarget, allowance: Allowance, shown: AbstractReporter
    ) -> Entry:
        """Plans the warm-up, forgets what was compiled, and samples until the seconds are over."""
        seconds = allowance.seconds
        with ordinary_promotion():
            if seconds is None or allowance.effort == "smoke":
                return self._sample(key, target, SMOKE, allowance._replace(seconds=0.0), shown)
            shown.phase("timing a transition")
            allowance.forget_programs()
            began = time.perf_counter()
            run, state = self._started(key, target, PILOT, PILOT, 1)
            state, _ = jax.block_until_ready(run(state))
            first = time.perf_counter() - began
            jax.block_until_ready(run(state))
            again = time.perf_counter() - began - first
            pace = again / PILOT
            # It compiles once more: the length of the warm-up is a part of the program.
            planned = int((seconds - max(0.0, first - again)) / (2 * pace))
            return self._sample(key, target, min(max(planned, LEAST_WARMUP), MOST_WARMUP), allowance, shown)

    def _sample(
        self,
        key: Key,
        target: AbstractSingleSiteTarget,
        warmup: int,
        allowance: Allowance,
        shown: AbstractReporter,
    ) -> Entry:
        """Samples until the seconds are over, but for a few draws at least."""
        thinning = math.ceil(self.chains * warmup * target.dim / MOST_NUMBERS)
        kept = max(1, warmup // (BLOCKS * thinning))
        blocks = -(-warmup // (kept * thinning))
        allowance.forget_programs()
        began = time.perf_counter()
        shown.phase("warm-up")
        warmup = blocks * kept * thinning
        run, state = self._started(key, target, warmup, kept, thinning)
        for _ in range(blocks):
            state, _ = jax.block_until_ready(run(state))
        warm = time.perf_counter() - began
        shown.phase("draws")
        found: list[tuple[np.ndarray, np.ndarray]] = []
        while len(found) * kept < LEAST_KEPT or (
            time.perf_counter() - began < (allowance.seconds or 0.0) and len(found) * kept < MOST_WARMUP
        ):
            state, drawn = run(state)
            found.append(jax.tree.map(np.asarray, drawn))
        total = time.perf_counter() - began
        z, diverging = (np.concatenate(parts) for parts in zip(*found, strict=True))
        outcome = Chains(np.swapaxes(z, 0, 1), warmup, thinning, int(np.sum(diverging)))
        return Entry(outcome, total, {"warm-up": warm, "draws": total - warm})

    def _started(
        self, key: Key, target: AbstractSingleSiteTarget, warmup: int, kept: int, thinning: int
    ) -> tuple[Callable[[Any], Any], Any]:
        """Returns a program of `kept * thinning` transitions, and the state before the first one."""
        start_key, run_key = jax.random.split(key)
        start = jax.random.uniform(start_key, (self.chains, target.dim), minval=-2.0, maxval=2.0)
        kernel = _kernel()(potential_fn=lambda z: -target.log_density(z))
        keys = jax.random.split(run_key, self.chains)
        state = kernel.init(keys, warmup, init_params=start, model_args=(), model_kwargs={})

        def transition(_: Any, carried: Any) -> Any:
            state, diverging = carried
            state = kernel.sample(state, (), {})
            return state, diverging | state.diverging

        def kept_one(state: Any, _: Any) -> Any:
            nothing = jnp.zeros(self.chains, bool)
            state, diverging = jax.lax.fori_loop(0, thinning, transition, (state, nothing))
            return state, (state.z, diverging)

        return jax.jit(lambda state: jax.lax.scan(kept_one, state, None, kept)), state


def _kernel() -> Any:
    """Returns the class, or says what to install."""
    with needs("NumPyro", extra="numpyro"):
        from numpyro.infer import NUTS
    return NUTS
