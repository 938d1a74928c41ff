"""Compiles the programs of a fit in the background, while the host does something else.

XLA compiles without Python's lock. A program that is ready before its first call costs no wait. If compilation
fails here, the call itself fails with the same error, so nothing is reported.
"""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax

from uivi._jax import load_blas
from uivi.evaluation.look import lowered_look
from uivi.targets.base import AbstractGlobalTarget
from uivi.training.update import FitState, Method, copied, lowered_updates


class Ahead:
    """Compiles the updates of a fit, and then the look at it."""

    def __init__(self, executor: ThreadPoolExecutor):
        self._executor = executor
        self._updates: Future | None = None

    def begin(self, method: Method, state: FitState, *, has_elbo: bool) -> None:
        """Starts with the updates, which are needed first.

        The look is traced while XLA compiles the updates, and compiled afterwards: two compilations at once
        would delay the updates.

        Args:
            method: estimator and optimiser of the fit.
            state: a state with the shapes of the fit. Its numbers do not matter.
            has_elbo: whether the fit will be looked at.
        """
        if not isinstance(state.target, AbstractGlobalTarget):
            return
        # The fit itself donates its state to the updates, perhaps before the second program is traced.
        state = copied(state)
        lowered = self._submit(lambda: lowered_updates(method, state))
        updates = self._updates = self._submit(lambda: lowered.result().compile())
        if has_elbo:
            fit = (state.family, state.target, method.estimator, state.est_state)

            def compile_look() -> None:
                lowered.exception()
                look = lowered_look(state.key, *fit)
                updates.exception()
                look.compile()

            self._submit(compile_look)

    def finish(self, method: Method, state: FitState, *, has_elbo: bool) -> None:
        """Does the same, and waits until the updates are compiled."""
        self.begin(method, state, has_elbo=has_elbo)
        self.wait()

    def wait(self) -> None:
        """Waits until the updates are compiled: compiling them twice would take longer."""
        if self._updates is not None:
            self._updates.exception()

    def _submit(self, task: Callable[[], Any]) -> Future:
        # A thread does not inherit this setting from a context manager.
        is_wide = jax.config.read("jax_enable_x64")

        def run() -> Any:
            with jax.enable_x64(is_wide):
                return task()

        return self._executor.submit(run)


@contextlib.contextmanager
def ahead() -> Iterator[Ahead]:
    """Compiles while the context lasts. What has not begun by its end is dropped."""
    # Both threads need SciPy's LAPACK. Python can deadlock if both import it at once.
    load_blas()
    executor = ThreadPoolExecutor(max_workers=3, thread_name_prefix="uivi-compile")
    try:
        yield Ahead(executor)
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
