"""The command `uivi`. It says that it is starting, and hands over to `uivi.cli`.

Importing anything from the package `uivi` imports JAX first, which takes seconds, so this module is outside.
"""

import sys
import threading

PATIENCE = 0.7
"""Seconds of silence before a line says what goes on, and between the dots behind it."""


def main() -> None:
    """Runs the command line. Ctrl-C during the imports ends it without a traceback."""
    imported = threading.Event()
    says = threading.Thread(target=_say, args=(imported,), daemon=True)
    says.start()
    try:
        from uivi.cli.app import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        imported.set()
        says.join()
    run()


def _say(imported: threading.Event) -> None:
    words = "uivi: loading JAX"
    while not imported.wait(PATIENCE):
        print(words, end="", file=sys.stderr, flush=True)
        words = "."
    if words == ".":
        print(file=sys.stderr, flush=True)
