"""Archives: files of numbered arrays with a JSON header, written atomically and checked when they are read.

A saved posterior and a checkpoint are archives of two kinds. An archive is an ordinary npz file, so
`numpy.load` and `unzip` open it too:

    header.json    the header: JSON in ASCII, with sorted keys and without spaces
    array_0.npy    the first array
    array_1.npy    the second array, and so on

Every header has the keys

    format    number of the format, see `FORMAT`
    kind      "posterior" or "checkpoint"
    arrays    [dtype, shape] of each array, such as ["float32", [2, 3]]

and the keys of its kind: `uivi.storage.posteriors` lists them for a posterior, `uivi.storage.checkpoints` for
a checkpoint. A posterior describes its modules by public names (`uivi.storage.names`) and its arrays by number,
see `uivi.storage.encoding`. A checkpoint holds the array leaves of a tree that the run can build by itself.

A file may come from anybody, so reading trusts nothing in it. Members are not compressed and come in this
order with a fixed timestamp. The header therefore determines the size of the file and all its bytes, except
for the numbers, and reading compares them (`uivi.storage.container`): nothing beyond the size of the file is
ever allocated, and nothing in it is unpickled, imported or executed.
"""

import contextlib
import errno
import os
import pathlib
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from uivi.storage import container, fields

FORMAT = 2
"""The format that is written and read. Raise it with every change after which older files do not load."""

_COMMON = {"format": int, "kind": str, "arrays": list}


class ArchiveError(ValueError):
    """A file that cannot be read as what it should be."""


def write(path: pathlib.Path, kind: str, header: Mapping[str, Any], arrays: Sequence[np.ndarray]) -> None:
    """Writes an archive under `path`, whole or not at all.

    Raises:
        ValueError: for a header or arrays that `read` would refuse.
        OSError: if the file cannot be written, see `write_bytes`.
    """
    specs = [container.spec_of(array) for array in arrays]
    text = container.to_text({**header, "format": FORMAT, "kind": kind, "arrays": specs})
    container.check_text(text)
    write_bytes(path, container.to_bytes(text, arrays))


def read(
    path: pathlib.Path, kind: str, annotations: Mapping[str, Any], optional: Collection[str] = ()
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Returns the header and the arrays of an archive, checked.

    Args:
        path: the file.
        kind: kind of the archive, as given to `write`.
        annotations: the keys that its header must have besides the common ones, and their types.
        optional: those that it may leave out.

    Raises:
        FileNotFoundError: if there is no regular file under `path`.
        ArchiveError: for a file that is damaged, crafted, or of another kind or format.
    """
    with _opened(path, kind) as file:
        try:
            reader = container.Reader(file, os.fstat(file.fileno()).st_size)
            header = _header(reader, path, kind)
            fields.check_mapping(header, {**_COMMON, **annotations}, "its header", optional)
            return header, reader.arrays(container.specs_from_json(header["arrays"]))
        except ArchiveError:
            raise
        except Exception as error:  # damaged bytes can raise almost anything
            raise ArchiveError(
                f"{path} is truncated or not a uivi {kind} file ({error}): nothing was changed; restore it "
                "from a copy, or delete it to continue from an older one"
            ) from error


@contextlib.contextmanager
def refusing(path: pathlib.Path) -> Iterator[None]:
    """Turns every error about the contents of `path` into an `ArchiveError` that names the file."""
    try:
        yield
    except Exception as error:
        raise ArchiveError(f"{path} is refused: {error} (nothing was changed)") from error


def write_bytes(path: pathlib.Path, content: bytes) -> None:
    """Replaces `path` by `content` atomically, if it is a regular file or not there.

    The content goes to a new file of unpredictable name in the same directory, is flushed to disk, and takes
    the place of `path`.

    Raises:
        OSError: if the directory cannot be written, or if something other than a regular file is in the way.
    """
    mode = _mode_to_keep(path)
    # Shortened: the temporary name must not be too long for the file system where the final one is not.
    temporary = path.with_name(f".{path.name[:40]}.{os.urandom(16).hex()}.tmp")
    # O_EXCL and O_NOFOLLOW: a file or a link that is there already is neither written nor followed.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o666), "wb") as file:
        try:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            _mode_to_keep(path)  # again: something else may have come into its place
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    _sync_directory(path.parent)


def _mode_to_keep(path: pathlib.Path) -> int | None:
    """Returns the permissions of the file that is replaced, so that a private one stays private."""
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found):
        what = "a symbolic link" if stat.S_ISLNK(found) else "a directory" if stat.S_ISDIR(found) else "special"
        raise FileExistsError(errno.EEXIST, f"it is {what}, and only a regular file is replaced", str(path))
    return found & 0o777


def _sync_directory(directory: pathlib.Path) -> None:
    """Flushes a rename to disk. Not every file system can, and the file is whole without it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _opened(path: pathlib.Path, kind: str) -> Iterator[BinaryIO]:
    missing = FileNotFoundError(f"expected a uivi {kind} file at {path}, found none")
    if not path.is_file():
        raise missing
    # O_NONBLOCK: opening a pipe that took the place of the file would wait for its other end.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise missing
        yield file


def _header(reader: container.Reader, path: pathlib.Path, kind: str) -> dict[str, Any]:
    """Reads the header and checks format and kind, before anything that may differ between formats."""
    if reader.first_name() == "__header__.npy":
        raise _other_format(path, 1)
    text = reader.header_text()
    header = container.from_text(text)
    if not isinstance(header, dict) or type(header.get("format")) is not int:
        raise ValueError("expected a header with the number of its format")
    if header["format"] != FORMAT:
        raise _other_format(path, header["format"])
    if container.to_text(header) != text:
        raise ValueError("its header is not written as uivi writes it")
    if header.get("kind") != kind:
        raise ArchiveError(f"expected a uivi {kind} file, {path} is a {str(header.get('kind'))[:80]} file")
    return header


def _other_format(path: pathlib.Path, number: int) -> ArchiveError:
    advice = (
        "update uivi" if number > FORMAT else "load it with the version of uivi that wrote it, or fit again"
    )
    return ArchiveError(
        f"{path} has format {number}, this uivi reads format {FORMAT}: {advice}; nothing was changed"
    )
