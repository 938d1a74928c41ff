"""One reader per file format, which turns bytes into named arrays.

A reader may raise any exception on malformed bytes. `parse` turns it into a `DataError`.
"""

import gzip
import hashlib
import io
import math
import struct
import zipfile
from collections.abc import Mapping

import numpy as np

from uivi.datasets.records import Content, DataError, Part, Reader
from uivi.datasets.spreadsheet import numbers

HAPT_CLASSES = 12
MOST_BYTES = 2**28
"""Size beyond which a compressed file is not unpacked further. The largest one that we know has 80 MB."""
KEYS = {"train.x": "X_train", "train.y": "y_train", "test.x": "X_test", "test.y": "y_test"}
"""Names of the arrays inside the files of HAPT and waveform."""


def parse(read: Reader, parts: Mapping[str, Part], raw: bytes) -> dict[str, np.ndarray]:
    """Reads the arrays of a file and checks their shapes and checksums.

    Raises:
        DataError: if the bytes cannot be read or an array is missing or wrong.
    """
    try:
        found = read(raw)
    except Exception as error:  # corrupt gzip, zip, npz and mat files raise almost anything
        raise DataError(f"cannot be read: {error or type(error).__name__}") from error
    if missing := sorted(set(parts) - set(found)):
        raise DataError(f"expected the arrays {', '.join(sorted(parts))}, but {', '.join(missing)} is missing")
    for name, part in parts.items():
        _check(name, part, found[name])
    return {name: found[name].array for name in parts}


def _check(name: str, part: Part, content: Content) -> None:
    if content.array.shape != part.shape:
        raise DataError(f"expected {name} of shape {part.shape}, got {content.array.shape}")
    actual = hashlib.sha256(content.hashed).hexdigest()
    if part.sha256 is not None and actual != part.sha256:
        raise DataError(f"expected {name} with SHA256 {part.sha256[:12]}…, got {actual[:12]}…")
    if part.counts is not None:
        counts = tuple(np.bincount(content.array, minlength=len(part.counts)).tolist())
        if counts != part.counts:
            raise DataError(f"expected {name} with classes of {part.counts} rows, got {counts}")


def idx(name: str, raw: bytes) -> dict[str, Content]:
    """Reads a gzipped idx file of unsigned bytes: images, one per row, or labels."""
    with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
        data = file.read(MOST_BYTES + 1)
        _check_size(len(data))
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError(f"expected an idx file of unsigned bytes (00 00 08), got magic {data[:4].hex(' ')!r}")
    start = 4 + 4 * data[3]
    dims = struct.unpack(f">{data[3]}I", data[4:start])
    if len(data) - start != math.prod(dims):
        raise ValueError(f"expected {math.prod(dims)} bytes for idx dimensions {dims}, got {len(data) - start}")
    array = np.frombuffer(data, np.uint8, offset=start)
    shaped = array.astype(np.int32) if len(dims) == 1 else array.reshape(dims[0], -1).copy()
    return {name: Content(shaped, data)}


def packed_npz(raw: bytes) -> dict[str, Content]:
    """Reads an npz file with one bit-packed array per split."""
    arrays = _npz(raw)
    return {f"{split}.x": _plain(np.unpackbits(packed, axis=1)) for split, packed in arrays.items()}


def pack_npz(arrays: dict[str, np.ndarray]) -> bytes:
    """Makes the file that `packed_npz` reads."""
    buffer = io.BytesIO()
    packed = {name.removesuffix(".x"): np.packbits(array, axis=1) for name, array in arrays.items()}
    np.savez_compressed(buffer, **packed)  # type: ignore[arg-type]
    return buffer.getvalue()


def amat(name: str, raw: bytes) -> dict[str, Content]:
    """Reads Larochelle's text files: one image per line, pixels 0 or 1 separated by blanks."""
    data = np.frombuffer(raw, np.uint8)
    allowed = np.zeros(256, bool)
    allowed[list(b"01 \t\r\n")] = True
    if not allowed[data].all():
        raise ValueError("expected lines of 0 and 1, got other characters")
    digits = data[(data == ord("0")) | (data == ord("1"))] - np.uint8(ord("0"))
    rows = sum(1 for line in raw.splitlines() if line.strip())
    if rows == 0 or digits.size % rows:
        raise ValueError(f"expected lines of equal length, got {digits.size} pixels on {rows} lines")
    return {name: _plain(digits.reshape(rows, -1))}


def hapt_zip(raw: bytes) -> dict[str, Content]:
    """Reads UCI's archive of HAPT: text files below Train/ and Test/ at any depth, or a zip that holds them."""
    with zipfile.ZipFile(io.BytesIO(raw)) as file:
        names = file.namelist()
        inner = [name for name in names if name.endswith(".zip")]
        if inner and not any(name.endswith("X_train.txt") for name in names):
            _check_size(file.getinfo(inner[0]).file_size)
            return hapt_zip(file.read(inner[0]))
        found = {}
        for part, key in KEYS.items():
            member = f"{part.partition('.')[0].title()}/{key}.txt"
            if matches := [name for name in names if f"/{name}".endswith(f"/{member}")]:
                _check_size(file.getinfo(matches[0]).file_size)
                with file.open(matches[0]) as opened, io.TextIOWrapper(opened, "ascii") as text:
                    found[part] = np.loadtxt(text, np.int64 if part.endswith("y") else np.float32)
    return _hapt(found)


def hapt_npz(raw: bytes) -> dict[str, Content]:
    """Reads the npz file with the recomputed features."""
    arrays = _npz(raw)
    return _hapt({part: arrays[key] for part, key in KEYS.items() if key in arrays})


def waveform_mat(raw: bytes) -> dict[str, Content]:
    """Reads the SIVI authors' MATLAB file. Checksums cover each array as float64 in row order."""
    import scipy.io  # here, because few data sets need it

    file = scipy.io.loadmat(io.BytesIO(raw), variable_names=list(KEYS.values()))
    arrays = {part: np.array(file[key], np.float64, order="C") for part, key in KEYS.items() if key in file}
    return {
        part: Content(_labels(array.ravel(), 0, 1) if part.endswith("y") else array, array.data)
        for part, array in arrays.items()
    }


def table(raw: bytes) -> dict[str, Content]:
    """Reads a table of UCI: a line of numbers for each row, the value to predict in the last column."""
    if not raw.strip():
        raise ValueError("expected lines of numbers, got an empty file")
    rows = np.loadtxt(io.StringIO(raw.decode("ascii")), np.float64, comments=None, ndmin=2)
    return _with_test_rows(rows[:, :-1], rows[:, -1])


def titled_table(raw: bytes) -> dict[str, Content]:
    """Reads a table with commas below a line of titles, the value to predict in the first column."""
    text = io.StringIO(raw.decode("ascii"))
    rows = np.loadtxt(text, np.float64, comments=None, delimiter=",", skiprows=1, ndmin=2)
    return _with_test_rows(rows[:, 1:], rows[:, 0])


def spreadsheet(raw: bytes) -> dict[str, Content]:
    """Reads a table from an old Excel file, the value to predict in the last column."""
    rows = numbers(raw)
    return _with_test_rows(rows[:, :-1], rows[:, -1])


def classes(names: Mapping[str, int], column: int, first: int, raw: bytes) -> dict[str, Content]:
    """Reads a table of numbers with a class in one column. Commas or blanks separate the columns.

    Args:
        names: number of each class by its name in the file.
        column: place of the class; -1 for the last column.
        first: place of the first feature; the columns before it are not features.
        raw: content of the file.
    """
    rows = [line.replace(",", " ").split() for line in raw.decode("ascii").splitlines() if line.strip()]
    if not rows:
        raise ValueError("expected lines of numbers, got an empty file")
    labels = [row.pop(column) for row in rows]
    if unknown := sorted(set(labels) - set(names)):
        raise ValueError(f"expected the classes {', '.join(names)}, got {unknown[0]}")
    return _with_classes([row[first:] for row in rows], [names[label] for label in labels])


def libsvm(raw: bytes) -> dict[str, Content]:
    """Reads a file in the format of LIBSVM: the class, 1 or -1, then each feature as number:value."""
    lines = [line.split() for line in raw.decode("ascii").splitlines() if line.strip()]
    if not lines:
        raise ValueError("expected lines of numbers, got an empty file")
    # Zeros are left out.
    filled = [
        {int(number): value for number, _, value in (c.partition(":") for c in line[1:])} for line in lines
    ]
    size = max(max(row) for row in filled)
    rows = [[row.get(number, "0") for number in range(1, size + 1)] for row in filled]
    return _with_classes(rows, [{"1": 1, "+1": 1, "-1": 0}[line[0]] for line in lines])


def pack_classes(arrays: dict[str, np.ndarray]) -> bytes:
    """Makes a file that `classes` reads: the class, 1 or -1, is in the last column."""
    pairs = zip(arrays["train.x"], arrays["train.y"], strict=True)
    lines = [",".join([*(f"{value:.9g}" for value in x), "1" if y else "-1"]) for x, y in pairs]
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def points(raw: bytes) -> dict[str, Content]:
    """Reads points of the plane: a line of titles, then a name and two numbers on each line."""
    rows = np.loadtxt(
        io.StringIO(raw.decode("ascii")),
        np.float64,
        comments=None,
        delimiter=",",
        skiprows=1,
        usecols=(1, 2),
        ndmin=2,
    )
    return {"train.x": _plain(_finite(rows))}


def _with_test_rows(x: np.ndarray, y: np.ndarray) -> dict[str, Content]:
    """Splits a table: a tenth of the rows, by a fixed permutation, are test rows. UCI has no split for them."""
    # NumPy's legacy generator is the one that never changes between releases.
    order = np.random.RandomState(0).permutation(len(x))
    size = max(1, round(len(x) / 10))
    found = {}
    for name, rows in (("train", order[size:]), ("test", order[:size])):
        found |= {f"{name}.x": _plain(_finite(x[rows])), f"{name}.y": _plain(_finite(y[rows]))}
    return found


def _with_classes(rows: list[list[str]], labels: list[int]) -> dict[str, Content]:
    # In float32: files that give the same numbers with more or fewer digits are then the same.
    features = _finite(np.array(rows, np.float64)).astype(np.float32)
    return {"train.x": _plain(features), "train.y": _plain(np.array(labels, np.int32))}


def _finite(rows: np.ndarray) -> np.ndarray:
    if not np.isfinite(rows).all():
        raise ValueError("expected finite numbers, got others")
    return rows


def _npz(raw: bytes) -> dict[str, np.ndarray]:
    try:
        with np.load(io.BytesIO(raw), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except ValueError as error:
        # NumPy takes all that it does not know for a pickle, and advises to allow pickles. We never do.
        if "pickle" not in str(error):
            raise
        raise ValueError("expected an npz file of numbers, got something else") from None


def _check_size(num_bytes: int) -> None:
    if num_bytes > MOST_BYTES:
        raise ValueError(f"expected at most {MOST_BYTES:,} bytes when unpacked, got more")


def _plain(array: np.ndarray) -> Content:
    array = np.ascontiguousarray(array)
    return Content(array, array.data)


def _hapt(arrays: dict[str, np.ndarray]) -> dict[str, Content]:
    found = {part: _plain(array) for part, array in arrays.items()}
    for part, (array, hashed) in found.items():
        if part.endswith("y"):
            found[part] = Content(_labels(array, 1, HAPT_CLASSES), hashed)
        elif array.dtype != np.float32 or not (np.abs(array) <= 1 + 1e-6).all():  # NaN fails the comparison
            raise ValueError(f"expected finite float32 features in -1..1 as {part}, got other values")
    return found


def _labels(values: np.ndarray, first: int, last: int) -> np.ndarray:
    if not np.isin(values, np.arange(first, last + 1)).all():
        raise ValueError(f"expected integer labels {first}..{last}, got other values")
    return values.astype(np.int32) - np.int32(first)
