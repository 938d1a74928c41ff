"""Modules from the JSON of `uivi.storage.encoding`: built from known names only.

Loading looks a name up in `uivi.storage.names`, or a user's own among the callables that the caller trusts. It
imports nothing, and refuses every other name before it builds anything. Values in our classes must be finite,
must have the types and shapes that the class declares, and must pass its `__check_init__`. Values in trusted
classes are the user's responsibility: only the names of the fields are compared.
"""

import collections
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from uivi.storage import container, fields, names

PLAIN = (bool, int, float, str, type(None))
"""The types that stand for themselves."""
_SEQUENCES = {"list": list, "tuple": tuple}
_DICTIONARIES = {"dict": dict, "ordered_dict": collections.OrderedDict}
_OWN = ("trusted_function", "trusted_module", "trusted_namedtuple")
_BESIDE = {"module": "fields", "trusted_module": "fields", "trusted_namedtuple": "items"}
"""The second key of a description, where it has one."""
_KINDS = ("array", *_SEQUENCES, *_DICTIONARIES, "function", "module", *_OWN)
_MOST_NAMED = 20
"""Names in a message."""

Owner = Literal["ours", "trusted", "container"]
"""What holds a value: one of our classes, a trusted class, or a container outside of any class."""


def by_name(trust: Iterable[Callable]) -> dict[str, Callable]:
    """Returns the user's own classes and functions by their names, which must differ."""
    if not isinstance(trust, Iterable) or isinstance(trust, str | type):
        raise TypeError(f"expected `trust` to be a list of classes and functions, got {fields.shown(trust)}")
    found: dict[str, Callable] = {}
    for own in trust:
        name = getattr(own, "__name__", None)
        if not callable(own) or not isinstance(name, str):
            raise TypeError(
                f"expected `trust` to hold classes and functions with names, got {fields.shown(own)}"
            )
        if found.setdefault(name, own) != own:
            raise ValueError(f"expected different names in `trust`, got {name!r} twice: rename one")
    return found


def from_json(
    descriptions: dict[str, Any],
    arrays: list[np.ndarray],
    trusted: Mapping[str, Callable],
    *,
    finite: bool = True,
) -> dict[str, Any]:
    """Returns the trees that `uivi.storage.encoding.to_json` described.

    Args:
        descriptions: JSON of the trees, by name.
        arrays: their arrays; each must be used exactly once.
        trusted: the user's own classes and functions that the descriptions may name, see `by_name`.
        finite: whether floats must be finite, outside of trusted classes.

    Raises:
        ValueError: for everything that does not fit. Names are checked before anything is built.
    """
    own = set()
    for name, tree in descriptions.items():
        for kind, content, where in _nodes(tree, name):
            _check_name(kind, content, where)
            own |= {content} if kind in _OWN else set()
    missing = sorted(own - set(trusted))
    if missing:
        given = ", ".join(missing[:_MOST_NAMED]) + (", ..." if len(missing) > _MOST_NAMED else "")
        raise ValueError(
            f"expected names that uivi knows, got {given}: if you trust where this file comes from, pass your "
            f"own classes and functions of these names, uivi.load(path, trust=[{given}])"
        )
    builder = _Builder(arrays, trusted, finite=finite)
    trees = {name: builder.build(tree, name, "container") for name, tree in descriptions.items()}
    if len(builder.used) != len(arrays):
        raise ValueError(f"expected {len(builder.used)} arrays, got {len(arrays)}: some belong to nothing")
    return trees


class _Builder:
    """Builds trees from descriptions whose structure and names are checked.

    Attributes:
        used: the numbers of the arrays so far.
    """

    def __init__(self, arrays: list[np.ndarray], trusted: Mapping[str, Callable], *, finite: bool):
        self.used: set[int] = set()
        self._arrays, self._trusted, self._finite = arrays, trusted, finite

    def build(self, description: Any, where: str, owner: Owner) -> Any:
        if type(description) in PLAIN:
            if isinstance(description, float) and self._is_strict(owner) and not math.isfinite(description):
                raise ValueError(f"expected {where} to be finite, got {description}")
            return description
        kind = _kind(description, where)
        content = description[kind]
        if kind == "array":
            return self._array(content, where, owner)
        if kind in _SEQUENCES:
            return _SEQUENCES[kind](self._items(content, where, owner))
        if kind in _DICTIONARIES:
            built = [(key, self.build(item, f"{where}[{key!r}]", owner)) for key, item in content]
            return _DICTIONARIES[kind](built)
        if kind == "function":
            return names.ACTIVATIONS[content]
        if kind == "module":
            return self._module(names.CLASSES[content], description["fields"], where, "ours")
        own: Any = self._trusted[content]
        if kind == "trusted_module":
            _require(isinstance(own, type) and issubclass(own, eqx.Module), content, "an Equinox module", where)
            return self._module(own, description["fields"], where, "trusted")
        if kind == "trusted_function":
            _require(not isinstance(own, type), content, "a function", where)
            return own
        items = self._items(description["items"], where, owner)
        size = len(getattr(own, "_fields", ())) if isinstance(own, type) and issubclass(own, tuple) else -1
        _require(size == len(items), content, f"a named tuple of {len(items)}", where)
        return own(*items)

    def _is_strict(self, owner: Owner) -> bool:
        return self._finite and owner != "trusted"

    def _items(self, content: list[Any], where: str, owner: Owner) -> list[Any]:
        return [self.build(item, f"{where}[{i}]", owner) for i, item in enumerate(content)]

    def _array(self, number: Any, where: str, owner: Owner) -> jax.Array:
        # Each number once: a file that names one large array many times would take many times its size.
        if type(number) is not int or not 0 <= number < len(self._arrays) or number in self.used:
            raise ValueError(
                f"expected the number of an array of its own for {where}, got {fields.shown(number)}"
            )
        self.used.add(number)
        array = self._arrays[number]
        if array.dtype.name not in container.DTYPES:
            raise ValueError(f"expected {where} to be an array of numbers, got {fields.shown(array)}")
        if owner == "ours" and not array.size:
            # Its other axes could have any size, and a draw would need that much memory.
            raise ValueError(f"expected numbers in {where}, got an empty array {fields.shown(array)}")
        if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
            raise ValueError(
                f"expected JAX in double precision, since {where} is {fields.shown(array)}: call "
                'jax.config.update("jax_enable_x64", True) first'
            )
        value = jnp.array(array)
        if self._is_strict(owner) and not jnp.all(jnp.isfinite(value)):
            raise ValueError(f"expected {where} to be finite, got NaN or infinity in {fields.shown(value)}")
        return value

    def _module(self, cls: type[eqx.Module], content: dict[str, Any], where: str, owner: Owner) -> eqx.Module:
        expected = [field.name for field in dataclasses.fields(cls)]
        fields.check_names(content, expected, f"{where} ({cls.__name__})")
        # Not by `__init__`, which may take other arguments than the fields.
        module = object.__new__(cls)
        for name in expected:
            object.__setattr__(module, name, self.build(content[name], f"{where}.{name}", owner))
        if owner == "ours":
            fields.check(module, where)
        try:
            for parent in cls.__mro__:  # as Equinox does after `__init__`
                if "__check_init__" in vars(parent):
                    vars(parent)["__check_init__"](module)
        except Exception as error:
            raise ValueError(f"{where} ({cls.__name__}): {error}") from error
        return module


def _nodes(description: Any, where: str) -> Iterator[tuple[str, Any, str]]:
    """Yields kind, content and place of every dictionary in a description, after checking its structure."""
    if type(description) in PLAIN:
        return
    kind = _kind(description, where)
    content = description[_BESIDE.get(kind, kind)]
    children: Iterable[tuple[Any, Any]] = ()
    if kind in _SEQUENCES or kind == "trusted_namedtuple":
        if not isinstance(content, list):
            raise ValueError(f"expected a list for {where}, got {fields.shown(content)}")
        children = enumerate(content)
    elif kind in _DICTIONARIES:
        if not (isinstance(content, list) and all(isinstance(x, list) and len(x) == 2 for x in content)):
            raise ValueError(f"expected a list of keys and values for {where}, got {fields.shown(content)}")
        keys = [key for key, _ in content]
        if not all(type(key) in PLAIN for key in keys) or len(set(keys)) < len(keys):
            raise ValueError(
                f"expected different strings or numbers as keys of {where}, got {fields.shown(keys)}"
            )
        children = content
    elif kind in _BESIDE:
        if not isinstance(content, dict):
            raise ValueError(f"expected a dictionary of the fields of {where}, got {fields.shown(content)}")
        children = content.items()
    yield kind, description[kind], where
    for key, child in children:
        yield from _nodes(child, f"{where}.{key}" if kind in _BESIDE else f"{where}[{key!r}]")


def _kind(description: Any, where: str) -> str:
    """Returns what a dictionary describes."""
    if isinstance(description, dict):
        for kind in _KINDS:
            if set(description) == {kind, _BESIDE.get(kind, kind)}:
                return kind
    raise ValueError(f"expected {where} to be one of {', '.join(_KINDS)}, got {fields.shown(description)}")


def _check_name(kind: str, name: Any, where: str) -> None:
    """Raises unless a name is in its table; a user's own must only look like one."""
    tables = {"function": ("an activation", names.ACTIVATIONS), "module": ("a class", names.CLASSES)}
    if kind in tables and not (isinstance(name, str) and name in tables[kind][1]):
        what, table = tables[kind]
        raise ValueError(
            f"expected {what} that uivi knows for {where} ({', '.join(table)}), got {_short(name)}"
        )
    if kind in _OWN and not (isinstance(name, str) and name.isidentifier() and len(name) <= 100):
        raise ValueError(f"expected the name of a class or function for {where}, got {_short(name)}")


def _require(is_so: bool, name: str, what: str, where: str) -> None:  # noqa: FBT001
    if not is_so:
        raise ValueError(
            f"expected {name} in `trust` to be {what}, as {where} needs: pass another one of this name"
        )


def _short(name: Any) -> str:
    return repr(name)[:80]
