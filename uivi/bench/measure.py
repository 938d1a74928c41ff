"""Measures times on this device: of calls, of updates and their chains, and of plain matrix products."""

import dataclasses
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from uivi.bench.cases import Case, plain
from uivi.bench.flops import count_products
from uivi.estimators import UIVI
from uivi.reverse import HMC
from uivi.testing import Stuck
from uivi.trainable import trained
from uivi.training.update import FitState, Method, lowered_updates, one_update, run_updates, stack_states

REPEATS = 3
LEAST, MOST_UPDATES = 0.1, 2_000
"""Shortest timed call in seconds, and the largest number of updates that it may take."""
SMALL, LARGE = (100, 200, 200), (2_048, 2_048, 2_048)
"""Shapes (m, k, n) of the products that give the device's rates: one of the paper's VAE, and a large one."""


def seconds(call: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Returns the median time of a call. The call must wait for its result."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def product_rate(shape: tuple[int, int, int], precision: str | None) -> float:
    """Returns the FLOP/s of a chain of dependent products of this shape, with an activation after each."""
    rows, inner, columns = shape
    turns = max(10, int(2e9 / (2 * rows * inner * columns)))
    x, weight = jnp.ones((rows, inner)), jnp.full((inner, columns), 1 / inner)

    @jax.jit
    def chain(x):
        step = lambda _, x: jax.nn.relu(jnp.matmul(x, weight, precision=precision))
        return jax.lax.fori_loop(0, turns, step, x)

    jax.block_until_ready(chain(x))
    return 2 * rows * inner * columns * turns / seconds(lambda: jax.block_until_ready(chain(x)))


class Timing(NamedTuple):
    """Times of one method.

    Attributes:
        compiled: seconds of the first call, which compiles.
        update: seconds of one update.
        state: state after the last update.
    """

    compiled: float
    update: float
    state: FitState


def timing(method: Method, state: FitState, updates: int, repeats: int = REPEATS) -> Timing:
    """Times calls of `updates` updates, or of more, so that a call takes `LEAST` seconds.

    A call has a fixed cost, which would count in a short one.
    """
    began = time.perf_counter()
    holder = [run_updates(method, state, 1)[0]]
    compiled = time.perf_counter() - began

    def call(number: int) -> None:
        holder[0], _ = run_updates(method, holder[0], number)

    once = seconds(lambda: call(updates), 1)
    updates = max(updates, min(MOST_UPDATES, int(updates * LEAST / once)))
    call(updates)
    return Timing(compiled, seconds(lambda: call(updates), repeats) / updates, holder[0])


def measure_case(case: Case, precision: str | None = None) -> dict[str, Any]:
    """Returns one row of the table of updates."""
    method, state = case.start(precision)
    work = _products_of_update(method, state)
    whole = timing(method, state, case.updates)
    memory = _temporary_bytes(method, whole.state)
    chain = _seconds_of_chain(case, precision, whole.update)
    gradients = _gradients(case, whole.state)
    return {
        "problem": case.problem,
        "method": case.method,
        "ms": 1e3 * whole.update,
        "chain_share": None if chain is None else chain / whole.update,
        "gradients_per_second": gradients / chain if chain and gradients else None,
        "gflop": work / 1e9,
        "gflop_per_second": work / whole.update / 1e9,
        "flop_per_byte": work / (2 * _state_bytes(state)),
        "compile_seconds": whole.compiled,
        "temporary_mib": memory / 2**20,
    }


def side_by_side(case: Case, lanes: int, precision: str | None = None) -> dict[str, Any]:
    """Returns the time of an update of `lanes` fits in one program."""
    method, state = case.start(precision)
    state = state if lanes == 1 else stack_states([state] * lanes)
    found = timing(method, state, case.updates)
    return {
        "problem": case.problem,
        "method": case.method,
        "lanes": lanes,
        "ms": 1e3 * found.update,
        "updates_per_second": lanes / found.update,
    }


def _seconds_of_chain(case: Case, precision: str | None, whole: float) -> float | None:
    """Returns what an update saves if its chain stays at its start, or None for a method without a chain."""
    if not isinstance(case.estimator, UIVI):
        return None
    # The gradient is wrong, but the update takes all its time except the chain's.
    still = dataclasses.replace(case, estimator=UIVI(case.estimator.num_draws, Stuck()))
    return max(whole - timing(*still.start(precision), case.updates).update, 0.0)


def _gradients(case: Case, state: FitState) -> int:
    """Returns the number of gradients of the reverse density that all chains of an update take."""
    estimator = case.estimator
    if not isinstance(estimator, UIVI) or not isinstance(estimator.sampler, HMC):
        return 0
    sampler = estimator.sampler
    each = (sampler.num_burnin + sampler.num_draws) * sampler.num_leapfrog + 1
    return each * estimator.num_draws * state.target.num_sites


def _products_of_update(method: Method, state: FitState) -> int:
    """Counts the products of the plain form: a fused kernel does the same ones, but they cannot be counted."""
    step, arrays = _one_update(Method(plain(method.estimator), method.optimizer), state)
    return count_products(step, arrays)


def _temporary_bytes(method: Method, state: FitState) -> float:
    """Returns the memory that the compiled updates need beside their state."""
    found = lowered_updates(method, state).compile().memory_analysis()
    return float(found.temp_size_in_bytes) if found else float("nan")


def _state_bytes(state: FitState) -> int:
    """Returns the bytes that an update must read and write: parameters, optimiser and sampler."""
    changing = jax.tree.leaves(trained(state))
    return sum(array.nbytes for array in changing)


def _one_update(method: Method, state: FitState):
    arrays, static = eqx.partition(state, eqx.is_array)
    return lambda a: eqx.filter(one_update(method, eqx.combine(a, static)), eqx.is_array), arrays
