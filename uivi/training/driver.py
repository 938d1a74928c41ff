"""Drives compiled updates from the host: history, progress, checkpoints, interrupts, the end of a fit.

All host work happens between chunks of updates, each of which is one compiled call.
"""

import contextlib
import dataclasses
import math
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from uivi._types import Status
from uivi.evaluation.history import BOUND
from uivi.storage.checkpoints import Checkpoints
from uivi.targets.rows import split_data
from uivi.training.interrupts import deferred_interrupts
from uivi.training.monitors import AbstractMonitor
from uivi.training.progress import LOOKING, UPDATES, AbstractReporter
from uivi.training.rounds import Rounds
from uivi.training.update import (
    ChunkInfo,
    FitState,
    Method,
    averaged_state,
    copied,
    run_updates,
    unstack_states,
)

NUM_RECORDS = 200
"""Least number of rows in the history of a fit that has as many updates."""
HUGE = 1e7
"""Size from which a bound is printed without decimals, which then say nothing."""

Monitors = list[list[AbstractMonitor]]
"""One inner list for each column group, with a monitor for each stacked fit."""


@dataclasses.dataclass
class Best:
    """The best state of each fit so far, without data and static parts, and its value."""

    state: FitState
    values: list[float]


@dataclasses.dataclass
class Driven:
    """The outcome of a run of updates on one fit, or on several stacked fits.

    Attributes:
        state: the last state.
        method: the method of the last update.
        status: one status for each fit.
        history: columns of equal length. A stacked run has a list in each row.
        seconds: time spent in updates, including compilation but not evaluation.
        best: the states to use in place of `state`, if the caller asked for the best value of a column.
    """

    state: FitState
    method: Method
    status: list[Status]
    history: dict[str, list[Any]]
    seconds: float
    best: Best | None = None

    @property
    def step(self) -> int:
        """Number of updates done."""
        return int(np.max(np.asarray(self.state.step)))

    @property
    def chosen(self) -> FitState:
        """The state to judge and use: the best or the last, with averaged parameters if there are any."""
        state = self.state
        if self.best is not None:
            state = eqx.combine(self.best.state, split_data(state)[1])
        return averaged_state(state)


def drive(
    methods: Method | Sequence[Method],
    state: FitState,
    num_steps: int | Rounds,
    *,
    reporter: AbstractReporter,
    checkpoints: Checkpoints | None = None,
    monitors: Sequence[AbstractMonitor | Sequence[AbstractMonitor]] = (),
    keep_best: str | None = None,
    prepare: Callable[[Method, FitState], None] = lambda method, state: None,
    refine: Callable[[Method, FitState], FitState] = lambda method, state: state,
) -> Driven:
    """Updates `state` until `num_steps` are done, resuming from a checkpoint if there is one.

    Records are taken every `num_steps / 200` updates (more often if a monitor asks for it), whatever the clock
    says, and update t depends on the key and t alone. An interrupted and resumed run therefore ends bit-equal
    with an uninterrupted one.

    Args:
        methods: estimator and optimiser; or several of one state structure, from the cheapest to the most
            thorough. A fit of several rounds goes on to the next one after a round at whose end it falls short.
        state: state of one fit, or of several stacked fits.
        num_steps: number of updates, or rounds of them (for a single fit) that end by a monitor's column.
        reporter: hears of every chunk.
        checkpoints: where to save, or None.
        monitors: see `AbstractMonitor`. In place of a monitor, a list of the same kind has one for each fit.
        keep_best: a monitor's column. The final state of each fit is the one with the largest value.
        prepare: called before the first update of another method.
        refine: changes what no gradient trains, at the end of every round and before a look at it.
    """
    methods = [methods] if isinstance(methods, Method) else list(methods)
    run = Driven(state, methods[0], [Status.RUNNING] * state.step.size, {}, 0.0)
    if keep_best:
        run.best = Best(copied(split_data(state)[0]), [-math.inf] * state.step.size)
    lanes = [list(m) if isinstance(m, Sequence) else [m] * state.step.size for m in monitors]
    with checkpoints.locked() if checkpoints else contextlib.nullcontext(), deferred_interrupts() as stop:
        if checkpoints:
            _restore(run, checkpoints)
        rounds = Rounds.of(num_steps)
        _Driver(
            run, methods, rounds, reporter, checkpoints, lanes, keep_best, prepare, refine, stop
        ).until_done()
    return run


@dataclasses.dataclass
class _Driver:
    """Runs one chunk after another. What a checkpoint holds is in `run`."""

    run: Driven
    methods: list[Method]
    rounds: Rounds
    reporter: AbstractReporter
    checkpoints: Checkpoints | None
    monitors: Monitors
    keep_best: str | None
    prepare: Callable[[Method, FitState], None]
    refine: Callable[[Method, FitState], FitState]
    stop: threading.Event
    is_unsaved: bool = False

    def until_done(self) -> None:
        """Updates until the rounds are over, every fit has failed, or Ctrl-C was pressed."""
        run, saved_at = self.run, time.monotonic()
        chunk = _chunk(self.rounds.most, self.monitors)
        is_over = self._is_over()
        words, shown = "", None
        while not is_over:
            number = self.rounds.round(run.step + 1)
            effort = self._choose_method()
            if number != shown:
                self.reporter.phase(self._phase(number))
                shown = number
            size = min(chunk - run.step % chunk, self.rounds.ends[number] - run.step)
            row, info, rate = self._update(size)
            if self._due():
                self.reporter.update(run.step, self.rounds.most, rate, words)
                if self.rounds.number > 1 and run.step in self.rounds.ends:
                    self.reporter.phase(f"{LOOKING}{number + 1}")
            if run.step in self.rounds.ends:
                run.state = self.refine(run.method, run.state)
            seen = self._look()
            _record(run.history, {"step": row.pop("step"), "round": number, "effort": effort, **row, **seen})
            is_over = self._is_over()
            self._check_column(is_over=is_over)
            words = _in_words(seen) or words
            self.reporter.update(run.step, self.rounds.most, rate, words)
            failed = _failed(info, size)
            finished = bool(is_over or np.all(failed) or self.stop.is_set())
            if finished:
                self._close(failed, Status.DONE if is_over else Status.INTERRUPTED)
            if self.checkpoints and (finished or time.monotonic() - saved_at > self.checkpoints.seconds):
                # A state that has failed must not replace a checkpoint from which the fit can go on.
                if not np.all(failed):
                    self._save(self.checkpoints)
                saved_at = time.monotonic()
            if finished:
                return

    def _save(self, checkpoints: Checkpoints) -> None:
        """Saves a checkpoint. A full disk must not cost the fit, which goes on in memory."""
        try:
            _save(self.run, checkpoints)
            self.is_unsaved = False
        except OSError as error:
            if not self.is_unsaved:
                warnings.warn(
                    f"cannot save a checkpoint in {checkpoints.directory} ({error.strerror or error}): the fit "
                    "continues without and tries again later; make room, or change the rights of the directory",
                    stacklevel=2,
                )
            self.is_unsaved = True

    def _phase(self, number: int) -> str:
        most = self.rounds.number
        return UPDATES if most == 1 else f"round {number + 1} of at most {most}"

    def _is_over(self) -> bool:
        history = self.run.history
        effort = self.rounds.effort(history, len(self.methods) - 1)
        return self.rounds.is_over(history, can_raise=bool(history) and effort > history["effort"][-1])

    def _choose_method(self) -> int:
        """Takes the method of the next chunk; returns its number."""
        run = self.run
        effort = self.rounds.effort(run.history, len(self.methods) - 1)
        if self.methods[effort] is not run.method:
            run.method = self.methods[effort]
            self.reporter.phase("compiling")
            self.prepare(run.method, run.state)
        return effort

    def _update(self, size: int) -> tuple[dict[str, Any], ChunkInfo, float]:
        """Runs one chunk; returns its row of the history, what its updates tell, and the rate."""
        run = self.run
        began = time.monotonic()
        run.state, info = run_updates(run.method, run.state, size)
        elapsed = time.monotonic() - began
        run.seconds += elapsed
        means = info.mean._asdict()
        row = {"step": run.step, **means, "skipped": info.skipped, "seconds": run.seconds}
        return row, info, size / elapsed

    def _due(self) -> Monitors:
        """Returns the monitors that look at the fit after this update."""
        done = self.run.step
        return [m for m in self.monitors if done % m[0].every == 0 or done in self.rounds.ends]

    def _look(self) -> dict[str, Any]:
        """Returns the columns of the monitors that are due: numbers for one fit, lists for stacked fits."""
        if not (due := self._due()):
            return {}
        state = self.run.state
        fits = [averaged_state(fit) for fit in unstack_states(state)]
        seen = {}
        for lanes in due:
            pairs = zip(lanes, fits, strict=True)
            values = [{k: float(v) for k, v in monitor(self.run.method, fit).items()} for monitor, fit in pairs]
            for name in values[0]:
                column = [v[name] for v in values]
                seen[name] = column if state.step.ndim else column[0]
        if self.run.best is not None and self.keep_best in seen:
            values = np.atleast_1d(seen[self.keep_best])
            _replace_best(self.run, values > np.asarray(self.run.best.values), values)
        return seen

    def _check_column(self, *, is_over: bool) -> None:
        """Raises once every monitor has looked and none gave the column to choose by."""
        history, done = self.run.history, self.run.step
        have_looked = is_over or all(done >= lanes[0].every for lanes in self.monitors)
        if self.keep_best and self.keep_best not in history and have_looked:
            raise ValueError(
                f"expected `keep_best` to be a monitor's column, one of {list(history)}, got {self.keep_best!r}"
            )

    def _close(self, failed: np.ndarray, last: Status) -> None:
        """Sets the status of every fit."""
        run = self.run
        run.status = [Status.NONFINITE if bad else last for bad in failed]
        if run.best is None or last is not Status.DONE:
            return
        # A fit whose values were never finite has no best state: it ends with its last one.
        lost = np.isneginf(run.best.values)
        _replace_best(run, lost, np.full(len(failed), -math.inf))
        pairs = zip(lost, run.status, strict=True)
        run.status = [Status.DIVERGED if bad and status is last else status for bad, status in pairs]


def _chunk(num_steps: int, monitors: Monitors) -> int:
    """Returns the number of updates between two records.

    It is at most `num_steps / 200` and divides every monitor's interval.
    """
    most = max(1, num_steps // NUM_RECORDS)
    common = math.gcd(*(lanes[0].every for lanes in monitors)) or most
    return max(size for size in range(1, most + 1) if common % size == 0)


def _replace_best(run: Driven, better: np.ndarray, values: np.ndarray) -> None:
    """Takes the current state of the fits marked `better` as their best."""
    if run.best is None or not better.any():
        return
    mask = jnp.asarray(better)

    def pick(new, old):
        wide = mask.reshape(mask.shape + (1,) * (new.ndim - 1)) if run.state.step.ndim else mask[0]
        return jnp.where(wide, new, old)

    state = jax.tree.map(pick, split_data(run.state)[0], run.best.state)
    run.best = Best(state, np.where(better, values, run.best.values).tolist())


def _save(run: Driven, checkpoints: Checkpoints) -> None:
    """Saves everything but the data, which the next process loads by itself."""
    status = [s.name for s in run.status]
    extra = {"history": run.history, "seconds": run.seconds, "status": status}
    fitted = split_data(run.state)[0]
    if run.best:
        checkpoints.save((fitted, run.best.state), run.step, {**extra, "best": run.best.values})
    else:
        checkpoints.save(fitted, run.step, extra)


def _restore(run: Driven, checkpoints: Checkpoints) -> None:
    """Continues from the newest checkpoint, if there is one."""
    fitted, data = split_data(run.state)
    names = ("history", "seconds", "status", *(["best"] if run.best else []))
    restored = checkpoints.restore((fitted, run.best.state) if run.best else fitted, names)
    if restored is None:
        return
    found: Any
    found, extra = restored
    if run.best:
        found, best = found
        run.best = Best(best, extra["best"])
    run.state = eqx.combine(found, data)
    run.history, run.seconds = extra["history"], extra["seconds"]
    run.status = [Status[name] for name in extra["status"]]


def _record(history: dict[str, list[Any]], row: dict[str, Any]) -> None:
    """Appends a row. Columns that are new or that the row leaves out are filled with None."""
    length = max((len(c) for c in history.values()), default=0)
    for name, value in row.items():
        column = history.setdefault(name, [None] * length)
        column.append(np.asarray(value).tolist())
    for column in history.values():
        column.extend([None] * (length + 1 - len(column)))


def _failed(info: ChunkInfo, size: int) -> np.ndarray:
    """Returns, for each fit, whether parameters are non-finite or most updates of the chunk were skipped."""
    return np.atleast_1d(~np.asarray(info.is_finite) | (np.asarray(info.skipped) > size / 2))


def _in_words(seen: dict[str, Any]) -> str:
    """Returns the first value with its standard error, for the progress bar; the median over stacked fits."""
    for name, value in seen.items():
        if f"{name}_stderr" in seen:
            stderr = seen[f"{name}_stderr"]
            name = "ELBO" if name == BOUND else name
            form = ".3f" if abs(np.median(value)) < HUGE else ".4g"
            return f"{name} {np.median(value):{form}} ± {np.median(stderr):{form}}"
    return ""
