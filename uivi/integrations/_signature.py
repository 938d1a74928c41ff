"""What the signature of a callable allows, without a call."""

import inspect
from collections.abc import Callable

_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def needs_arguments(function: Callable) -> bool:
    """Whether a call without arguments must fail.

    True as well if the signature is unknown, as for some built-in functions: those are not NumPyro models.
    """
    parameters = _parameters(function)
    if parameters is None:
        return True
    return any(p.default is p.empty and p.kind not in _VARIADIC for p in parameters)


def takes_positional(function: Callable) -> bool:
    """Whether a call with one positional argument is possible, as a log density of z must allow."""
    parameters = _parameters(function)
    return parameters is None or any(p.kind in _POSITIONAL for p in parameters)


def _parameters(function: Callable) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
