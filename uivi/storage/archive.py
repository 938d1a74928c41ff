"""Files of named arrays with a JSON header: written atomically, checked when read."""

import io
import json
import os
import pathlib
from typing import Any

import numpy as np

FORMAT = 1


class ArchiveError(ValueError):
    """A file that cannot be read as what it should be."""


def write(path: pathlib.Path, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write to a temporary neighbour, flush to disk, then rename: never a half file under `path`."""
    buffer = io.BytesIO()
    text = json.dumps({"format": FORMAT, "arrays": sorted(arrays), **header})
    np.savez(buffer, __header__=np.frombuffer(text.encode(), np.uint8), **arrays)  # type: ignore[arg-type]
    write_bytes(path, buffer.getvalue())


def write_bytes(path: pathlib.Path, content: bytes) -> None:
    """Replace `path` by `content` atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read(path: pathlib.Path, kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a file that `write` made, with a header of the given `kind`."""
    if not path.is_file():
        raise FileNotFoundError(f"expected a uivi {kind} file at {path}, found none")
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop("__header__").tobytes())
    except Exception as error:  # a damaged zip file can raise almost anything
        raise ArchiveError(
            f"{path} is truncated or not a uivi {kind} file ({error}): nothing was changed; restore it "
            "from a copy, or delete it to go on from an older one"
        ) from error
    if header.get("format", 0) > FORMAT:
        raise ArchiveError(
            f"{path} has format {header['format']}, this uivi reads up to {FORMAT}: update uivi; "
            "nothing was changed"
        )
    if header.get("kind") != kind:
        raise ArchiveError(f"expected a uivi {kind} file, {path} is a {header.get('kind')} file")
    if header.get("arrays") != sorted(arrays):
        raise ArchiveError(f"{path} is damaged: its arrays are not those it was written with; restore a copy")
    return header, arrays
