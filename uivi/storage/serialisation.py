"""Modules to JSON and back: one description for saved posteriors, results and fingerprints.

A description names classes and functions by their import path; arrays are kept apart, so that the JSON
stays readable and no code is run from a file (no pickle).
"""

import dataclasses
import functools
import hashlib
import importlib
import inspect
import json
import sys
import types
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

_PUBLIC_HOMES = ("jax.nn", "jax.numpy", "uivi")
_PLAIN = (bool, int, float, str, type(None))
_ARRAYS = (jax.Array, np.ndarray, np.generic)
_LIBRARIES = {"blackjax", "equinox", "jax", "jaxlib", "numpy", "optax", "scipy", "uivi"}


def describe(value: Any, arrays: list[np.ndarray] | None = None) -> Any:
    """A JSON-able description of `value`.

    Args:
        value: modules, named tuples, containers, numbers, strings, functions, arrays.
        arrays: filled with the arrays of `value`; without it only their shapes and types are noted.
    """
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return _describe_array(value, arrays)
    if isinstance(value, eqx.Module):
        names = [f.name for f in dataclasses.fields(value)]
        fields = {name: describe(getattr(value, name), arrays) for name in names}
        return {"module" if _importable(type(value)) else "local": _path_of(type(value)), "fields": fields}
    if isinstance(value, dict):
        return {"dict": [[describe(k), describe(v, arrays)] for k, v in value.items()]}
    if isinstance(value, tuple | list):
        items = [describe(v, arrays) for v in value]
        if hasattr(value, "_fields"):
            kind = "namedtuple" if _importable(type(value)) else "local"
            return {kind: _path_of(type(value)), "items": items}
        return {type(value).__name__: items}
    if callable(value):
        return {"function": _path_of(value)} if _importable(value) else {"opaque": _name_of(value)}
    raise TypeError(f"expected modules, containers, arrays or functions, got {type(value).__name__}")


def rebuild(description: Any, arrays: list[np.ndarray]) -> Any:
    """The value that `describe` described."""
    if isinstance(description, _PLAIN):
        return description
    ((kind, content),) = [(k, v) for k, v in description.items() if k not in ("fields", "items")]
    if kind == "array":
        return jax.numpy.asarray(arrays[content])
    if kind == "dict":
        return {rebuild(k, arrays): rebuild(v, arrays) for k, v in content}
    if kind in ("tuple", "list"):
        items = [rebuild(v, arrays) for v in content]
        return tuple(items) if kind == "tuple" else items
    if kind == "function":
        return _load(content)
    if kind == "namedtuple":
        cls = _load(content)
        if not (isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")):
            raise ValueError(f"expected {content} to be a named tuple")
        return cls(*[rebuild(v, arrays) for v in description["items"]])
    if kind == "module":
        return _rebuild_module(content, description["fields"], arrays)
    raise ValueError(
        f"expected something importable, got {content!r}: define the class or function at the top level "
        "of a module (not in a notebook cell, a script or another function) and save again"
    )


def fingerprint(value: Any) -> str:
    """A short hash of the description of `value` (structure and settings, not array values)."""
    text = json.dumps(describe(value), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _describe_array(value: Any, arrays: list[np.ndarray] | None) -> dict:
    if arrays is None:
        return {"array": f"{value.dtype}{list(value.shape)}"}
    arrays.append(np.asarray(value))
    return {"array": len(arrays) - 1}


def _rebuild_module(path: str, fields: dict, arrays: list[np.ndarray]) -> eqx.Module:
    cls = _load(path)
    if not (isinstance(cls, type) and issubclass(cls, eqx.Module)):
        raise ValueError(f"expected {path} to be an equinox module")
    module = object.__new__(cls)
    for name, content in fields.items():
        object.__setattr__(module, name, rebuild(content, arrays))
    return module


def _path_of(value: Any) -> str:
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
    for home in _PUBLIC_HOMES:
        if getattr(importlib.import_module(home), name, None) is value:
            return f"{home}:{name}"
    return f"{value.__module__}:{name}"


def _importable(value: Callable) -> bool:
    try:
        path = _path_of(value)
        return not path.startswith("__main__") and _load(path) is value
    except (AttributeError, ImportError, ValueError):
        return False


def _name_of(value: Callable) -> str:
    """A name for a function that cannot be imported, which changes with its code and its data."""
    name = getattr(value, "__qualname__", type(value).__name__)
    return f"{name}#{hashlib.sha256(repr(_contents(value, ())).encode()).hexdigest()[:12]}"


def _contents(value: Any, outer: tuple[int, ...]) -> Any:
    """What the behaviour of a function depends on, as far as it can be seen: code, constants, data.

    Data is what it closes over, its defaults, the globals it names and the attributes of its objects. `outer`
    holds the identities of the values around this one: functions and objects may contain themselves.
    """
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, _ARRAYS):
        array = np.asarray(value)
        return str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).hexdigest()
    name = getattr(value, "__qualname__", type(value).__name__)
    if id(value) in outer or isinstance(value, type | types.ModuleType) or _of_a_library(value):
        return name
    return name, [_contents(part, (*outer, id(value))) for part in _parts_of(value)]


def _of_a_library(value: Any) -> bool:
    package = (getattr(value, "__module__", None) or "").partition(".")[0]
    return callable(value) and package in _LIBRARIES | sys.stdlib_module_names and _importable(value)


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


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    value = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value
