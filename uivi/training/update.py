"""One update, compiled, and many of them per call."""

from contextlib import nullcontext
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, PyTree

from uivi._jax import LESS_OPTIMISED, once_jit, one_blas_thread, ordinary_promotion, strongly_typed
from uivi._random import written_out
from uivi._types import Info, Key
from uivi.estimators.base import AbstractEstimator
from uivi.families.base import AbstractFamily
from uivi.targets.base import AbstractTarget
from uivi.trainable import partition_trained, trained
from uivi.training.optimisers import average_of, pack

_OPTIONS: dict[str, Any] = {"compiler_options": LESS_OPTIMISED}


class FitState(eqx.Module):
    """Everything that the next update depends on. Update t draws its randomness from fold_in(key, t)."""

    step: Array
    family: AbstractFamily
    target: AbstractTarget
    opt_state: PyTree
    est_state: PyTree
    key: Key


class Method(eqx.Module):
    """How a fit is updated.

    Attributes:
        estimator: estimator of the gradient.
        optimizer: any Optax optimiser.
        precision: precision of matrix products inside an update, as in `jax.default_matmul_precision`; None for
            JAX's own setting. A GPU is much faster with "tensorfloat32". Estimators lose nothing by it: draws,
            densities and scores all belong to the same rounded network.
    """

    estimator: AbstractEstimator
    optimizer: optax.GradientTransformation = eqx.field(static=True)
    precision: str | None = eqx.field(static=True, default=None)


class ChunkInfo(NamedTuple):
    """What the updates of one call tell.

    Attributes:
        mean: means of `Info` over the updates.
        skipped: number of skipped updates.
        is_finite: whether all parameters are finite after the last update.
    """

    mean: Info
    skipped: Array
    is_finite: Array


@once_jit
def initial_state(key: Key, method: Method, family: AbstractFamily, target: AbstractTarget) -> FitState:
    """Returns the state before the first update."""
    estimator_key, run_key = jax.random.split(key)
    est_state = method.estimator.init(estimator_key, family, target)
    with ordinary_promotion():  # Optax mixes its count of updates with floats
        opt_state = method.optimizer.init(trained((family, target)))
    state = FitState(jnp.zeros((), jnp.int32), family, target, opt_state, est_state, run_key)
    # Copy, because `run_updates` donates the buffers of its argument, and these may be the user's own arrays.
    return copied(strongly_typed(state))


def one_update(method: Method, state: FitState) -> tuple[FitState, Info, Array]:
    """Makes one update; returns the next state, its info, and whether it was skipped.

    A non-finite gradient changes nothing but the step count, and is reported.
    """
    # Keyed by the step alone, so that a resumed fit draws what an uninterrupted one would have drawn.
    _, key = jax.random.split(jax.random.fold_in(written_out(state.key), state.step))
    params = (state.family, state.target)
    sites = state.target.sites(sites_key(state), state.step)
    with nullcontext() if method.precision is None else jax.default_matmul_precision(method.precision):
        estimate = method.estimator.estimate(key, params, sites, state.step, state.est_state)
    with ordinary_promotion():
        updates, opt_state = method.optimizer.update(estimate.grads, state.opt_state, trained(params))
    family, target = eqx.apply_updates(params, updates)
    new = FitState(state.step, family, target, opt_state, estimate.state, state.key)
    finite = all_finite((estimate.grads, estimate.state))
    # `where` instead of `lax.cond`: under vmap a cond computes both branches anyway.
    changed, unchanged = partition_trained(new)
    kept = jax.tree.map(lambda a, b: jnp.where(finite, a, b), changed, trained(state))
    kept = eqx.tree_at(lambda s: s.step, eqx.combine(kept, unchanged), state.step + 1)
    return strongly_typed(kept), estimate.info, ~finite


@once_jit
def copied(tree: PyTree) -> PyTree:
    """Returns a copy of all arrays, which `run_updates` can donate."""
    return jax.tree.map(lambda x: jnp.array(x) if eqx.is_array(x) else x, tree)


def sites_key(state: FitState) -> Key:
    """Returns the key with which a target shuffles its data, the same for the whole fit."""
    return jax.random.fold_in(jax.random.fold_in(state.key, 2**31 - 1), 0)


def run_updates(method: Method, state: FitState, num_steps: int) -> tuple[FitState, ChunkInfo]:
    """Makes `num_steps` updates in one compiled call. Any number runs the same program.

    With a leading axis on every array of `state` (see `stack_states`), all fits run side by side. The buffers
    of `state` are donated.
    """
    # Wait for the result: a second call queued behind a running one has hung JAX 0.10 on a CPU with two cores.
    with one_blas_thread():
        return jax.block_until_ready(_run(method, state, np.int32(num_steps)))


@eqx.filter_jit(donate="all-except-first", **_OPTIONS)
def _run(method: Method, state: FitState, num_steps: Any) -> tuple[FitState, ChunkInfo]:
    update = lambda s: one_update(method, s)
    if state.step.ndim:
        update = eqx.filter_vmap(update)
    arrays, static = eqx.partition(state, eqx.is_array)
    # One array for all sums, so that a GPU adds them in one kernel.
    totals = jnp.zeros((len(Info._fields) + 1, *state.step.shape))

    def body(_, carry):
        arrays, totals = carry
        state, info, skipped = update(eqx.combine(arrays, static))
        totals += jnp.stack([x.astype(totals.dtype) for x in (*info, skipped)])
        return eqx.filter(state, eqx.is_array), totals

    arrays, totals = jax.lax.fori_loop(0, num_steps, body, (arrays, totals))
    mean = Info(*totals[:-1] / jnp.maximum(num_steps, 1).astype(totals.dtype))
    state = eqx.combine(arrays, static)
    finite = eqx.filter_vmap(all_finite) if state.step.ndim else all_finite
    return state, ChunkInfo(mean, totals[-1], finite((state.family, state.target)))


def lowered_updates(method: Method, state: FitState) -> jax.stages.Lowered:
    """Returns the program of `run_updates` before compilation."""
    return _run.lower(method, state, np.int32(1)).lowered


def averaged_state(state: FitState) -> FitState:
    """Returns the state to evaluate, with averaged parameters if the optimiser keeps an average."""
    params = (state.family, state.target)
    average = average_of(state.opt_state, params)
    return state if average is params else eqx.tree_at(lambda s: (s.family, s.target), state, average)


def stack_states(states: list[FitState]) -> FitState:
    """Stacks several states into one, for `run_updates` to update side by side.

    On a CPU with few cores, JAX 0.10 can hang on stacked fits with a full covariance of many dimensions. JAX
    0.11.2 has not been seen to hang.
    """
    arrays = [eqx.filter(s, eqx.is_array) for s in states]
    static = eqx.filter(states[0], eqx.is_array, inverse=True)
    return eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays), static)


def unstack_states(state: FitState) -> list[FitState]:
    """Inverts `stack_states`. The state of a single fit gives a list of one."""
    if not state.step.ndim:
        return [state]
    arrays, static = eqx.partition(state, eqx.is_array)
    pick = lambda i: jax.tree.map(lambda x: x[i], arrays)
    return [eqx.combine(pick(i), static) for i in range(state.step.shape[0])]


def all_finite(tree: PyTree) -> Array:
    """Returns whether every trained array of `tree` is finite."""
    (small, *large), _ = pack(trained(tree))
    found = [jnp.isfinite(small), *(jnp.all(jnp.isfinite(x), -1).ravel() for x in large)]
    # Without the barrier XLA reduces array by array, in dozens of small kernels on a GPU.
    return jnp.all(jax.lax.optimization_barrier(jnp.concatenate(found)))
