"""Zip files and headers that are not as uivi writes them: refused before anything in them is expanded."""

import contextlib
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

from tests.storage.crafted import around, header_text
from uivi.storage import archive, container


def read(path):
    return archive.read(path, "posterior", {"note": list})


DEEP = b"[" * 200_000 + b"]" * 200_000
SPEC = ["float32", [2]]
HEADERS = {
    "no json": (b"hello", "Expecting value"),
    "no dictionary": (b"[]", "number of its format"),
    "no format": (b"{}", "number of its format"),
    "a list": (b"[]", "number of its format"),
    "null": (b"null", "number of its format"),
    "a format that is text": (header_text(format="2"), "number of its format"),
    "a format that is true": (header_text(format=True), "number of its format"),
    "a format that is 2.0": (header_text(format=2.0), "number of its format"),
    "a kind that is a list": (header_text(kind=["posterior"]), "is a .* file"),
    "not in ascii": (
        header_text(note=["é"]).replace(b"\\u00e9", "é".encode()),
        "not written as uivi writes it",
    ),
    "spaces": (header_text() + b" ", "not written as uivi writes it"),
    "a key twice": (header_text().replace(b'"note":[]', b'"note":[],"note":[1]'), "not written as uivi"),
    "a number of many digits": (header_text().replace(b"[]}", b"[" + b"9" * 5_000 + b"]}"), "at most 64 bits"),
    "a number beyond 64 bits": (header_text(note=[2**64]), "at most 64 bits"),
    "a deep list": (header_text().replace(b"[]}", DEEP + b"}"), "nested at most 100 deep"),
    "a deep list after text": (b'{"\\\\\\"":"[",' + b'"a":' + DEEP + b"}", "nested at most 100 deep"),
    "a list of arrays that is none": (header_text(arrays={}), "'arrays' in its header to be list"),
    "an array that is none": (header_text(arrays=[1]), r"expected \[dtype, shape\] of an array"),
    "an array of objects": (header_text(arrays=[["object", [1]]]), "expected an array of bool"),
    "an array of a dtype that is a list": (header_text(arrays=[[["f4"], [1]]]), "expected an array of bool"),
    "an array of records": (header_text(arrays=[["V8", [1]]]), "expected an array of bool"),
    "an array of complex numbers": (header_text(arrays=[["complex64", [1]]]), "expected an array of bool"),
    "an array of size -1": (header_text(arrays=[["float32", [-1]]]), "a shape of whole numbers"),
    "an array of size true": (header_text(arrays=[["float32", [True]]]), "a shape of whole numbers"),
    "an array of size 1.0": (header_text(arrays=[["float32", [1.0]]]), "a shape of whole numbers"),
    "an array of 40 axes": (header_text(arrays=[["float32", [1] * 40]]), r"expected \[dtype, shape\]"),
    "a large array that is not there": (
        header_text(arrays=[["float32", [2**30]]]),
        "needs a file of 4,294,967",
    ),
    "a huge array that is not there": (header_text(arrays=[["float32", [2**30, 2**30]]]), "needs a file of"),
    "an array that is not there": (header_text(arrays=[SPEC]), "needs a file of"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_crafted_headers_are_refused(name, tmp_path):
    text, message = HEADERS[name]
    with pytest.raises(archive.ArchiveError, match=message):
        read(around(tmp_path / "file", text))


def npy(array, spec=None):
    spec = container.spec_of(array) if spec is None else container.Spec(*spec)
    return spec.prefix + array.tobytes()


TWO = np.ones(2, np.float32)


@pytest.mark.parametrize(
    ("specs", "members", "message"),
    [
        ([SPEC], [("array_1.npy", npy(TWO))], "array_0.npy is not there"),
        ([SPEC], [("../ar_0.npy", npy(TWO))], "array_0.npy is not there"),
        ([SPEC], [("array_0.npy", npy(TWO, ("float32", (1_000_000,))))], "needs a file|array 0 is not float32"),
        (
            [SPEC],
            [("array_0.npy", npy(TWO, ("int32", (2,))))],
            r"array 0 is not float32\[2\], as its header says",
        ),
        ([SPEC], [("array_0.npy", npy(TWO, ("float32", (1, 2))))], "array 0 is not float32"),
        ([SPEC], [("array_0.npy", npy(TWO)), ("array_1.npy", npy(TWO))], "needs a file"),
        ([SPEC, SPEC], [("array_0.npy", npy(TWO)), ("array_0.npy", npy(TWO))], "array_1.npy is not there"),
        ([], [("header.json", header_text())], "needs a file"),
    ],
)
def test_crafted_members_are_refused(specs, members, message, tmp_path):
    path = around(tmp_path / "file", header_text(arrays=specs), members)
    with pytest.raises(archive.ArchiveError, match=message):
        read(path)


def compressed(path):
    """A thousand times its size in zeros, as NumPy itself would write and read them."""
    spec = container.Spec("float32", (75_000_000,))
    text = header_text(arrays=[["float32", [75_000_000]]])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("header.json", text)
        with file.open("array_0.npy", "w") as member:
            member.write(spec.prefix)
            for _ in range(30):
                member.write(bytes(10_000_000))


def compressed_header(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("header.json", header_text(note=["a" * 50_000_000]))


def overlapping(path):
    """Two entries of the directory that share one member."""
    around(path, header_text(arrays=[SPEC, SPEC]), [("array_0.npy", npy(TWO))])
    whole = path.read_bytes()
    entry = whole[whole.index(b"PK\x01\x02", 200) :].partition(b"PK\x05\x06")[0]
    path.write_bytes(whole.replace(b"PK\x05\x06", entry + b"PK\x05\x06"))


def unmatched_directory(path):
    """The directory calls the header by another name."""
    around(path, header_text())
    whole = path.read_bytes()
    cut = whole.rindex(b"header.json")
    path.write_bytes(whole[:cut] + b"hea/er.json" + whole[cut + 11 :])


def trailing(path):
    around(path, header_text())
    path.write_bytes(path.read_bytes() + b"PK")


def leading(path):
    around(path, header_text())
    path.write_bytes(b"#!/bin/sh\n" + path.read_bytes())


def flagged(path):
    """An encrypted member, by its flag."""
    around(path, header_text())
    whole = bytearray(path.read_bytes())
    whole[6] = 1
    path.write_bytes(whole)


def of_a_huge_header(path):
    """The header claims to have 4 GB."""
    around(path, header_text())
    whole = path.read_bytes()
    path.write_bytes(whole[:18] + struct.pack("<2I", 2**32 - 2, 2**32 - 2) + whole[26:])


def sparse(path):
    """A terabyte that takes no room on the disk."""
    with path.open("wb") as file:
        file.truncate(2**40)


@pytest.mark.parametrize(
    "make",
    [
        compressed, compressed_header, overlapping, unmatched_directory, trailing, leading, flagged,
        of_a_huge_header, sparse,
    ],
)  # fmt: skip
def test_other_zip_files_are_refused_before_anything_is_expanded(make, tmp_path, monkeypatch):
    make(tmp_path / "file")
    monkeypatch.setattr(container, "zlib", zlib_that_only_sums())
    with limited_memory(), pytest.raises(archive.ArchiveError, match="truncated or not a uivi posterior file"):
        read(tmp_path / "file")


def zlib_that_only_sums():
    class Sums:
        crc32 = staticmethod(zlib.crc32)

    return Sums


@contextlib.contextmanager
def limited_memory():
    """Fails if Python allocates more than 10 MB."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        ("MOST_HEADER", header_text(note=["a" * 1_000])),
        ("MOST_VALUES", header_text(note=[0] * 1_000)),
        ("MOST_VALUES", header_text(note=[""] * 1_000)),
        ("MOST_VALUES", header_text(note=[{}] * 1_000)),
        ("MOST_BYTES", header_text(note=["a" * 1_000])),
    ],
)
def test_the_size_of_a_header_is_bounded_before_it_is_parsed(limit, text, tmp_path, monkeypatch):
    path = around(tmp_path / "file", text)
    read(path)
    monkeypatch.setattr(container, limit, 200)
    monkeypatch.setattr(container.json, "loads", None)
    with pytest.raises(archive.ArchiveError, match=r"(at most 200 |, got )"):
        read(path)


@pytest.mark.parametrize(
    ("limit", "value", "note", "arrays", "message"),
    [
        ("MOST_HEADER", 200, ["a" * 1_000], [], "a header of at most 200 bytes, got 1,"),
        ("MOST_VALUES", 200, [0] * 1_000, [], "a header of at most 200 values, got 1,"),
        ("MOST_DEPTH", 3, [[[[]]]], [], "nested at most 3 deep"),
        ("MOST_BYTES", 2_000, [], [np.zeros(1_000)], "a file of at most 2,000 bytes, got 8,"),
        ("MOST_ARRAYS", 2, [], [TWO] * 3, "at most 2 arrays in a file, got 3"),
        ("MOST_ARRAYS", 2, [], [np.zeros(1, object)], "expected an array of .*, got object"),
        ("MOST_ARRAYS", 2, [], [np.zeros(1, complex)], "expected an array of .*, got complex128"),
    ],
)
def test_what_could_not_be_read_is_not_written(limit, value, note, arrays, message, tmp_path, monkeypatch):
    monkeypatch.setattr(container, limit, value)
    with pytest.raises(ValueError, match=message):
        archive.write(tmp_path / "file", "posterior", {"note": note}, arrays)
    assert not list(tmp_path.iterdir())
