"""Modules as JSON, for posterior files; `uivi.storage.decoding` builds them again.

In a description, numbers, strings and null stand for themselves. Everything else is a dictionary:

    {"array": 3}                                     array number 3 of the archive
    {"list": [...]}, {"tuple": [...]}                containers
    {"dict": [[key, value], ...]}                    a dictionary; an {"ordered_dict": ...} likewise
    {"module": "Gaussian", "fields": {...}}          a class of `uivi.storage.names`
    {"function": "relu"}                             an activation of `uivi.storage.names`
    {"trusted_module": "Mine", "fields": {...}}      a user's class, by its `__name__`
    {"trusted_namedtuple": "Pair", "items": [...]}   a user's named tuple
    {"trusted_function": "swoosh"}                   a user's function

A user's own class or function is recorded by its name only. Whoever loads the file passes it as `trust=`.
"""

import collections
import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from uivi.storage import container, decoding, fields, names


def to_json(trees: dict[str, Any], *, finite: bool = True) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Returns the descriptions of named trees, and their arrays.

    Args:
        trees: modules and containers of arrays, by name.
        finite: whether floats must be finite, see `uivi.storage.decoding.from_json`.

    Raises:
        ValueError: for what could not be loaded again, with advice.
    """
    writer = _Writer()
    descriptions = {name: writer.describe(tree, name) for name, tree in trees.items()}
    # What would be refused when it is loaded is refused now, while the trees are still there.
    decoding.from_json(descriptions, writer.arrays, writer.trusted, finite=finite)
    return descriptions, writer.arrays


class _Writer:
    """Describes trees.

    Attributes:
        arrays: the arrays so far.
        trusted: the user's own classes and functions so far, by name.
    """

    def __init__(self):
        self.arrays: list[np.ndarray] = []
        self.trusted: dict[str, Callable] = {}

    def describe(self, value: Any, where: str) -> Any:
        kind = type(value)
        if isinstance(value, jax.Array | np.ndarray | np.generic):
            self.arrays.append(_as_jax_has_it(value, where))
            return {"array": len(self.arrays) - 1}
        if kind in decoding.PLAIN:
            return value
        if isinstance(value, eqx.Module):
            return self._module(value, where)
        if kind in (dict, collections.OrderedDict):
            name = "dict" if kind is dict else "ordered_dict"
            return {name: [self._item(key, item, where) for key, item in value.items()]}
        if kind in (tuple, list):
            return {kind.__name__: self._items(value, where)}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return {"trusted_namedtuple": self._name(kind, where), "items": self._items(value, where)}
        if callable(value) and not isinstance(value, type):
            name = names.function_name(value)
            return {"trusted_function": self._name(value, where)} if name is None else {"function": name}
        raise ValueError(
            f"expected {where} to be made of modules, dictionaries, lists, tuples, arrays, numbers, strings "
            f"and functions, got {fields.shown(value)}: a file cannot hold it"
        )

    def _items(self, value: tuple | list, where: str) -> list[Any]:
        return [self.describe(item, f"{where}[{i}]") for i, item in enumerate(value)]

    def _item(self, key: Any, value: Any, where: str) -> list[Any]:
        if type(key) not in decoding.PLAIN:
            raise ValueError(f"expected the keys of {where} to be strings or numbers, got {fields.shown(key)}")
        return [key, self.describe(value, f"{where}[{key!r}]")]

    def _module(self, module: eqx.Module, where: str) -> dict[str, Any]:
        described = {}
        for field in dataclasses.fields(module):
            value = getattr(module, field.name)
            # A static field must stay hashable: NumPy's numbers are, the array that would come back is not.
            is_number = field.metadata.get("static", False) and isinstance(value, np.generic)
            described[field.name] = self.describe(value.item() if is_number else value, f"{where}.{field.name}")
        name = names.class_name(type(module))
        if name is None:
            return {"trusted_module": self._name(type(module), where), "fields": described}
        return {"module": name, "fields": described}

    def _name(self, own: Callable, where: str) -> str:
        """Returns the name of a user's class or function."""
        name = getattr(own, "__name__", "")
        if not (isinstance(name, str) and name.isidentifier()):
            raise ValueError(
                f"expected a class or function with a name in {where}, got {fields.shown(own)}: write it with "
                "`def` or `class`, so that it can be passed to uivi.load(path, trust=[...])"
            )
        if self.trusted.setdefault(name, own) != own:
            raise ValueError(
                f"expected different names for different classes and functions, got a second {name!r} in "
                f"{where}: rename one"
            )
        return name


def _as_jax_has_it(value: Any, where: str) -> np.ndarray:
    """Returns an array in the dtype that JAX gives it: in single precision, unless x64 is enabled."""
    if value.dtype.name not in container.DTYPES:
        raise ValueError(
            f"expected {where} to be an array of {', '.join(container.DTYPES)}, got {fields.shown(value)}: "
            "convert it first (a random key with jax.random.key_data)"
        )
    return np.asarray(value, jax.dtypes.canonicalize_dtype(value.dtype))
