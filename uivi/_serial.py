"""Modules to JSON and back: one description for saved posteriors, results and fingerprints.

A description names classes and functions by their import path; arrays are kept apart, so that the JSON
stays readable and no code is run from a file (no pickle).
"""

import dataclasses
import hashlib
import importlib
import json
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

_PUBLIC_HOMES = ("jax.nn", "jax.numpy", "uivi")
_PLAIN = (bool, int, float, str, type(None))


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
        return {"module": _path_of(type(value)), "fields": fields}
    if isinstance(value, dict):
        return {"dict": {str(k): describe(v, arrays) for k, v in value.items()}}
    if isinstance(value, tuple | list):
        items = [describe(v, arrays) for v in value]
        if hasattr(value, "_fields"):
            return {"namedtuple": _path_of(type(value)), "items": items}
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
        return {k: rebuild(v, arrays) for k, v in content.items()}
    if kind in ("tuple", "list"):
        items = [rebuild(v, arrays) for v in content]
        return tuple(items) if kind == "tuple" else items
    if kind == "function":
        return _load(content)
    if kind == "namedtuple":
        return _load(content)(*[rebuild(v, arrays) for v in description["items"]])
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
    """A name for a function that cannot be imported, which changes when its code does."""
    code = getattr(value, "__code__", None)
    content = (code.co_code + repr(code.co_names).encode()) if code else b""
    name = getattr(value, "__qualname__", type(value).__name__)
    return f"{name}#{hashlib.sha256(content).hexdigest()[:8]}"


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    value = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value
