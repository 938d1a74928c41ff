"""Every data set loads from a directory, and every damage is a `DataError` that names the file."""

import gzip
import os
import pathlib
import pickle

import numpy as np
import pytest

from tests.datasets import samples
from tests.datasets.samples import MAKERS
from uivi import datasets
from uivi.datasets import DATASETS, DataError, State, formats, store

TABLES = ("yacht", "boston", "concrete", "protein")
TABLES += ("ionosphere", "sonar", "german-credit", "breast-cancer", "pines")
ONE_FILE = [name for name in MAKERS if "mnist" not in name and name not in TABLES] + ["binarized-mnist"]


def check(loaded, made):
    for split in ("train", "valid", "test"):
        if f"{split}.x" not in made.arrays:
            assert getattr(loaded, split) is None
            continue
        x, y = getattr(loaded, split)
        expected = made.arrays[f"{split}.x"]
        assert x.dtype == expected.dtype
        assert x.flags.writeable
        np.testing.assert_array_equal(x, expected)
        if f"{split}.y" in made.arrays:
            assert y.dtype == made.arrays[f"{split}.y"].dtype
            np.testing.assert_array_equal(y, made.arrays[f"{split}.y"])
        else:
            assert y is None


def test_every_dataset_has_a_sample():
    assert set(MAKERS) == set(DATASETS)


@pytest.mark.parametrize("name", MAKERS)
def test_loads_from_the_data_directory(name, local, cache, install):
    made = install(name, directory=local)
    loaded = datasets.load(name)
    check(loaded, made)
    assert loaded.source.startswith(str(local))
    assert (loaded.name, loaded.num_classes) == (name, DATASETS[name].num_classes)
    assert datasets.status(name).state is State.FOUND
    assert not cache.exists()


@pytest.mark.parametrize("name", MAKERS)
def test_loads_from_the_cache(name, local, cache, install):
    made = install(name, directory=cache)
    loaded = datasets.load(name, download=False)
    check(loaded, made)
    assert loaded.source.startswith(str(cache))


def test_data_directory_comes_before_the_cache_file_by_file(local, cache, install):
    made = install("mnist", directory=local)
    moved = local / "mnist" / "t10k-labels-idx1-ubyte.gz"
    (cache / "mnist").mkdir(parents=True)
    moved.rename(cache / "mnist" / moved.name)
    loaded = datasets.load("mnist", download=False)
    check(loaded, made)
    assert loaded.source == f"{local / 'mnist'}, {cache / 'mnist'}"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"UIVI_CACHE": "/c"}, "/c"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/uivi"),
        ({"HOME": "/h"}, "/h/.cache/uivi"),
    ],
)
def test_cache_directory(variables, expected, monkeypatch):
    for name in ("UIVI_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert store.cache_directory() == pathlib.Path(expected)


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "hapt-recomputed"])
def test_missing(name, cache, install):
    install(name)
    with pytest.raises(DataError, match=rf"UIVI_DATA \(not set\).*found none.*run `uivi data get {name}`"):
        datasets.load(name, download=False)
    assert datasets.status(name).state is State.MISSING
    assert datasets.find(name) == []


@pytest.mark.parametrize("download", [True, False])
def test_recomputed_features_are_local_only_and_not_hapt(download, cache, install):
    install("hapt-recomputed")
    with pytest.raises(DataError, match="Not HAPT.*no public source.*set UIVI_DATA") as caught:
        datasets.load("hapt-recomputed", download=download)
    assert "uivi data get" not in str(caught.value)


def test_hapt_says_that_it_has_no_checksum(local, install):
    install("hapt", directory=local)
    assert "no pinned checksum" in DATASETS["hapt"].description
    assert "no pinned checksum" in datasets.status("hapt").note
    install("waveform", directory=local)
    assert datasets.status("waveform").note == "checksums agree"


def test_unknown_name_and_directory(monkeypatch, cache, tmp_path):
    with pytest.raises(ValueError, match="unknown data set 'mnits': did you mean 'mnist'"):
        datasets.load("mnits")
    monkeypatch.setenv("UIVI_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="expected UIVI_DATA to be a directory.*nowhere.*unset"):
        datasets.load("mnist")


DAMAGES = {
    "empty": lambda body: b"",
    "text": lambda body: b"<html>not found</html>",
    "truncated": lambda body: body[: len(body) // 2],
    "tail cut": lambda body: body[:-3],
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", MAKERS)
def test_damaged_file_in_the_data_directory(name, damage, local, cache, install):
    made = install(name, directory=local)
    path, body = next(iter(made.files.items()))
    (local / path).write_bytes(DAMAGES[damage](body))
    with pytest.raises(DataError, match="is corrupt") as caught:
        datasets.load(name)
    assert str(local / path) in str(caught.value)
    remedy = "restore it" if name == "hapt-recomputed" else f"delete it and run `uivi data get {name}`"
    assert remedy in str(caught.value)
    assert datasets.status(name).state is State.CORRUPT
    assert not cache.exists()


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "hapt"])
def test_other_values_of_the_right_shape_fail_the_checksum(name, local, install):
    made, other = install(name, directory=local), samples.sample(name)
    path = next(iter(made.files))
    (local / path).write_bytes(other.files[path])
    with pytest.raises(DataError, match="expected train.x with SHA256 [0-9a-f]{12}…, got [0-9a-f]{12}…"):
        datasets.load(name)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\0\0\x0d\x01\0\0\0\x01\0\0\0\0", "got magic '00 00 0d 01'"),
        (b"\0\0", "got magic '00 00'"),
        (b"\0\0\x08\x03\0\0", "cannot be read"),
        (b"\0\0\x08\x01\0\0\0\x05abc", r"expected 5 bytes for idx dimensions \(5,\), got 3"),
        (samples.idx(np.zeros((2, 4, 4), np.uint8)), r"expected train.x of shape \(6, 16\), got \(2, 16\)"),
        (samples.idx(np.zeros(6, np.uint8)), r"expected train.x of shape \(6, 16\), got \(6,\)"),
    ],
)
def test_bad_idx(data, message, local, install):
    made = install("mnist", directory=local)
    (local / next(iter(made.files))).write_bytes(gzip.compress(data))
    with pytest.raises(DataError, match=message):
        datasets.load("mnist")


def without_test_x(name, arrays) -> bytes:
    arrays = {part: array for part, array in arrays.items() if part != "test.x"}
    if name == "binarized-mnist":
        return samples.npz(**{part[:-2]: np.packbits(array, axis=1) for part, array in arrays.items()})
    if name == "waveform":
        return samples.mat(**samples.keyed(arrays))
    raw = {part: (a + 1).astype(np.int8) if part.endswith("y") else a for part, a in arrays.items()}
    if name == "hapt-recomputed":
        return samples.npz(**samples.keyed(raw))
    members = samples.hapt_members(raw | {"test.x": np.zeros((0, 7))})
    del members["Test/X_test.txt"]
    return samples.zipped(members)


@pytest.mark.parametrize("name", ONE_FILE)
def test_file_without_one_array(name, local, install):
    made = install(name, directory=local)
    (local / next(iter(made.files))).write_bytes(without_test_x(name, made.arrays))
    with pytest.raises(DataError, match="but test.x is missing"):
        datasets.load(name)


@pytest.mark.parametrize("name", MAKERS)
def test_flipped_bytes_never_pass_and_never_raise_anything_else(name, local, install):
    made, rng = install(name, directory=local), np.random.default_rng(1)
    path, body = next(iter(made.files.items()))
    for where in rng.integers(0, len(body), 100):
        flipped = bytearray(body)
        flipped[where] ^= int(rng.integers(1, 256))
        (local / path).write_bytes(flipped)
        try:
            loaded = datasets.load(name)
        except DataError:
            continue
        check(loaded, made)  # the byte was one without meaning, such as a time or a name's padding


@pytest.mark.parametrize(
    ("member", "content", "message"),
    [
        ("Train/y_train.txt", "0\n" * 6, r"labels 1\.\.12"),
        ("Train/y_train.txt", "13\n" * 6, r"labels 1\.\.12"),
        ("Train/y_train.txt", "5\n" * 6, r"expected train.y with classes of \(.*\) rows, got \(0, 0, 0, 0, 6,"),
        ("Train/y_train.txt", "one\n" * 6, "one"),
        ("Test/X_test.txt", "nan 0 0 0 0 0 0\n" * 3, "finite float32 features"),
        ("Test/X_test.txt", "1.1 0 0 0 0 0 0\n" * 3, "finite float32 features"),
        ("Test/X_test.txt", "0 0\n" * 3, r"expected test.x of shape \(3, 7\), got \(3, 2\)"),
        ("Test/X_test.txt", "0 0\n0\n", "columns"),
    ],
)
def test_bad_hapt_zip(member, content, message, local, install):
    made = install("hapt", directory=local)
    members = samples.hapt_members({p: a + 1 if p.endswith("y") else a for p, a in made.arrays.items()})
    (local / "hapt/hapt.zip").write_bytes(samples.zipped(members))
    check(datasets.load("hapt"), made)
    (local / "hapt/hapt.zip").write_bytes(samples.zipped({"outer.zip": samples.zipped(members)}))
    check(datasets.load("hapt"), made)
    (local / "hapt/hapt.zip").write_bytes(samples.zipped(members | {member: content}))
    with pytest.raises(DataError, match=message):
        datasets.load("hapt")


@pytest.mark.parametrize("raw", [b"", b" \n", b"1 2\n3\n", b"1 two\n", b"1 nan\n", b"# 1 2\n"])
def test_bad_tables(raw):
    with pytest.raises(DataError, match="cannot be read"):
        formats.parse(formats.table, {}, raw)


@pytest.mark.parametrize("raw", [b"", b"y,x\n", b"y,x\n1,2\n3\n", b"y,x\n1,two\n", b"y,x\n1,nan\n"])
def test_bad_tables_with_titles(raw):
    with pytest.raises(DataError, match="cannot be read"):
        formats.parse(formats.titled_table, {}, raw)


XLS = samples.xls(np.eye(4))
BAD_XLS = {
    b"": "expected an xls file, got one that starts with",
    XLS[:30] + b"\x0a" + XLS[31:]: "expected sectors of 512 or 4,096 bytes, got 2\\^10",
    XLS[:-3]: "expected a whole xls file",
    XLS.replace(b"W\0o\0r\0k\0", b"w\0o\0r\0k\0"): "expected an xls file with a workbook, got one without",
    XLS.replace((3).to_bytes(4, "little"), (2).to_bytes(4, "little")): "expected a whole xls file",
    samples.xls(np.full((2, 4), 0.5)).replace(
        b"\x03\x02\x0e", b"\0\0\x0e", 1
    ): "in each of 2 × 4 cells, got 7 numbers",
    samples.xls(np.zeros((0, 4))): "expected a sheet with numbers, got one without any",
}


@pytest.mark.parametrize(("raw", "message"), BAD_XLS.items(), ids=range(len(BAD_XLS)))
def test_bad_spreadsheets(raw, message):
    with pytest.raises(DataError, match=message):
        formats.parse(formats.spreadsheet, {}, raw)


@pytest.mark.parametrize("raw", [b"", b"\n", b"1,2,3\n", b"1,2,1\n3,1\n", b"one,2,1\n", b"nan,2,1\n"])
def test_bad_tables_with_classes(raw):
    with pytest.raises(DataError, match="cannot be read"):
        formats.parse(lambda raw: formats.classes({"1": 1, "-1": 0}, -1, 0, raw), {}, raw)


@pytest.mark.parametrize("raw", [b"", b"2 1:0.5\n", b"1 1;0.5\n", b"1 1:one\n", b"1 1:inf\n"])
def test_bad_libsvm_files(raw):
    with pytest.raises(DataError, match="cannot be read"):
        formats.parse(formats.libsvm, {}, raw)


def test_the_sources_of_a_table_with_classes_agree():
    """UCI's files, LIBSVM's and those in UIVI_DATA write the same rows in different ways."""
    tumours = DATASETS["breast-cancer"].files[0]
    ours, theirs = b"7 0 1.5 20\n8 1 2.5 0\n", b"7,M,1.5,20\n8,B,2.5,0\n"
    for raw in (ours, theirs):
        found = tumours.read(raw)
        np.testing.assert_array_equal(found["train.x"].array, np.array([[1.5, 20], [2.5, 0]], np.float32))
        np.testing.assert_array_equal(found["train.y"].array, [1, 0])
    echoes = DATASETS["ionosphere"].files[0]
    rounded, exact = echoes.read(b"0.995389998,0,1\n"), echoes.read(b"0.99539,0,g\n")
    assert rounded["train.x"].array.tobytes() == exact["train.x"].array.tobytes()
    sparse = formats.libsvm(b"1 1:0.25\n-1 1:-1 2:0.5\n")
    packed = formats.pack_classes({name: content.array for name, content in sparse.items()})
    assert packed == b"0.25,0,1\n-1,0.5,-1\n"


def test_bad_labels_of_waveform(local, install):
    made = install("waveform", directory=local)
    (local / "waveform/waveform.mat").write_bytes(
        samples.mat(**samples.keyed(made.arrays | {"train.y": np.full(6, 0.5)}))
    )
    with pytest.raises(DataError, match=r"labels 0\.\.1"):
        datasets.load("waveform")


@pytest.mark.parametrize("raw", [b"0 1 2\n", b"0 1\n0\n", b"\n", b"zero one\n"])
def test_bad_amat(raw):
    with pytest.raises(DataError, match="cannot be read: expected lines"):
        formats.parse(lambda raw: formats.amat("train.x", raw), {}, raw)


PICKLE = pickle.dumps([1, 2, 3])


@pytest.mark.parametrize(
    "raw",
    [PICKLE, b"neither a zip nor an array", samples.npz(train=np.array([{}], object)), b"", b"PK\x03\x04"],
)
@pytest.mark.parametrize("read", [formats.packed_npz, formats.hapt_npz])
def test_no_advice_to_allow_pickles(read, raw):
    with pytest.raises(DataError, match="cannot be read") as caught:
        formats.parse(read, {}, raw)
    assert "pickle" not in str(caught.value)


def test_small_files_that_unpack_to_large_ones(monkeypatch):
    monkeypatch.setattr(formats, "MOST_BYTES", 10_000)
    large = samples.idx(np.zeros((100, 40, 40), np.uint8))
    with pytest.raises(DataError, match="expected at most 10,000 bytes when unpacked"):
        formats.parse(lambda raw: formats.idx("train.x", raw), {}, gzip.compress(large))
    members = {"Train/X_train.txt": "0 " * 10_000}
    for raw in (samples.zipped(members), samples.zipped({"inner.zip": samples.zipped(members)})):
        with pytest.raises(DataError, match="expected at most 10,000 bytes when unpacked"):
            formats.parse(formats.hapt_zip, {}, raw)


def test_unreadable_file(local, install, monkeypatch):
    install("waveform", directory=local)

    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pathlib.Path, "read_bytes", refuse)
    with pytest.raises(DataError, match="cannot read .*waveform.mat: Permission denied"):
        datasets.load("waveform")


def test_binarize():
    grey = np.array([[0, 127], [128, 255]], np.uint8)
    binary = datasets.binarize(grey)
    assert binary.dtype == np.uint8
    np.testing.assert_array_equal(binary, [[0, 0], [1, 1]])
    with pytest.raises(ValueError, match="expected uint8 grey levels"):
        datasets.binarize(grey / np.float32(255))


@pytest.mark.skipif(not os.environ.get("UIVI_DATA"), reason="UIVI_DATA is not set: no real data here")
@pytest.mark.parametrize("name", DATASETS)
def test_the_real_data(name):
    if not datasets.find(name):
        pytest.skip(f"{name} is neither in UIVI_DATA nor in the cache")
    loaded = datasets.load(name, download=False)
    assert loaded.train.x.shape == DATASETS[name].sizes["train"]
    assert (loaded.test is None) == ("test" not in DATASETS[name].sizes)
    if loaded.test is not None:
        assert loaded.test.x.shape == DATASETS[name].sizes["test"]
    if loaded.num_classes is not None:
        assert set(np.unique(loaded.train.y)) == set(range(loaded.num_classes))
    if name == "waveform":
        assert (loaded.train.x[:, 0] == 1).all()
