"""Finds the library that a model belongs to."""

import importlib.util
from collections.abc import Callable
from typing import Any

from uivi._types import Key
from uivi.integrations._signature import needs_arguments, takes_positional
from uivi.targets.model import ModelTarget


def recognise(
    model: Any, *, model_args: tuple | None = None, model_kwargs: dict[str, Any] | None = None, key: Key
) -> ModelTarget | None:
    """Returns the target of a PyMC or NumPyro model, or None for anything else.

    A callable is a NumPyro model if it comes with arguments, or if it can be called without any: a log density
    takes z. It is then run, and its errors are the user's to see.

    Args:
        model: what the user wants to fit.
        model_args: arguments of a NumPyro model.
        model_kwargs: keyword arguments of a NumPyro model.
        key: random key for the trial run of a NumPyro model.

    Raises:
        ImportError: if the library of the model is missing.
        TypeError: for a class.
        ValueError: if the model cannot be fitted, or fails.
    """
    refuse_class(model)
    has_arguments = model_args is not None or model_kwargs is not None
    if _is_of_pymc(model):
        if has_arguments:
            raise ValueError("expected no `model_args` with a PyMC model, which already holds its data")
        from uivi.integrations import pymc

        return pymc.target(model)
    if not isinstance(model, Callable):
        return None
    if has_arguments or _must_be_numpyro(model):
        from uivi.integrations import numpyro

        return numpyro.target(model, () if model_args is None else model_args, model_kwargs, key=key)
    return None


def refuse_class(model: Any) -> None:
    """Raises for a class, which can be called as a function can."""
    if isinstance(model, type):
        raise TypeError(
            f"expected a function, a target or a model, got the class {model.__name__}: pass an instance, "
            f"{model.__name__}(...)"
        )


def _is_of_pymc(model: Any) -> bool:
    """Whether this is a `pm.Model`. The answer does not need an import of PyMC."""
    return any(base.__module__ == "pymc.model.core" for base in type(model).__mro__)


def _must_be_numpyro(function: Callable) -> bool:
    """Whether a callable without given arguments can only be a NumPyro model."""
    if needs_arguments(function):
        return False
    # With optional arguments it may still be a log density of z, such as a wrapper with *args. Without NumPyro
    # that is all it can be. A function that cannot take z asks for NumPyro, installed or not.
    return not takes_positional(function) or importlib.util.find_spec("numpyro") is not None
