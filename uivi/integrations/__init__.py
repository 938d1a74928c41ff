"""Models and formats of other libraries. Each library is imported only when its module is used."""

import importlib
from typing import Any

_MODULES = ("arviz", "autoguide", "blackjax", "numpyro", "pymc")

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    """Import `uivi.integrations.numpyro` and the others on first use."""
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
