"""The commands `uivi data list`, `get` and `verify`."""

import pytest
from typer.testing import CliRunner

from tests.datasets.samples import MAKERS
from uivi.cli.data import app
from uivi.datasets import DATASETS, DataError


def call(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_list(local, install):
    for name in MAKERS:
        install(name, directory=local if name in ("waveform", "hapt-recomputed") else None)
    result = call("list")
    assert result.exit_code == 0
    for name in MAKERS:
        assert name in result.stdout
    assert "not found" in result.stdout
    assert "…" not in result.stdout  # a path that is cut is of no use


def test_get_prints_the_path_and_downloads_once(cache, serve, server):
    serve("waveform")
    for _ in range(2):
        result = call("get", "waveform", "--quiet")
        assert result.exit_code == 0
        assert result.stdout == f"{cache / 'waveform/waveform.mat'}\n"
    assert server.asked == ["/a/waveform.mat"]


def test_get_says_what_it_does(cache, serve, server):
    serve("waveform")
    assert call("get", "waveform").stderr == "downloading the data set waveform\n"
    assert call("get", "waveform").stderr == "checking the data set waveform\n"


@pytest.mark.parametrize(("name", "error"), [("nothing", ValueError), ("hapt-recomputed", DataError)])
def test_errors_reach_the_caller(name, error, cache):
    result = call("get", name)
    assert isinstance(result.exception, error)


def test_verify(local, install):
    for name in MAKERS:
        install(name)
    result = call("verify")
    assert result.exit_code == 0
    assert result.stdout.count("missing") == len(MAKERS)
    for name in ("waveform", "hapt"):
        install(name, directory=local)
    result = call("verify", "waveform", "hapt", "mnist")
    assert result.exit_code == 0
    assert "waveform: found" in result.stdout
    assert "checksums agree" in result.stdout
    assert "no pinned checksum" in result.stdout
    assert "mnist: missing" in result.stdout
    (local / "waveform/waveform.mat").write_bytes(b"")
    result = call("verify")
    assert result.exit_code == 1
    assert "waveform: corrupt" in result.stdout
    assert [f"checking the data set {name}" for name in DATASETS] == result.stderr.splitlines()
    assert "delete it and run `uivi data get waveform`" in result.stdout
    assert call("verify", "hapt").exit_code == 0
