"""Ctrl-C during a fit."""

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def explained_interrupts(directory: object = None) -> Iterator[None]:
    """Says what is left of a fit after a Ctrl-C that ends it at once, in place of where in a library it came.

    Args:
        directory: where the fit saves its checkpoints; None without any.
    """
    try:
        yield
    except KeyboardInterrupt:
        left = "nothing of it is kept" if directory is None else f"its checkpoints, if any, are in {directory}"
        raise KeyboardInterrupt(f"the fit was interrupted before it had a result: {left}") from None


@contextlib.contextmanager
def deferred_interrupts() -> Iterator[threading.Event]:
    """Turns the first Ctrl-C into an event that the driver looks at between chunks. A second one is immediate.

    An exception inside a chunk would lose the state, because the compiled call owns its buffers.
    """
    event = threading.Event()
    # Python delivers signals to the main thread only, and refuses handlers set anywhere else.
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
