"""Checks that values have the types of their annotations, for values that come from a file."""

import dataclasses
import types
import typing
from collections.abc import Collection, Mapping
from typing import Any

import jax
import numpy as np


def fits(value: Any, annotation: Any, sizes: dict[str, int] | None = None) -> bool:
    """Returns whether `value` has the type `annotation`.

    Args:
        value: anything.
        annotation: a type, a union, a generic, or an array type of jaxtyping.
        sizes: sizes of named axes so far, to which new ones are added: the same name means the same size.
    """
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Any or isinstance(annotation, typing.TypeVar):
        return True
    if annotation is None:
        return value is None
    if origin in (types.UnionType, typing.Union):
        return any(fits(value, choice, sizes) for choice in args)
    if origin is typing.Literal:
        return any(type(value) is type(choice) and value == choice for choice in args)
    if origin is tuple and args[-1] is not Ellipsis:
        return isinstance(value, tuple) and len(value) == len(args) and all(map(fits, value, args))
    if origin in (tuple, list):
        return isinstance(value, origin) and all(fits(item, args[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(k, args[0]) and fits(v, args[1]) for k, v in value.items())
    if annotation in (int, float):  # not isinstance: True is an int; and JSON may hold 1 for a float
        return type(value) is int or type(value) is annotation
    if not isinstance(value, origin or annotation):
        return False
    names = getattr(annotation, "dim_str", "").split()
    if sizes is None or not names or not all(name.isidentifier() for name in names):
        return True
    return all(sizes.setdefault(name, size) == size for name, size in zip(names, value.shape, strict=True))


def check(record: Any, where: str) -> None:
    """Raises unless every field of a dataclass or named tuple has its type, also in named tuples within it.

    Args:
        record: a dataclass or named tuple.
        where: name of the record in messages.
    """
    sizes: dict[str, int] = {}
    for name, annotation in annotations_of(type(record)).items():
        value = getattr(record, name)
        if not fits(value, annotation, sizes):
            axes = ", ".join(f"{axis}={size}" for axis, size in sizes.items())
            wanted = _words(annotation) + (f" with {axes}" if axes else "")
            raise ValueError(f"expected {where}.{name} to be {wanted}, got {shown(value)}")
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            check(value, f"{where}.{name}")


def check_mapping(
    mapping: Any, annotations: Mapping[str, Any], where: str, optional: Collection[str] = ()
) -> None:
    """Raises unless a dictionary has exactly the annotated keys (perhaps without `optional`) and types."""
    if not isinstance(mapping, dict):
        raise ValueError(f"expected {where} to be a dictionary, got {shown(mapping)}")
    check_names([name for name in mapping if name not in optional], set(annotations) - set(optional), where)
    for name, annotation in annotations.items():
        if name in mapping and not fits(mapping[name], annotation):
            raise ValueError(
                f"expected {name!r} in {where} to be {_words(annotation)}, got {shown(mapping[name])}"
            )


def check_names(given: Collection[str], expected: Collection[str], where: str) -> None:
    """Raises unless the names are the expected ones, and says which are missing and which are unknown."""
    missing, unknown = sorted(set(expected) - set(given)), sorted(set(given) - set(expected))
    if missing or unknown:
        parts = [f"{', '.join(missing)} missing"] * bool(missing)
        parts += [f"{', '.join(unknown)[:200]!r} unknown"] * bool(unknown)
        raise ValueError(
            f"expected the fields of {where} to be {', '.join(sorted(expected))}, got {' and '.join(parts)}"
        )


def annotations_of(cls: type) -> dict[str, Any]:
    """Returns the annotations of a dataclass or a named tuple by field."""
    if dataclasses.is_dataclass(cls):
        return {field.name: field.type for field in dataclasses.fields(cls)}
    return dict(cls.__annotations__)


def shown(value: Any) -> str:
    """Returns a short text for a value."""
    if isinstance(value, jax.Array | np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    text = f"{type(value).__name__} {value!r}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _words(annotation: Any) -> str:
    if annotation is None or annotation is type(None):
        return "None"
    if hasattr(annotation, "dim_str"):
        return f"{annotation.dtype.__name__}[{annotation.dim_str}]"
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        return " or ".join(_words(choice) for choice in typing.get_args(annotation))
    return (
        annotation.__name__
        if isinstance(annotation, type) and not typing.get_args(annotation)
        else str(annotation)
    )
