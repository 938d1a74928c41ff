"""Models and formats of other libraries.

Each module loads on first use (`uivi.integrations.numpyro`), so that `import uivi` needs none of the libraries.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uivi.integrations import arviz, autoguide, blackjax, flowjax, numpyro, pymc

__all__ = ["arviz", "autoguide", "blackjax", "flowjax", "numpyro", "pymc"]


def __getattr__(name: str) -> Any:
    """Imports one of the modules above on first use.

    Raises:
        ImportError: if the library of the module is missing. The message has the extra to install.
    """
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
