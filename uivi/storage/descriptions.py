"""Descriptions of any value as JSON, for results to read and for fingerprints: nothing is built from them.

Our classes and functions go by their names, so a description does not change when code moves. Others go by
module and name. A function that cannot be imported goes by a hash of its contents. Files that are loaded again
use `uivi.storage.encoding` instead.
"""

import dataclasses
import functools
import hashlib
import inspect
import json
import sys
import types
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from uivi.storage import names

_PLAIN = (bool, int, float, str, type(None))
_ARRAYS = (jax.Array, np.ndarray, np.generic)
_LIBRARIES = {"blackjax", "equinox", "jax", "jaxlib", "numpy", "optax", "scipy", "uivi"}


def describe(value: Any) -> Any:
    """Returns a JSON-able description of modules, containers, numbers, strings, functions and arrays.

    Arrays are described by dtype and shape.
    """
    if isinstance(value, np.generic):  # a number, and numbers are settings
        return describe(value.item())
    if isinstance(value, _ARRAYS):
        return {"array": f"{value.dtype}{list(value.shape)}"}
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, eqx.Module):
        fields = {f.name: describe(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"module": _class_name(type(value)), "fields": fields}
    if isinstance(value, dict):
        return {"dict": [[describe(k), describe(v)] for k, v in value.items()]}
    if isinstance(value, tuple | list):
        items = [describe(v) for v in value]
        if hasattr(value, "_fields"):
            return {"namedtuple": _class_name(type(value)), "items": items}
        return {type(value).__name__: items}
    if callable(value):
        return {"function": _function_name(value)}
    raise TypeError(f"expected modules, containers, arrays or functions, got {type(value).__name__}")


def fingerprint(value: Any) -> str:
    """Returns a short hash of the description of `value`: of structure and settings, not of array values."""
    text = json.dumps(describe(value), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _class_name(cls: type) -> str:
    return names.class_name(cls) or _path_of(cls)


def _function_name(value: Callable) -> str:
    known = names.function_name(value)
    if known or _is_importable(value):
        return known or _path_of(value)
    # Its name alone would be the same for other code, or for the same code on other data.
    name = getattr(value, "__qualname__", type(value).__name__)
    return f"{name}#{hashlib.sha256(repr(_contents(value, ())).encode()).hexdigest()[:12]}"


def _path_of(value: Any) -> str:
    """Returns the name of something of ours, module and name of anything else."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
    return name if _package_of(value) == "uivi" else f"{value.__module__}:{name}"


def _package_of(value: Any) -> str:
    return (getattr(value, "__module__", None) or "").partition(".")[0]


def _is_importable(value: Callable) -> bool:
    """Whether `value` is found under its name in its module, and in another process too."""
    module = getattr(value, "__module__", None) or ""
    found: Any = sys.modules.get(module)
    for part in (getattr(value, "__qualname__", None) or getattr(value, "__name__", "")).split("."):
        found = getattr(found, part, None)
    return found is value and module != "__main__"


def _contents(value: Any, outer: tuple[int, ...]) -> Any:
    """Returns what the behaviour of a function depends on, as far as it can be seen: code, constants, data.

    Data is what it closes over, its defaults, the globals it names and the attributes of its objects. `outer`
    holds the identities of the values around this one: functions and objects may contain themselves.
    """
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, _ARRAYS):
        array = np.asarray(value)
        return str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).hexdigest()
    name = getattr(value, "__qualname__", type(value).__name__)
    if id(value) in outer or isinstance(value, type | types.ModuleType) or _is_of_a_library(value):
        return name
    return name, [_contents(part, (*outer, id(value))) for part in _parts_of(value)]


def _is_of_a_library(value: Any) -> bool:
    known = _package_of(value) in _LIBRARIES | sys.stdlib_module_names
    return callable(value) and known and _is_importable(value)


def _parts_of(value: Any) -> list[Any]:
    if isinstance(value, types.FunctionType):
        used = inspect.getclosurevars(value)
        return [value.__code__, value.__defaults__, value.__kwdefaults__, used.nonlocals, used.globals]
    if isinstance(value, types.CodeType):
        return [value.co_code.hex(), *value.co_names, *value.co_consts]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, dict):
        return [part for item in value.items() for part in item]
    if isinstance(value, tuple | list):
        return list(value)
    if isinstance(value, eqx.Module):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    wrapped = getattr(value, "__wrapped__", None)
    if wrapped is not None:
        return [wrapped]
    # Of other objects only plain attributes: caches and handles would differ in the next process.
    return [v for v in getattr(value, "__dict__", {}).values() if isinstance(v, _PLAIN + _ARRAYS)]
