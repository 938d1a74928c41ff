"""Drives the compiled loop from the host: history, progress, checkpoints, interrupts, stopping."""

import contextlib
import dataclasses
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from uivi import _checks, bounds, loop
from uivi._types import Status
from uivi.checkpoint import Checkpoints
from uivi.progress import Reporter

NUM_RECORDS = 200
NUM_BOUNDS = 20


@dataclasses.dataclass
class Driven:
    """Where a run of updates ended: one fit, or several stacked ones.

    Attributes:
        state: final.
        status: one for each fit.
        history: columns of equal length; a stacked run has a list per row.
        seconds: spent in updates, compilation included, evaluation excluded.
    """

    state: loop.FitState
    status: list[Status]
    history: dict[str, list[Any]]
    seconds: float


def drive(
    method: loop.Method,
    state: loop.FitState,
    num_steps: int,
    *,
    reporter: Reporter,
    checkpoints: Checkpoints | None = None,
) -> Driven:
    """Update `state` until `num_steps` are done, resuming from a checkpoint if there is one.

    Records are taken every `num_steps / 200` updates whatever the clock says, and update t depends on
    `fold_in(key, t)` alone, so an interrupted and resumed run ends bit-equal with an uninterrupted one.
    """
    _checks.positive_int("num_steps", num_steps)
    run = Driven(state, [Status.RUNNING] * state.step.size, {}, 0.0)
    with checkpoints.locked() if checkpoints else contextlib.nullcontext(), _interrupts() as stop:
        if checkpoints:
            _restore(run, checkpoints)
        _until_done(run, method, num_steps, reporter, checkpoints, stop)
    return run


def _until_done(run: Driven, method, num_steps: int, reporter, checkpoints, stop) -> None:
    chunk = max(1, num_steps // NUM_RECORDS)
    saved_at, bound = time.monotonic(), ""
    while (done := _step(run)) < num_steps:
        began = time.monotonic()
        size = min(chunk - done % chunk, num_steps - done)
        run.state, info = loop.run(method, run.state, size)
        elapsed = time.monotonic() - began
        run.seconds += elapsed
        done += size
        row = {"step": done, **info.mean._asdict(), "skipped": info.skipped, "seconds": run.seconds}
        if (done // chunk) % max(1, NUM_RECORDS // NUM_BOUNDS) == 0 or done >= num_steps:
            row |= _monitor(method, run.state)
            bound = _in_words(row)
        _record(run.history, row)
        reporter.update(done, size / elapsed, bound)
        bad = _failed(run.state, info.skipped, size)
        finished = done >= num_steps or np.all(bad) or stop.is_set()
        if finished:
            last = Status.DONE if done >= num_steps else Status.INTERRUPTED
            run.status = [Status.NONFINITE if b else last for b in bad]
        if checkpoints and (finished or time.monotonic() - saved_at > checkpoints.seconds):
            if not np.all(bad):
                _save(run, checkpoints)
            saved_at = time.monotonic()
        if finished:
            return


def _step(run: Driven) -> int:
    return int(np.max(np.asarray(run.state.step)))


def _save(run: Driven, checkpoints: Checkpoints) -> None:
    status = [s.name for s in run.status]
    extra = {"history": run.history, "seconds": run.seconds, "status": status}
    checkpoints.save(run.state, _step(run), extra)


def _restore(run: Driven, checkpoints: Checkpoints) -> None:
    restored = checkpoints.restore(run.state)
    if restored:
        run.state, extra = restored
        run.history, run.seconds = extra["history"], extra["seconds"]
        run.status = [Status[name] for name in extra["status"]]


def _record(history: dict[str, list[Any]], row: dict[str, Any]) -> None:
    length = max((len(c) for c in history.values()), default=0)
    for name, value in row.items():
        column = history.setdefault(name, [None] * length)
        column.append(np.asarray(value).tolist())
    for column in history.values():
        column.extend([None] * (length + 1 - len(column)))


def _failed(state: loop.FitState, skipped: Array, size: int) -> np.ndarray:
    """Whether parameters are non-finite, or most updates of the chunk were skipped."""
    check = eqx.filter_vmap(loop.all_finite) if state.step.ndim else loop.all_finite
    finite = check((state.family, state.target))
    return np.atleast_1d(~np.asarray(finite) | (np.asarray(skipped) > size / 2))


def _monitor(method: loop.Method, state: loop.FitState) -> dict[str, Any]:
    """A cheap ELBO from below, for the progress bar and the history."""
    if state.family.context_dim or state.target.num_sites > 1:
        return {}
    mean, stderr = _monitored(method, state)
    return {"elbo_lower": mean, "elbo_lower_stderr": stderr}


@eqx.filter_jit
def _monitored(method: loop.Method, state: loop.FitState) -> tuple[Array, Array]:
    def one(state: loop.FitState) -> tuple[Array, Array]:
        key = jax.random.fold_in(state.key, -1 - state.step)
        proposal = method.estimator.fitted_proposal(state.est_state)
        e = bounds.evaluate(key, state.family, state.target, 256, 256, proposal)
        terms = e.log_p - e.log_q_high
        return jnp.mean(terms), jnp.std(terms) / 16

    return eqx.filter_vmap(one)(state) if state.step.ndim else one(state)


def _in_words(row: dict[str, Any]) -> str:
    if "elbo_lower" not in row:
        return ""
    mean, stderr = np.atleast_1d(row["elbo_lower"]), np.atleast_1d(row["elbo_lower_stderr"])
    return f"ELBO ≥ {np.median(mean):.3f} ± {np.median(stderr):.3f}"


@contextlib.contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into an event, looked at between chunks; a second one is immediate.

    An exception inside a chunk would lose the state, whose buffers the compiled call has taken over.
    """
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = signal.getsignal(signal.SIGINT)

    def handle(number, frame):
        if event.is_set() and callable(before):
            before(number, frame)
        event.set()

    signal.signal(signal.SIGINT, handle)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
