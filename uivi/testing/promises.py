"""What the checks of all roles share: structures, equal numbers, checkpoints, counted traces."""

import pathlib
import tempfile
from typing import TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from uivi._jax import is_key
from uivi.storage.checkpoints import Checkpoints

T = TypeVar("T")


class Counter:
    """A number that code can raise while JAX traces it. It hashes by identity, so it may be a static field."""

    def __init__(self):
        """Starts at zero."""
        self.count = 0


def require(holds: object, message: str) -> None:
    """Raises an AssertionError with this message unless the promise holds."""
    if not holds:
        raise AssertionError(message)


def require_same_structure(what: str, expected: PyTree, found: PyTree) -> None:
    """Raises unless two trees have the same arrays at the same places, by shape and dtype."""
    before, after = _shapes(expected), _shapes(found)
    places = [place for place in (*before, *after) if before.get(place) != after.get(place)]
    if places:
        place = places[0]
        raise AssertionError(
            f"expected {before.get(place, 'nothing')} at {place or 'its root'} of {what}, got "
            f"{after.get(place, 'nothing')}"
        )


def _shapes(tree: PyTree) -> dict[str, str]:
    is_array = lambda x: eqx.is_array(x) or isinstance(x, jax.ShapeDtypeStruct)
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(tree, is_array))
    return {jax.tree_util.keystr(path): f"{leaf.dtype}{list(leaf.shape)}" for path, leaf in leaves}


def differing(first: PyTree, second: PyTree) -> str:
    """Returns the place of the first array that is not the same in both trees, bit by bit; "" if none is."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(first, eqx.is_array))
    others = jax.tree.leaves(eqx.filter(second, eqx.is_array))
    for (path, x), y in zip(leaves, others, strict=True):
        x, y = (np.asarray(jax.random.key_data(v) if is_key(v) else v) for v in (x, y))
        if x.tobytes() != y.tobytes():
            return jax.tree_util.keystr(path) or "its root"
    return ""


def restored(state: T) -> T:
    """Returns a state as a checkpoint gives it back."""
    with tempfile.TemporaryDirectory() as directory:
        checkpoints = Checkpoints(pathlib.Path(directory), "check")
        checkpoints.save(state, 0, {})
        found = checkpoints.restore(state)
    assert found is not None
    return found[0]
