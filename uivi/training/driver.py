"""Drives the compiled loop from the host: history, progress, checkpoints, interrupts, stopping."""

import contextlib
import dataclasses
import math
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from uivi._types import Status
from uivi.storage.checkpoints import Checkpoints
from uivi.targets.rows import split_data
from uivi.training.monitors import AbstractMonitor
from uivi.training.progress import Reporter
from uivi.training.rounds import Rounds
from uivi.training.update import (
    FitState,
    Method,
    all_finite,
    averaged_state,
    copied,
    run_updates,
    unstack_states,
)

NUM_RECORDS = 200


@dataclasses.dataclass
class Best:
    """The best state of each fit so far, without data and static parts, and its value."""

    state: FitState
    values: list[float]


@dataclasses.dataclass
class Driven:
    """Where a run of updates ended: one fit, or several stacked ones.

    Attributes:
        state: final.
        status: one for each fit.
        history: columns of equal length; a stacked run has a list per row.
        seconds: spent in updates, compilation included, evaluation excluded.
        best: the states to use instead of `state`, where the best on a monitor's column was asked for.
    """

    state: FitState
    status: list[Status]
    history: dict[str, list[Any]]
    seconds: float
    best: Best | None = None

    @property
    def chosen(self) -> FitState:
        """The state to judge and to use: the best or the last one, its parameters averaged if asked for."""
        state = self.state
        if self.best is not None:
            state = eqx.combine(self.best.state, split_data(state)[1])
        return averaged_state(state)


def drive(
    method: Method,
    state: FitState,
    num_steps: int | Rounds,
    *,
    reporter: Reporter,
    checkpoints: Checkpoints | None = None,
    monitors: Sequence[AbstractMonitor | Sequence[AbstractMonitor]] = (),
    keep_best: str | None = None,
) -> Driven:
    """Update `state` until `num_steps` are done, resuming from a checkpoint if there is one.

    Records are taken every `num_steps / 200` updates (more often if a monitor asks) whatever the clock says,
    and update t depends on the key and t alone, so an interrupted and resumed run ends bit-equal with an
    uninterrupted one.

    Args:
        method: estimator and optimiser.
        state: of one fit, or of several stacked ones.
        num_steps: in all, or rounds of them (of a single fit) that end by a monitor's column.
        reporter: told of every chunk.
        checkpoints: where to save, or None.
        monitors: see `AbstractMonitor`; in place of one, a list of the same kind with one for each stacked fit.
        keep_best: a monitor's column; the final state is that of its largest value, for each fit by itself.
    """
    rounds = Rounds.of(num_steps)
    run = Driven(state, [Status.RUNNING] * state.step.size, {}, 0.0)
    if keep_best:
        run.best = Best(copied(split_data(state)[0]), [-math.inf] * state.step.size)
    with checkpoints.locked() if checkpoints else contextlib.nullcontext(), _interrupts() as stop:
        if checkpoints:
            _restore(run, checkpoints)
        lanes = [list(m) if isinstance(m, Sequence) else [m] * state.step.size for m in monitors]
        _until_done(run, method, rounds, reporter, checkpoints, stop, lanes, keep_best)
    return run


def _until_done(run: Driven, method, rounds: Rounds, reporter, checkpoints, stop, monitors, keep_best) -> None:
    chunk = _chunk(rounds.most, monitors)
    saved_at, words = time.monotonic(), ""
    is_over = rounds.is_over(run.history)
    while not is_over:
        done = _step(run)
        number = rounds.round(done + 1)
        began = time.monotonic()
        size = min(chunk - done % chunk, rounds.ends[number] - done)
        run.state, info = run_updates(method, run.state, size)
        elapsed = time.monotonic() - began
        run.seconds += elapsed
        done += size
        row = {
            "step": done,
            "round": number,
            **info.mean._asdict(),
            "skipped": info.skipped,
            "seconds": run.seconds,
        }
        due = [m for m in monitors if done % m[0].every == 0 or done in rounds.ends]
        if due:
            seen = _look(due, method, run.state)
            row |= seen
            words = _in_words(seen) or words
            _keep(run, seen, keep_best)
        _record(run.history, row)
        is_over = rounds.is_over(run.history)
        _check_column(keep_best, run.history, [] if is_over else monitors, done)
        reporter.update(done, rounds.ends[number], size / elapsed, words)
        bad = _failed(run.state, info.skipped, size)
        finished = is_over or np.all(bad) or stop.is_set()
        if finished:
            last = Status.DONE if is_over else Status.INTERRUPTED
            run.status = [Status.NONFINITE if b else last for b in bad]
            if run.best and last is Status.DONE:  # a fit whose values were never finite has no best
                lost = np.isneginf(run.best.values)
                _replace_best(run, lost, np.full(len(bad), -math.inf))
                run.status = [
                    Status.DIVERGED if v and s is last else s for v, s in zip(lost, run.status, strict=True)
                ]
        if checkpoints and (finished or time.monotonic() - saved_at > checkpoints.seconds):
            if not np.all(bad):
                _save(run, checkpoints)
            saved_at = time.monotonic()
        if finished:
            return


def _chunk(num_steps: int, monitors: list[list[AbstractMonitor]]) -> int:
    """Updates between two records: at most `num_steps / 200`, and a divisor of every monitor's interval."""
    most = max(1, num_steps // NUM_RECORDS)
    common = math.gcd(*(lanes[0].every for lanes in monitors)) or most
    return max(size for size in range(1, most + 1) if common % size == 0)


def _look(monitors: list[list[AbstractMonitor]], method: Method, state: FitState) -> dict[str, Any]:
    """The columns of the monitors: numbers for a single fit, lists for stacked ones."""
    fits = [averaged_state(fit) for fit in unstack_states(state)]
    seen = {}
    for lanes in monitors:
        pairs = zip(lanes, fits, strict=True)
        values = [{k: float(v) for k, v in monitor(method, fit).items()} for monitor, fit in pairs]
        for name in values[0]:
            column = [v[name] for v in values]
            seen[name] = column if state.step.ndim else column[0]
    return seen


def _keep(run: Driven, seen: dict[str, Any], column: str | None) -> None:
    """Remember the fits whose value in `column` is the best so far."""
    if column is not None and column in seen and run.best is not None:
        values = np.atleast_1d(seen[column])
        _replace_best(run, values > np.asarray(run.best.values), values)


def _replace_best(run: Driven, better: np.ndarray, values: np.ndarray) -> None:
    """Take the fits marked `better` as they are now."""
    if run.best is None or not better.any():
        return
    mask = jnp.asarray(better)

    def pick(new, old):
        wide = mask.reshape(mask.shape + (1,) * (new.ndim - 1)) if run.state.step.ndim else mask[0]
        return jnp.where(wide, new, old)

    state = jax.tree.map(pick, split_data(run.state)[0], run.best.state)
    run.best = Best(state, np.where(better, values, run.best.values).tolist())


def _check_column(column: str | None, history: dict[str, list[Any]], monitors, done: int) -> None:
    """Raise once every monitor has looked and none gave the column to choose by."""
    if column and column not in history and all(done >= lanes[0].every for lanes in monitors):
        raise ValueError(
            f"expected `keep_best` to be a monitor's column, one of {list(history)}, got {column!r}"
        )


def _step(run: Driven) -> int:
    return int(np.max(np.asarray(run.state.step)))


def _save(run: Driven, checkpoints: Checkpoints) -> None:
    status = [s.name for s in run.status]
    extra = {"history": run.history, "seconds": run.seconds, "status": status}
    saved: Any = run.state
    if run.best:
        saved, extra["best"] = (run.state, run.best.state), run.best.values
    checkpoints.save(saved, _step(run), extra)


def _restore(run: Driven, checkpoints: Checkpoints) -> None:
    restored = checkpoints.restore((run.state, run.best.state) if run.best else run.state)
    if restored is None:
        return
    state: Any
    state, extra = restored
    if run.best:
        run.state, run.best = state[0], Best(state[1], extra["best"])
    else:
        run.state = state
    run.history, run.seconds = extra["history"], extra["seconds"]
    run.status = [Status[name] for name in extra["status"]]


def _record(history: dict[str, list[Any]], row: dict[str, Any]) -> None:
    length = max((len(c) for c in history.values()), default=0)
    for name, value in row.items():
        column = history.setdefault(name, [None] * length)
        column.append(np.asarray(value).tolist())
    for column in history.values():
        column.extend([None] * (length + 1 - len(column)))


def _failed(state: FitState, skipped: Array, size: int) -> np.ndarray:
    """Whether parameters are non-finite, or most updates of the chunk were skipped."""
    check = eqx.filter_vmap(all_finite) if state.step.ndim else all_finite
    finite = check((state.family, state.target))
    return np.atleast_1d(~np.asarray(finite) | (np.asarray(skipped) > size / 2))


def _in_words(seen: dict[str, Any]) -> str:
    """The first value and its standard error, for the progress bar; the median over stacked fits."""
    for name, value in seen.items():
        if f"{name}_stderr" in seen:
            stderr = seen[f"{name}_stderr"]
            return f"{name} {np.median(value):.3f} ± {np.median(stderr):.3f}"
    return ""


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
