"""The archive of a posterior.

Its header has these keys, besides the common ones of `uivi.storage.archive`:

    family      description of the fitted family, see `uivi.storage.encoding`
    example     description of zeros with the structure of one draw
    status      name of the `uivi.Status`
    history     columns recorded during the fit: lists of numbers, null where there is none
    seconds     time spent in updates
    is_model    whether the posterior belongs to a NumPyro or PyMC model
    check       result of `posterior.check()` as JSON, or null
    phases      seconds of each phase of the fit; not there if they are unknown
"""

import math
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from uivi._types import Status
from uivi.families import AbstractFamily
from uivi.storage import archive, decoding, encoding, fields

_ANNOTATIONS = {
    "family": dict,
    "example": Any,
    "status": str,
    "history": dict[str, list[float | None]],
    "seconds": float,
    "is_model": bool,
    "check": dict | None,
    "phases": dict[str, float],
}
_OPTIONAL = ("phases",)
_BROKEN = (Status.NONFINITE, Status.DIVERGED)
"""After such an end, parameters may be NaN or infinite."""


class Described(NamedTuple):
    """A posterior's family, example and status, ready to be written."""

    header: dict[str, Any]
    arrays: list[np.ndarray]


class Stored(NamedTuple):
    """The contents of a posterior file."""

    family: AbstractFamily
    example: Any
    status: Status
    history: dict[str, list[float | None]]
    seconds: float
    is_model: bool
    check: dict[str, Any] | None
    phases: dict[str, float]


def describe(family: AbstractFamily, example: Any, status: Status) -> Described:
    """Describes what a file must hold. Fast, so that what cannot be saved is refused before any work.

    Raises:
        ValueError: for what could not be loaded again, with advice.
    """
    _check_family(family, example)
    trees = {"family": family, "example": example}
    descriptions, arrays = encoding.to_json(trees, finite=status not in _BROKEN)
    return Described({**descriptions, "status": status.name}, arrays)


def write(path: pathlib.Path, described: Described, **rest: Any) -> None:
    """Writes a posterior file; `rest` has the other keys of the header."""
    header = {**described.header, **rest}
    fields.check_mapping(header, _ANNOTATIONS, "the posterior", _OPTIONAL)
    _check_header(header)
    archive.write(path, "posterior", header, described.arrays)


def read(path: pathlib.Path, trust: Iterable[Callable] = ()) -> Stored:
    """Reads a posterior file.

    Args:
        path: the file.
        trust: the user's own classes and functions that the file may name.

    Raises:
        FileNotFoundError: if there is no file.
        ArchiveError: for a file that `write` would not have written, or that needs more trust.
    """
    trusted = decoding.by_name(trust)
    header, arrays = archive.read(path, "posterior", _ANNOTATIONS, _OPTIONAL)
    with archive.refusing(path):
        _check_header(header)
        status = Status[header["status"]]
        descriptions = {name: header[name] for name in ("family", "example")}
        trees = decoding.from_json(descriptions, arrays, trusted, finite=status not in _BROKEN)
        _check_family(**trees)
    rest = {name: header[name] for name in ("history", "seconds", "is_model", "check")}
    return Stored(**trees, status=status, phases=header.get("phases", {}), **rest)


def _check_header(header: dict[str, Any]) -> None:
    if header["status"] not in Status.__members__:
        raise ValueError(f"expected a status of {', '.join(Status.__members__)}, got {header['status'][:80]!r}")
    phases = header.get("phases", {})
    for seconds in (header["seconds"], *phases.values()):
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"expected `seconds` to be finite and not negative, got {seconds}")
    if len({len(column) for column in header["history"].values()}) > 1:
        raise ValueError("expected columns of equal length in `history`")
    # They are shown in a terminal, where control characters are commands.
    if not all(text.isprintable() for text in _texts([header["history"], header["check"], phases])):
        raise ValueError("expected printable texts in `history`, `check` and `phases`")


def _texts(value: Any) -> Iterator[str]:
    """Yields all strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        yield from _texts(list(value.values()))
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _check_family(family: Any, example: Any) -> None:
    """Raises unless a traced draw of the family fits its size and the example. Nothing is computed."""
    if not isinstance(family, AbstractFamily):
        raise ValueError(f"expected a variational family, got {type(family).__name__}")
    size = family.context_dim
    context = jax.ShapeDtypeStruct((size,), jnp.result_type(float)) if size else None
    try:
        z = jax.eval_shape(lambda x: family.sample(jax.random.key(0), x), context).z
    except Exception as error:
        raise ValueError(
            f"expected a family that can be sampled, got {type(family).__name__} with {error}"
        ) from error
    if z.shape != (family.dim,) or not jnp.issubdtype(z.dtype, jnp.floating):
        raise ValueError(f"expected draws of {family.dim} floats, got {z.dtype}{list(z.shape)}")
    leaves = jax.tree.leaves(example)
    if not all(jnp.issubdtype(jnp.result_type(x), jnp.floating) for x in leaves):
        raise ValueError("expected an example of float arrays, got others")
    if sum(jnp.size(x) for x in leaves) != family.dim:
        raise ValueError(
            f"expected an example of {family.dim} numbers, as many as a draw, got {sum(map(jnp.size, leaves))}"
        )
