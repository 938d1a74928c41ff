"""A small posterior of fixed numbers, and files that somebody has changed by hand."""

import copy
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import uivi
from uivi.families import MLP, Gaussian, LogScale, StandardNormal
from uivi.networks import Linear
from uivi.storage import archive, container, posteriors

FILES = pathlib.Path(__file__).parent / "files"


def family(activation=jax.nn.relu) -> uivi.SemiImplicit:
    """Two dimensions, one noise variable, three hidden units."""
    layers = (
        Linear(jnp.array([[1.0], [-0.5], [0.25]]), jnp.array([0.0, 0.5, -1.0])),
        Linear(jnp.array([[1.0, 0.0, 2.0], [0.0, -1.0, 0.5]]), jnp.array([0.125, -3.0])),
    )
    net = MLP(layers, None, None, activation)
    return uivi.SemiImplicit(StandardNormal(1), Gaussian(net, LogScale(jnp.array([-1.0, 0.5]))))


def posterior(**changes: Any) -> uivi.Posterior:
    """A posterior that was never fitted."""
    settings = {
        "family": family(),
        "example": {"a": jnp.zeros(1), "b": (jnp.zeros(()),)},
        "status": uivi.Status.DONE,
        "history": {"step": [10, 20], "elbo_lower": [None, -1.5]},
        "seconds": 0.25,
    }
    return uivi.Posterior(**(settings | changes))


def contents() -> tuple[dict[str, Any], list[np.ndarray]]:
    """Header and arrays that `save` would write, as copies to change."""
    header, arrays = _contents()
    return copy.deepcopy(header), list(arrays)


@functools.cache
def _contents() -> tuple[dict[str, Any], list[np.ndarray]]:
    of = posterior()
    described = posteriors.describe(of.family, of.example, of.status)
    rest = {"history": of.history, "seconds": of.seconds, "is_model": of.is_model, "check": None}
    return {**described.header, **rest}, described.arrays


def changed(path: pathlib.Path, place: str, value: Any) -> pathlib.Path:
    """Writes a file in which one place of the header has another value."""
    header, arrays = contents()
    *way, last = place.split(".")
    inner = header
    for name in way:
        inner = inner["fields"] if name == "*" else inner[name]
    inner[last] = value
    archive.write(path, "posterior", header, arrays)
    return path


NET = "family.*.conditional.*.net"
ACTIVATION = f"{NET}.*.activation"


def around(path: pathlib.Path, text: bytes, members: Sequence[tuple[str, bytes]] = ()) -> pathlib.Path:
    """A file around any header text, with members of any contents."""
    parts, directory = [], container._Directory()
    for name, content in [("header.json", text), *members]:
        parts += [directory.add(name, content), content]
    path.write_bytes(b"".join([*parts, directory.end()]))
    return path


def header_text(**changes: Any) -> bytes:
    """The header of a posterior with nothing but a note in it, changed."""
    return container.to_text(
        {"format": archive.FORMAT, "kind": "posterior", "arrays": [], "note": []} | changes
    )
