"""Locations of the files: the user's data directory first, then the cache, then the network."""

import errno
import os
import pathlib
from functools import partial

import numpy as np

from uivi.datasets.download import download
from uivi.datasets.formats import parse
from uivi.datasets.records import DataError, File, Source, Spec
from uivi.storage import archive


def data_directory() -> pathlib.Path | None:
    """Returns the directory that UIVI_DATA names, or None if it is not set. It is never written to."""
    text = os.environ.get("UIVI_DATA")
    if not text:
        return None
    path = pathlib.Path(text).expanduser()
    if not path.is_dir():
        raise DataError(f"expected UIVI_DATA to be a directory, got {text!r}: correct or unset it")
    return path


def cache_directory() -> pathlib.Path:
    """Returns the directory for downloads: UIVI_CACHE, or XDG_CACHE_HOME/uivi, or ~/.cache/uivi."""
    if own := os.environ.get("UIVI_CACHE"):
        return pathlib.Path(own).expanduser()
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "uivi"


def find(file: File) -> pathlib.Path | None:
    """Returns the first path where the file exists, or None. The file is not read."""
    for root in (data_directory(), cache_directory()):
        if root is not None and (root / file.path).is_file():
            return root / file.path
    return None


def read(spec: Spec, file: File, path: pathlib.Path) -> dict[str, np.ndarray]:
    """Reads a file on disk and checks its arrays."""
    try:
        return parse(file.read, file.parts, path.read_bytes())
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except DataError as error:
        remedy = (
            f"delete it and run `uivi data get {spec.name}`"
            if file.sources
            else "restore it from a copy, since it has no public source"
        )
        raise DataError(f"{path} of data set {spec.name!r} is corrupt: {error}: {remedy}") from error


def missing(spec: Spec, file: File) -> DataError:
    """Returns the error for a file that was not found."""
    given = data_directory()
    where = f"UIVI_DATA ({'not set' if given is None else given}) or the cache {cache_directory()}"
    remedy = (
        f"set UIVI_DATA to a directory that holds it, or run `uivi data get {spec.name}`"
        if file.sources
        else "set UIVI_DATA to a directory that holds it"
    )
    note = "" if file.sources else f" ({spec.description})"
    return DataError(f"expected {file.path} of data set {spec.name!r}{note} in {where}, found none: {remedy}")


def get(spec: Spec, file: File, *, progress: bool) -> tuple[pathlib.Path, dict[str, np.ndarray]]:
    """Downloads a file and checks its content. Only then is it written to the cache."""
    if not file.sources:
        raise missing(spec, file)
    arrays: dict[str, np.ndarray] = {}
    raw = b""
    for source in file.sources:
        try:
            raw, found = download(
                source.urls,
                file.path,
                partial(_accept, source),
                most_bytes=source.most_bytes,
                progress=progress,
            )
        except DataError as error:
            raise DataError(
                f"could not download {file.path} of data set {spec.name!r}: {error}: check the network and "
                f"run `uivi data get {spec.name}` again, or set UIVI_DATA to a directory that holds the file"
            ) from error
        arrays |= found
    path = cache_directory() / file.path
    _write(path, raw if file.pack is None else file.pack(arrays))
    return path, arrays


def _accept(source: Source, raw: bytes) -> tuple[bytes, dict[str, np.ndarray]]:
    return raw, parse(source.read, source.parts, raw)


def _write(path: pathlib.Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        archive.write_bytes(path, content)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = f"free {len(content) / 2**20:.1f} MiB there" if full else "make it writable"
        raise DataError(
            f"cannot write {path}: {error.strerror or error}: {remedy}, or set UIVI_CACHE to another "
            "directory; no partial file was left behind"
        ) from error
