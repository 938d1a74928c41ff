"""Data sets with a few rows in every format, with the readers and the layout of the real ones."""

import dataclasses
import gzip
import hashlib
import io
import struct
import zipfile
from typing import NamedTuple

import numpy as np
import scipy.io

from uivi.datasets import DATASETS, Spec
from uivi.datasets.records import Part, Source

RNG = np.random.default_rng(0)


class Sample(NamedTuple):
    spec: Spec  # with two mirrors, `a` and `b`, for every download
    files: dict[str, bytes]  # below a data directory
    served: dict[str, bytes]  # by a mirror
    arrays: dict[str, np.ndarray]  # what `load` must return


def sha(content) -> str:
    return hashlib.sha256(content if isinstance(content, bytes) else np.ascontiguousarray(content)).hexdigest()


def npz(**arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def idx(array) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def mat(**arrays) -> bytes:
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, arrays)
    return buffer.getvalue()


def zipped(members: dict[str, bytes | str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


def text(rows) -> str:
    return "".join(" ".join(str(value) for value in np.atleast_1d(row)) + "\n" for row in rows)


def images(name: str) -> tuple[dict, dict, dict, dict]:
    raw = {
        "train.x": RNG.integers(0, 256, (6, 4, 4), np.uint8),
        "train.y": RNG.integers(0, 10, 6, np.uint8),
        "test.x": RNG.integers(0, 256, (3, 4, 4), np.uint8),
        "test.y": RNG.integers(0, 10, 3, np.uint8),
    }
    paths = dict(zip(raw, (file.path for file in DATASETS[name].files), strict=True))
    files = {paths[part]: gzip.compress(idx(array)) for part, array in raw.items()}
    served = {path.rpartition("/")[2]: body for path, body in files.items()}
    arrays = {p: a.astype(np.int32) if p.endswith("y") else a.reshape(len(a), -1) for p, a in raw.items()}
    return files, served, arrays, {part: sha(idx(array)) for part, array in raw.items()}


def binarized() -> tuple[dict, dict, dict, dict]:
    sizes = {"train": 5, "valid": 3, "test": 2}
    arrays = {f"{split}.x": RNG.integers(0, 2, (n, 16), np.uint8) for split, n in sizes.items()}
    packed = npz(**{part[:-2]: np.packbits(array, axis=1) for part, array in arrays.items()})
    served = {f"binarized_mnist_{part[:-2]}.amat": text(a).encode() for part, a in arrays.items()}
    files = {"binarized-mnist/binarized_mnist_packed.npz": packed}
    return files, served, arrays, {part: sha(array) for part, array in arrays.items()}


def features(low: int, high: int, dtype) -> dict[str, np.ndarray]:
    return {
        "train.x": RNG.uniform(-1, 1, (6, 7)).astype(dtype),
        "train.y": RNG.integers(low, high + 1, 6),
        "test.x": RNG.uniform(-1, 1, (3, 7)).astype(dtype),
        "test.y": RNG.integers(low, high + 1, 3),
    }


def from_zero(arrays: dict, first: int) -> dict[str, np.ndarray]:
    return {p: (a - first).astype(np.int32) if p.endswith("y") else a for p, a in arrays.items()}


def hapt_members(arrays: dict, prefix: str = "") -> dict[str, str]:
    return {
        f"{prefix}Train/X_train.txt": text(arrays["train.x"]),
        f"{prefix}Train/y_train.txt": text(arrays["train.y"]),
        f"{prefix}Test/X_test.txt": text(arrays["test.x"]),
        f"{prefix}Test/y_test.txt": text(arrays["test.y"]),
        f"{prefix}README.txt": "not data",
    }


def hapt() -> tuple[dict, dict, dict, dict]:
    arrays = features(1, 12, np.float32)
    body = zipped(hapt_members(arrays, "HAPT Data Set/"))
    return {"hapt/hapt.zip": body}, {"hapt.zip": body}, from_zero(arrays, 1), dict.fromkeys(arrays)


def keyed(arrays: dict) -> dict[str, np.ndarray]:
    return {f"{'X' if part.endswith('x') else 'y'}_{part[:-2]}": array for part, array in arrays.items()}


def recomputed() -> tuple[dict, dict, dict, dict]:
    arrays = features(1, 12, np.float32)
    arrays = {part: a.astype(np.int8) if part.endswith("y") else a for part, a in arrays.items()}
    hashes = {part: sha(array) for part, array in arrays.items()}
    return {"hapt/hapt_recomputed.npz": npz(**keyed(arrays))}, {}, from_zero(arrays, 1), hashes


def waveform() -> tuple[dict, dict, dict, dict]:
    arrays = features(0, 1, np.float64)
    body = mat(**keyed({p: a.astype(np.uint8)[None] if p.endswith("y") else a for p, a in arrays.items()}))
    hashes = {part: sha(array.astype(np.float64)) for part, array in arrays.items()}
    return {"waveform/waveform.mat": body}, {"waveform.mat": body}, from_zero(arrays, 0), hashes


def table(path: str) -> tuple[dict, dict, dict, dict]:
    rows = np.round(RNG.uniform(-1, 1, (12, 4)), 2)
    x, y, order = rows[:, :-1], rows[:, -1], np.random.RandomState(0).permutation(12)
    titled = "a,b,c,d\n" + "".join(",".join(map(str, row)) + "\n" for row in np.column_stack([y, x]))
    body = {"xls": lambda: xls(rows), "csv": titled.encode}.get(path[-3:], text(rows).encode)()
    splits = {"train": order[1:], "test": order[:1]}
    arrays = {f"{name}.x": x[part] for name, part in splits.items()}
    arrays |= {f"{name}.y": y[part] for name, part in splits.items()}
    hashes = {part: sha(array) for part, array in arrays.items()}
    served = {"housing.data" if "boston" in path else path.rpartition("/")[2]: body}
    return {path: body}, served, arrays, hashes


def xls(rows) -> bytes:
    """An Excel file: a directory, then a table of sectors, then the workbook, with a second sheet at its end.

    The first columns are numbers in full, the next one in short form, and the last two in one record.
    """
    record = lambda kind, *parts: struct.pack("<HH", kind, sum(map(len, parts))) + b"".join(parts)
    short = lambda value: struct.pack("<i", round(100 * value) << 2 | 3)
    begin, end, stream = record(0x809, bytes(16)), record(0x0A), b""
    for i, row in enumerate(rows, 1):
        *full, third, second, first = row
        for j, value in enumerate(full):
            stream += record(0x203, struct.pack("<HHHd", i, j, 0, value))
        j = len(full)
        stream += record(0x27E, struct.pack("<HHH", i, j, 0), short(third))
        pair = b"".join(struct.pack("<H", 0) + short(value) for value in (second, first))
        stream += record(0xBD, struct.pack("<HH", i, j + 1), pair, struct.pack("<H", j + 2))
    title = record(0xFD, struct.pack("<HHHI", 0, 0, 0, 0))
    other = begin + record(0x203, struct.pack("<HHHd", 99, 0, 0, 1.0)) + end
    stream = (begin + end + begin + title + stream + end + other).ljust(9 * 512, b"\0")
    name = "Workbook".encode("utf-16-le") + b"\0\0"
    entry = (
        name.ljust(64, b"\0")
        + struct.pack("<H", len(name))
        + bytes(50)
        + struct.pack("<IIQ", 2, len(stream), 0)
    )
    last, of_table, free = 0xFFFFFFFE, 0xFFFFFFFD, 0xFFFFFFFF
    places = [last, of_table, *range(3, 11), last]
    table = struct.pack("<128I", *places, *[free] * (128 - len(places)))
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".ljust(30, b"\0") + struct.pack("<H", 9) + bytes(16)
    head += struct.pack("<I", 0).ljust(28, b"\0") + struct.pack("<109I", 1, *[free] * 108)
    return head + entry.ljust(512, b"\0") + table + stream


def labelled(path: str, kind: str = "csv") -> tuple[dict, dict, dict, dict]:
    """A table with classes: the class is in the last column, or behind a row number."""
    x = np.round(RNG.uniform(-1, 1, (6, 4)), 3).astype(np.float32)
    y = np.arange(6, dtype=np.int32) % 2
    names = {"csv": ("-1", "1"), "sonar": ("-1", "1"), "german": ("2", "1"), "wdbc": ("1", "0")}[kind]
    cells = [[f"{value:.3f}" for value in row] for row in x]
    order = (
        (lambda n, row, name: [str(n), name, *row]) if kind == "wdbc" else (lambda n, row, name: [*row, name])
    )
    rows = [order(n, row, names[label]) for n, (row, label) in enumerate(zip(cells, y, strict=True))]
    body = "".join((" " if kind in ("german", "wdbc") else ",").join(row) + "\n" for row in rows).encode()
    served = {{"csv": "ionosphere.data", "wdbc": "wdbc.data"}.get(kind, path.rpartition("/")[2]): body}
    if kind == "sonar":
        sparse = [" ".join(f"{i}:{cell}" for i, cell in enumerate(row, 1)) for row in cells]
        lines = [f"{names[label]} {row}\n" for label, row in zip(y, sparse, strict=True)]
        served = {"sonar_scale": "".join(lines).encode()}
    arrays = {"train.x": x, "train.y": y}
    return {path: body}, served, arrays, {part: sha(array) for part, array in arrays.items()}


def points() -> tuple[dict, dict, dict, dict]:
    places = np.round(RNG.uniform(0, 1, (5, 2)), 4)
    rows = [f'"{n}",{x},{y}\n' for n, (x, y) in enumerate(places.tolist(), 1)]
    body = "".join(['"","data_x","data_y"\n', *rows]).encode()
    arrays = {"train.x": places}
    return {"samplers/pines.csv": body}, {"pines.csv": body}, arrays, {"train.x": sha(places)}


MAKERS = {
    "mnist": lambda: images("mnist"),
    "fashion-mnist": lambda: images("fashion-mnist"),
    "binarized-mnist": binarized,
    "hapt": hapt,
    "hapt-recomputed": recomputed,
    "waveform": waveform,
    "yacht": lambda: table("uci/yacht_hydrodynamics.data"),
    "boston": lambda: table("uci/boston_housing.txt"),
    "concrete": lambda: table("uci/Concrete_Data.xls"),
    "protein": lambda: table("uci/CASP.csv"),
    "ionosphere": lambda: labelled("samplers/ionosphere.csv"),
    "sonar": lambda: labelled("samplers/sonar.csv", "sonar"),
    "german-credit": lambda: labelled("samplers/german.data-numeric", "german"),
    "breast-cancer": lambda: labelled("samplers/breast_cancer.data", "wdbc"),
    "pines": points,
}


def sample(name: str, base: str = "http://127.0.0.1:9") -> Sample:
    """Returns a small version of a data set: same files and readers, other shapes, checksums and mirrors."""
    files, served, arrays, hashes = MAKERS[name]()
    parts = {part: Part(array.shape, hashes[part]) for part, array in arrays.items()}
    if name == "hapt":  # its labels are known by their counts only
        parts |= {
            part: Part(array.shape, None, tuple(np.bincount(array, minlength=12).tolist()))
            for part, array in arrays.items()
            if part.endswith("y")
        }

    def mirrors(source: Source, path: str) -> tuple[str, ...]:
        filename = path.rpartition("/")[2] if name == "hapt" else source.urls[0].rpartition("/")[2]
        return tuple(f"{base}/{mirror}/{filename}" for mirror in "ab")

    small = tuple(
        dataclasses.replace(
            file,
            parts={part: parts[part] for part in file.parts},
            sources=tuple(
                Source(
                    mirrors(source, file.path), source.read, {part: parts[part] for part in source.parts}, 10**5
                )
                for source in file.sources
            ),
        )
        for file in DATASETS[name].files
    )
    return Sample(dataclasses.replace(DATASETS[name], files=small), files, served, arrays)
