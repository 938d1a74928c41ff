"""Which library does a model belong to?"""

import importlib.util
from collections.abc import Callable
from typing import Any

from uivi._types import Key
from uivi.targets.model import ModelTarget


def recognise(model: Any, model_args: tuple | None, model_kwargs: dict | None, key: Key) -> ModelTarget | None:
    """The target of a PyMC or NumPyro model, or None for what is no such model.

    A function is taken for a NumPyro model if arguments for it are given, or if it runs without arguments and
    declares variables.
    """
    has_arguments = model_args is not None or model_kwargs is not None
    if _is_of_pymc(model):
        if has_arguments:
            raise ValueError("expected no `model_args` beside a PyMC model, which has its data in it")
        from uivi.integrations import pymc

        return pymc.target(model)
    if not isinstance(model, Callable):
        return None
    if has_arguments or _declares_variables(model):
        from uivi.integrations import numpyro

        return numpyro.target(model, model_args or (), model_kwargs, key=key)
    return None


def _is_of_pymc(model: Any) -> bool:
    """Whether it is a `pm.Model`; PyMC need not be installed to say no."""
    return any(base.__module__ == "pymc.model.core" for base in type(model).__mro__)


def _declares_variables(model: Callable) -> bool:
    """Whether a function without arguments is a NumPyro model."""
    if importlib.util.find_spec("numpyro") is None:
        return False
    from uivi.integrations import numpyro

    return numpyro.is_model(model)
