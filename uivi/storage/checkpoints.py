"""Checkpoints of a fit in a directory: atomic, bit-exact, one run at a time.

A checkpoint is an archive (`uivi.storage.archive`) of the array leaves of the run's state. Its header has these
keys, besides the common ones:

    fingerprint    hash of the run's configuration, see `uivi.storage.descriptions.fingerprint`
    names          place of each leaf in the state, such as ".family.encoder": attribute names and item
                   numbers of the tree, never names of classes or modules
    extra          what the driver keeps beside the state: history, seconds, status, best

Loading builds nothing from a checkpoint. The run makes its own state and takes numbers from the file, if their
names, shapes and dtypes agree. The numbers may be NaN or infinite: a run goes on exactly where it was.
"""

import contextlib
import fcntl
import os
import pathlib
import re
import stat
from collections.abc import Collection, Iterator
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from uivi._jax import is_key
from uivi.storage import archive, fields

T = TypeVar("T")

_ANNOTATIONS = {"fingerprint": str, "names": list[str], "extra": dict}
_EXTRA = {"history": dict[str, list], "seconds": float, "status": list[str], "best": list[float]}


class Checkpoints:
    """The checkpoints of one fit: files `step-*.ckpt`. The last `keep` stay.

    Args:
        directory: where they are; made if it is not there.
        fingerprint: identifies the configuration; a checkpoint of another one is refused.
        keep: how many to keep.
        seconds: least time between two saves (the driver asks after each chunk).
    """

    def __init__(self, directory, fingerprint: str, *, keep: int = 2, seconds: float = 5.0):
        """Remembers the place and writes nothing."""
        self.directory = pathlib.Path(directory)
        self.fingerprint = fingerprint
        self.keep = keep
        self.seconds = seconds

    def newest(self) -> pathlib.Path | None:
        """Returns the checkpoint of the largest step, if there is one."""
        return max(self._all(), default=None)

    def save(self, state: Any, step: int, extra: dict[str, Any]) -> None:
        """Writes a checkpoint, then deletes the oldest beyond `keep`.

        Args:
            state: a tree; its JAX arrays are saved, everything else in it is not.
            step: number of updates.
            extra: some of "history", "seconds", "status" and "best", as plain values.
        """
        fields.check_mapping(extra, _EXTRA, "`extra`", optional=_EXTRA)
        names, leaves = _named_leaves(state)
        header = {"fingerprint": self.fingerprint, "names": names, "extra": extra}
        archive.write(self.directory / f"step-{step:010d}.ckpt", "checkpoint", header, leaves)
        for old in self._all()[: -self.keep]:
            old.unlink()

    def restore(self, template: T, expected: Collection[str] = ()) -> tuple[T, dict[str, Any]] | None:
        """Returns the newest state and its extra, or None in a fresh directory.

        Args:
            template: a tree like the one that was saved. Its arrays are replaced, the rest is kept.
            expected: the names that the extra must have.
        """
        path = self.newest()
        if path is None:
            return None
        header, arrays = archive.read(path, "checkpoint", _ANNOTATIONS)
        names, leaves = _named_leaves(template)
        same = [(a.shape, a.dtype) for a in arrays] == [(b.shape, b.dtype) for b in leaves]
        if header["fingerprint"] != self.fingerprint or header["names"] != names or not same:
            raise archive.ArchiveError(
                f"{path} belongs to another configuration (fingerprint {header['fingerprint'][:40]}, this run "
                f"has {self.fingerprint}): use another directory, or the settings it was started with; "
                "nothing was changed"
            )
        with archive.refusing(path):
            fields.check_mapping(header["extra"], _EXTRA, "its extra", optional=set(_EXTRA) - set(expected))
        return _with_leaves(template, arrays), header["extra"]

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the directory against a second run; the lock dies with the process."""
        with locked_directory(self.directory):
            for half in self.directory.glob(".step-*.tmp"):  # a killed run was writing these
                if half.is_symlink() or half.is_file():
                    half.unlink()
            yield

    def _all(self) -> list[pathlib.Path]:
        """Returns all checkpoints, the oldest first."""
        found = self.directory.glob("step-*.ckpt")
        return sorted(path for path in found if re.fullmatch(r"step-\d{10}\.ckpt", path.name))


@contextlib.contextmanager
def locked_directory(directory: pathlib.Path) -> Iterator[None]:
    """Makes `directory`, checks that it can be written, and holds it against other runs."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = _open_lock(directory / ".lock")
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


def _open_lock(path: pathlib.Path) -> Any:
    """Opens the lock file, which must be a regular file: a link is not followed, a pipe not waited for."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = os.fdopen(os.open(path, flags, 0o666), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(None, f"{path.name} is not a regular file")
    return file


def _named_leaves(state: Any) -> tuple[list[str], list[np.ndarray]]:
    flat = jax.tree_util.tree_leaves_with_path(eqx.filter(state, eqx.is_array))
    values = [jax.random.key_data(x) if is_key(x) else x for _, x in flat]
    return [jax.tree_util.keystr(path) for path, _ in flat], [np.asarray(v) for v in values]


def _with_leaves(template: T, values: list[np.ndarray]) -> T:
    arrays, static = eqx.partition(template, eqx.is_array)
    old, treedef = jax.tree.flatten(arrays)
    # Copies: the compiled loop gives up the buffers of its state, and these belong to the file's bytes.
    new = [
        jax.random.wrap_key_data(jnp.array(v), impl=jax.random.key_impl(o)) if is_key(o) else jnp.array(v)
        for v, o in zip(values, old, strict=True)
    ]
    return eqx.combine(jax.tree.unflatten(treedef, new), static)
