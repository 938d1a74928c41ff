"""The command `uivi`. It says that it is starting, and hands over to `uivi.cli`.

Importing anything from the package `uivi` imports JAX first, which takes seconds, so this module is outside.
"""

import sys
import threading

PATIENCE = 0.7
"""Seconds of silence before a line says what goes on."""


def main() -> None:
    """Runs the command line. Ctrl-C during the imports ends it without a traceback."""
    says = threading.Timer(PATIENCE, _say)
    says.daemon = True
    says.start()
    try:
        from uivi.cli.app import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        says.cancel()
    run()


def _say() -> None:
    print("uivi: loading JAX", file=sys.stderr, flush=True)
