"""Files that are whole or refused."""

import json

import numpy as np
import pytest

from uivi.storage import archive

ARRAYS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array(7, np.int8)}


@pytest.fixture
def path(tmp_path):
    """A good file."""
    path = tmp_path / "file.uivi"
    archive.write(path, {"kind": "posterior", "note": [1, None, "é"]}, ARRAYS)
    return path


def test_round_trip(path):
    header, arrays = archive.read(path, "posterior")
    assert (header["format"], header["kind"]) == (archive.FORMAT, "posterior")
    assert header["note"] == [1, None, "é"]
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert np.array_equal(arrays[name], array)
    assert [p.name for p in path.parent.iterdir()] == ["file.uivi"]


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="expected a uivi posterior file at .*, found none"):
        archive.read(tmp_path / "none", "posterior")


def test_every_truncation_is_refused(path):
    whole = path.read_bytes()
    for size in [*range(0, len(whole), 23), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(archive.ArchiveError, match="truncated or not a uivi posterior file"):
            archive.read(path, "posterior")
        assert path.read_bytes() == whole[:size]


def test_a_flipped_bit_is_refused_or_harmless(path):
    whole = path.read_bytes()
    expected = archive.read(path, "posterior")
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x11
        path.write_bytes(damaged)
        try:
            header, arrays = archive.read(path, "posterior")
        except archive.ArchiveError:
            continue
        assert header == expected[0]
        assert all(np.array_equal(arrays[n], expected[1][n]) for n in expected[1])


def other_files(path, content):
    if content == "npy":
        np.save(path.open("wb"), np.zeros(3))
    elif content == "npz":
        np.savez(path.open("wb"), x=np.zeros(3))
    elif content == "pickle":
        np.save(path.open("wb"), np.array([{}], dtype=object), allow_pickle=True)
    else:
        path.write_bytes(content)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello, world\n" * 20,
        "npz",
        "npy",
        "pickle",
    ],
    ids=["empty", "text", "npz", "npy", "pickle"],
)
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_other_files_are_refused(tmp_path, content):
    other_files(tmp_path / "other", content)
    with pytest.raises(archive.ArchiveError, match="truncated or not a uivi posterior file"):
        archive.read(tmp_path / "other", "posterior")


def test_another_kind_is_refused(path):
    with pytest.raises(archive.ArchiveError, match="expected a uivi checkpoint file, .* is a posterior file"):
        archive.read(path, "checkpoint")


def test_a_newer_format_is_refused(tmp_path):
    text = json.dumps({"format": archive.FORMAT + 1, "kind": "posterior"})
    with (tmp_path / "new").open("wb") as file:
        np.savez(file, __header__=np.frombuffer(text.encode(), np.uint8))
    with pytest.raises(archive.ArchiveError, match="has format 2, this uivi reads up to 1: update uivi"):
        archive.read(tmp_path / "new", "posterior")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    before = path.read_bytes()

    def full_disk(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive.os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        archive.write(path, {"kind": "posterior"}, {})
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["file.uivi"]
