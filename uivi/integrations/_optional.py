"""Imports of optional packages."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def needs(package: str, *, extra: str) -> Iterator[None]:
    """Names the extra to install if an import inside the block fails.

    The original error stays in the message: a package that is too old also lands here.
    """
    try:
        yield
    except ImportError as error:
        message = (
            f"expected {package} to be installed, but its import failed ({error}): pip install 'uivi[{extra}]'"
        )
        raise ImportError(message, name=error.name, path=error.path) from error
