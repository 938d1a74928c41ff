"""Downloads: mirrors, tries and faults. The cache never holds a partial file."""

import errno
import io
import os
import urllib.request

import numpy as np
import pytest

from tests.datasets.conftest import files_in
from tests.datasets.samples import MAKERS, sample
from tests.datasets.test_load import check
from uivi import datasets
from uivi.datasets import DATASETS, DataError, State, download

PUBLIC = [name for name in MAKERS if name != "hapt-recomputed"]


@pytest.mark.parametrize("name", PUBLIC)
def test_download_then_cache(name, cache, serve, server):
    made = serve(name)
    check(datasets.load(name), made)
    assert files_in(cache) == sorted(made.files)
    assert datasets.status(name).state is State.FOUND
    asked = len(server.asked)
    check(datasets.load(name), made)
    assert [str(path) for path in datasets.fetch(name)] == [str(cache / path) for path in made.files]
    assert len(server.asked) == asked == len(made.served)


def test_download_goes_to_the_cache_not_to_the_data_directory(local, cache, serve):
    serve("waveform")
    assert datasets.load("waveform").source == str(cache / "waveform/waveform.mat")
    assert files_in(local) == []


def test_packed_file_is_the_one_of_the_local_layout(cache, serve):
    made = serve("binarized-mnist")
    datasets.fetch("binarized-mnist")
    (path, body), *_ = made.files.items()
    with np.load(cache / path) as ours, np.load(io.BytesIO(body)) as theirs:
        assert sorted(ours.files) == sorted(theirs.files)
        for split in theirs.files:
            np.testing.assert_array_equal(ours[split], theirs[split])


def test_only_the_missing_files_are_downloaded(cache, serve, server):
    made = serve("mnist")
    datasets.fetch("mnist")
    path = next(iter(made.files))
    (cache / path).unlink()
    server.asked.clear()
    check(datasets.load("mnist"), made)
    assert server.asked == [f"/a/{path.rpartition('/')[2]}"]


@pytest.mark.parametrize("fault", [("status", 503), ("status", 429), ("cut", 40)])
def test_tries_again_after_a_passing_fault(fault, cache, serve, server):
    made = serve("waveform")
    server.faults = {"/a/waveform.mat": [fault] * 2, "/b/waveform.mat": [fault] * 2}
    check(datasets.load("waveform"), made)
    assert server.asked == ["/a/waveform.mat", "/b/waveform.mat"] * 2 + ["/a/waveform.mat"]


def test_waits_longer_before_each_try(cache, serve, server, monkeypatch):
    waits = []
    monkeypatch.setattr(datasets.download, "BACKOFF", 1.0)
    monkeypatch.setattr(datasets.download.time, "sleep", waits.append)
    serve("waveform")
    server.faults = {f"/{mirror}/waveform.mat": [("status", 500)] * 3 for mirror in "ab"}
    with pytest.raises(DataError, match="the server answered 500"):
        datasets.load("waveform")
    assert waits == [1.0, 2.0]
    assert files_in(cache) == []


@pytest.mark.parametrize("fault", ["absent", "other content", "page"])
def test_falls_back_to_the_next_mirror(fault, cache, serve, server):
    made = serve("waveform")
    if fault == "absent":
        del server.bodies["/a/waveform.mat"]
    else:
        other = sample("waveform").served["waveform.mat"]
        server.bodies["/a/waveform.mat"] = b"<html>" if fault == "page" else other
    check(datasets.load("waveform"), made)
    assert server.asked == ["/a/waveform.mat", "/b/waveform.mat"]


def test_absent_everywhere_is_final(cache, serve, server):
    serve("waveform")
    server.bodies.clear()
    with pytest.raises(DataError, match="could not download waveform/waveform.mat.*answered 404.*UIVI_DATA"):
        datasets.load("waveform")
    assert len(server.asked) == 2
    assert files_in(cache) == []


def test_wrong_content_everywhere(cache, serve, server):
    made = serve("binarized-mnist")
    first = made.served["binarized_mnist_test.amat"]
    flipped = (b"1" if first[:1] == b"0" else b"0") + first[1:]
    server.bodies |= {f"/{mirror}/binarized_mnist_test.amat": flipped for mirror in "ab"}
    with pytest.raises(DataError, match="expected test.x with SHA256"):
        datasets.load("binarized-mnist")
    assert files_in(cache) == []


@pytest.mark.parametrize("announced", [True, False])
def test_an_endless_download_is_broken_off(announced, cache, serve, server, monkeypatch):
    serve("waveform")
    server.announce = announced
    server.bodies["/a/waveform.mat"] = bytes(10**6)
    monkeypatch.setattr(download, "CHUNK", 10**4)
    server.bodies["/b/waveform.mat"] = bytes(10**6)
    with pytest.raises(DataError, match="expected at most 100,000 bytes, the server"):
        datasets.load("waveform")
    assert server.asked == ["/a/waveform.mat", "/b/waveform.mat"]
    assert files_in(cache) == []


def test_malformed_zip_is_not_kept(cache, serve, server):
    serve("hapt")
    server.bodies |= {f"/{mirror}/hapt.zip": b"PK not a zip" for mirror in "ab"}
    with pytest.raises(DataError, match="could not download hapt/hapt.zip.*cannot be read"):
        datasets.fetch("hapt")
    assert files_in(cache) == []


def test_no_network(cache, install):
    install("mnist")  # mirrors on a port where nothing listens
    with pytest.raises(DataError, match="Connection refused.*check the network.*or set UIVI_DATA"):
        datasets.load("mnist")
    assert files_in(cache) == []


def test_corrupt_cache_is_reported_not_replaced(cache, serve, server):
    made = serve("waveform")
    path = cache / next(iter(made.files))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"half")
    with pytest.raises(DataError, match="corrupt.*delete it and run `uivi data get waveform`"):
        datasets.fetch("waveform")
    assert server.asked == []
    path.unlink()
    datasets.fetch("waveform")
    assert path.read_bytes() == made.files["waveform/waveform.mat"]


@pytest.mark.parametrize(
    ("number", "advice"), [(errno.ENOSPC, "free .* MiB there"), (errno.EACCES, "make it writable")]
)
@pytest.mark.parametrize("name", ["mnist", "binarized-mnist"])
def test_full_or_locked_disk(name, number, advice, cache, serve, monkeypatch):
    made = serve(name)

    def full(descriptor):
        assert os.fstat(descriptor).st_size > 0  # a file with some content, that must go again
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DataError, match=f"{os.strerror(number)}: {advice}, or set UIVI_CACHE"):
            datasets.load(name)
    assert files_in(cache) == []
    check(datasets.load(name), made)


def test_full_disk_while_writing(cache, serve, monkeypatch):
    serve("waveform")

    class Full(io.FileIO):
        def write(self, content):
            super().write(content[: len(content) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fdopen", Full)
    with pytest.raises(DataError, match="No space left on device"):
        datasets.load("waveform")
    assert files_in(cache) == []


def test_interrupt_during_download(cache, serve, monkeypatch):
    made = serve("mnist")
    plain = urllib.request.urlopen

    def urlopen(request, timeout):
        assert timeout > 0
        response = plain(request, timeout=timeout)
        if "t10k-images" in request.full_url:
            monkeypatch.setattr(response, "read", interrupt)
        return response

    def interrupt(size):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(urllib.request, "urlopen", urlopen)
        with pytest.raises(KeyboardInterrupt):
            datasets.load("mnist")
    assert files_in(cache) == sorted(path for path in made.files if "train" in path)  # whole ones only
    check(datasets.load("mnist"), made)


def test_interrupt_during_the_write(cache, serve, monkeypatch):
    serve("waveform")

    def interrupt(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        datasets.load("waveform")
    assert files_in(cache) == []


@pytest.mark.parametrize(
    ("progress", "terminal", "shown"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_progress_bar(progress, terminal, shown, cache, serve, monkeypatch, capsys):
    serve("waveform")
    monkeypatch.setenv("FORCE_COLOR" if terminal else "NO_COLOR", "1")
    datasets.load("waveform", progress=progress)
    out, err = capsys.readouterr()
    assert out == ""
    assert ("waveform" in err) == shown


def test_every_public_spec_has_addresses_and_checksums():
    for name in PUBLIC:
        assert DATASETS[name].public
        urls = [url for file in DATASETS[name].files for source in file.sources for url in source.urls]
        assert all(url.startswith(("https://", "http://")) and " " not in url for url in urls)
        for source in (source for file in DATASETS[name].files for source in file.sources):
            plain = [url.startswith("http://") for url in source.urls]
            assert plain == sorted(plain)  # https first
            assert not plain[0]
            assert all(part.sha256 for part in source.parts.values()) or not any(plain)
            assert source.most_bytes <= 400e6
    assert not DATASETS["hapt-recomputed"].public
    assert [name for name, spec in DATASETS.items() if not spec.pinned] == ["hapt"]
