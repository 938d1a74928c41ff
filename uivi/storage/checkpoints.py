"""Checkpoints of a fit in a directory: atomic, bit-exact, one run at a time."""

import contextlib
import fcntl
import pathlib
from collections.abc import Iterator
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from uivi.storage import archive
from uivi.targets.rows import split_data

T = TypeVar("T")


class Checkpoints:
    """The checkpoints of one fit: `step-*.ckpt` files, of which the last `keep` stay.

    Args:
        directory: made if it is not there.
        fingerprint: of the configuration; a checkpoint of another one is refused.
        keep: how many to keep.
        seconds: least time between two saves (the driver asks after each chunk).
    """

    def __init__(self, directory, fingerprint: str, *, keep: int = 2, seconds: float = 5.0):
        """Remember the place; nothing is written yet."""
        self.directory = pathlib.Path(directory)
        self.fingerprint = fingerprint
        self.keep = keep
        self.seconds = seconds

    def newest(self) -> pathlib.Path | None:
        """The checkpoint of the largest step, if any."""
        return max(self.directory.glob("step-*.ckpt"), default=None)

    def save(self, state: Any, step: int, extra: dict[str, Any]) -> None:
        """Write a checkpoint, then delete the oldest beyond `keep`."""
        names, leaves = _named_leaves(state)
        header = {"kind": "checkpoint", "fingerprint": self.fingerprint, "names": names, **extra}
        arrays = {f"leaf_{i}": leaf for i, leaf in enumerate(leaves)}
        archive.write(self.directory / f"step-{step:010d}.ckpt", header, arrays)
        for old in sorted(self.directory.glob("step-*.ckpt"))[: -self.keep]:
            old.unlink()

    def restore(self, template: T) -> tuple[T, dict[str, Any]] | None:
        """The newest state with its extra, or None in a fresh directory."""
        path = self.newest()
        if path is None:
            return None
        header, arrays = archive.read(path, "checkpoint")
        names, leaves = _named_leaves(template)
        loaded = [arrays[f"leaf_{i}"] for i in range(len(arrays))]
        same = [(a.shape, a.dtype) for a in loaded] == [(b.shape, b.dtype) for b in leaves]
        if header["fingerprint"] != self.fingerprint or header["names"] != names or not same:
            raise archive.ArchiveError(
                f"{path} belongs to another configuration (fingerprint {header['fingerprint']}, this run has "
                f"{self.fingerprint}): use another directory, or the settings it was started with; "
                "nothing was changed"
            )
        return _with_leaves(template, loaded), header

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory against a second run; the lock dies with the process."""
        with locked_directory(self.directory):
            for half in self.directory.glob(".step-*.tmp"):  # a killed run was writing these
                half.unlink()
            yield


@contextlib.contextmanager
def locked_directory(directory: pathlib.Path) -> Iterator[None]:
    """Make `directory`, check that it can be written, and hold it against other runs."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / ".lock").open("a")
    except OSError as error:
        raise OSError(
            f"cannot write to {directory} ({error.strerror}): choose another directory or change its rights"
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RuntimeError(
                f"another run is using {directory}: wait for it to end, or choose another directory"
            ) from error
        yield


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _named_leaves(state: Any) -> tuple[list[str], list[np.ndarray]]:
    flat = jax.tree_util.tree_leaves_with_path(split_data(state)[0])
    values = [jax.random.key_data(x) if _is_key(x) else x for _, x in flat]
    return [jax.tree_util.keystr(path) for path, _ in flat], [np.asarray(v) for v in values]


def _with_leaves(template: T, values: list[np.ndarray]) -> T:
    arrays, static = split_data(template)
    old, treedef = jax.tree.flatten(arrays)
    new = [
        jax.random.wrap_key_data(jnp.asarray(v)) if _is_key(o) else jnp.asarray(v)
        for v, o in zip(values, old, strict=True)
    ]
    return eqx.combine(jax.tree.unflatten(treedef, new), static)
