"""Archives that are whole or refused."""

import json
import os
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from tests.storage import crafted
from uivi.storage import archive

ARRAYS = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.array(7, np.int8),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array([True, False]),
    np.asarray(jnp.array([1.5, -2.0], jnp.bfloat16)),
    np.zeros((0, 4), np.uint64),
    np.arange(3, dtype=">f8"),
]
NOTE = [1, None, "é", float("inf"), '\\"[[']


def read(path):
    return archive.read(path, "posterior", {"note": list})


@pytest.fixture
def path(tmp_path):
    """A good file."""
    path = tmp_path / "file.uivi"
    archive.write(path, "posterior", {"note": NOTE}, ARRAYS)
    return path


def test_round_trip(path):
    header, arrays = read(path)
    assert (header["format"], header["kind"], header["note"]) == (archive.FORMAT, "posterior", NOTE)
    for found, array in zip(arrays, ARRAYS, strict=True):
        assert found.dtype == array.dtype.newbyteorder("=")
        assert np.array_equal(found, array)
    assert [p.name for p in path.parent.iterdir()] == ["file.uivi"]


def test_the_same_contents_are_the_same_bytes(path, tmp_path):
    archive.write(tmp_path / "again", "posterior", {"note": NOTE}, ARRAYS)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_an_archive_is_an_ordinary_npz_file(path):
    with np.load(path) as file:
        assert json.loads(file["header.json"])["note"] == NOTE
        assert np.array_equal(file["array_0"], ARRAYS[0])
        assert np.array_equal(file["array_2"], ARRAYS[2])
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        assert len(file.namelist()) == len(ARRAYS) + 1


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="expected a uivi posterior file at .*, found none"):
        read(tmp_path / "none")


def test_every_truncation_is_refused(path):
    whole = path.read_bytes()
    for size in [*range(0, len(whole), 23), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(archive.ArchiveError, match="truncated or not a uivi posterior file"):
            read(path)
        assert path.read_bytes() == whole[:size]


def test_every_flipped_bit_is_refused(tmp_path):
    path = tmp_path / "file.uivi"
    archive.write(path, "posterior", {"note": NOTE}, ARRAYS[:1])
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x11
        path.write_bytes(damaged)
        with pytest.raises(archive.ArchiveError):
            read(path)


def other_files(path, content):
    with path.open("wb") as file:
        if content == "npy":
            np.save(file, np.zeros(3))
        elif content == "npz":
            np.savez(file, x=np.zeros(3))
        elif content == "pickle":
            np.save(file, np.array([{}], dtype=object), allow_pickle=True)
        else:
            file.write(content)


@pytest.mark.parametrize(
    "content",
    [b"", b"hello, world\n" * 20, "npz", "npy", "pickle"],
    ids=["empty", "text", "npz", "npy", "pickle"],
)
def test_other_files_are_refused(tmp_path, content):
    other_files(tmp_path / "other", content)
    with pytest.raises(archive.ArchiveError, match="truncated or not a uivi posterior file") as refused:
        read(tmp_path / "other")
    assert "pickle" not in str(refused.value)
    assert "unpack" not in str(refused.value)  # words of Python's modules help nobody


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda p: p.symlink_to("/dev/zero")])
def test_only_regular_files_are_opened(tmp_path, make):
    make(tmp_path / "special")
    with pytest.raises(FileNotFoundError, match="expected a uivi posterior file"):
        read(tmp_path / "special")


def test_another_kind_is_refused(path):
    with pytest.raises(archive.ArchiveError, match="expected a uivi checkpoint file, .* is a posterior file"):
        archive.read(path, "checkpoint", {"note": list})


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({}, "'note' unknown"),
        ({"note": list, "more": int}, "more missing"),
        ({"note": list[int]}, r"'note' in its header to be list\[int\], got list \[1, None"),
    ],
)
def test_the_keys_of_the_header_are_compared(path, annotations, message):
    with pytest.raises(archive.ArchiveError, match=message):
        archive.read(path, "posterior", annotations)


def test_a_newer_format_is_refused(tmp_path):
    path = crafted.around(tmp_path / "new", b'{"format": 3, "of": "the future"}')
    with pytest.raises(
        archive.ArchiveError, match="has format 3, this uivi reads format 2: update uivi; nothing"
    ):
        read(path)


def test_a_file_of_format_1_is_refused():
    """The file was written by the code before format 2."""
    before = (crafted.FILES / "format-1.npz").read_bytes()
    with pytest.raises(
        uivi.storage.ArchiveError,
        match="has format 1, this uivi reads format 2: load it with the version .* that wrote it, or fit again",
    ):
        uivi.load(crafted.FILES / "format-1.npz")
    assert (crafted.FILES / "format-1.npz").read_bytes() == before
