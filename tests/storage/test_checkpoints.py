"""Checkpoints of a fit: refused where they do not belong to it, held against a second run."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import optax
import pytest

import uivi
from tests.storage import crafted
from tests.storage.states import contents, make_state
from tests.tiny import explicit_settings, log_density
from uivi.storage import archive
from uivi.storage.checkpoints import Checkpoints, locked_directory


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The directory of a finished fit."""
    directory = tmp_path_factory.mktemp("finished")
    uivi.fit(log_density, 2, key=jax.random.key(0), checkpoint=directory, **explicit_settings())
    return directory


@pytest.fixture
def directory(finished, tmp_path):
    """A copy that the test may spoil."""
    return shutil.copytree(finished, tmp_path / "run")


def fit(directory, **changes):
    """The finished fit again, with changes."""
    settings = {"log_density": log_density, "dim": 2, "key": jax.random.key(0), **explicit_settings()}
    return uivi.fit(**(settings | changes), checkpoint=directory)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def replace_kind(path):
    archive.write(path, "posterior", {}, [])


def replace_format(path):
    crafted.around(path, b'{"format": 3}')


def replace_by_format_1(path):
    shutil.copy(crafted.FILES / "format-1.npz", path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, "truncated or not a uivi checkpoint file .* nothing was changed"),
        (replace_kind, "expected a uivi checkpoint file, .* is a posterior file"),
        (replace_format, "has format 3, this uivi reads format 2: update uivi; nothing was changed"),
        (replace_by_format_1, "has format 1, this uivi reads format 2: .* or fit again; nothing was changed"),
    ],
)
def test_fit_refuses_a_bad_checkpoint_and_overwrites_nothing(directory, damage, message):
    damage(Checkpoints(directory, "").newest())
    before = contents(directory)
    with pytest.raises(uivi.storage.ArchiveError, match=message):
        fit(directory)
    assert contents(directory) == before


def shifted(z):
    return log_density(z + 1)


def scaled(factor):
    return lambda z: factor * log_density(z)


@pytest.mark.parametrize(
    "changes",
    [
        {"estimator": uivi.Explicit(num_draws=5)},
        {"estimator": uivi.StickingTheLanding(num_draws=4)},
        {"log_density": shifted},
        {"num_steps": 30},
        {"optimizer": optax.sgd(0.1)},
        {"dim": 3, "family": uivi.ExplicitGaussian.create(3), "log_density": jnp.sum},
        {"key": jax.random.key(1)},
    ],
    ids=["draws", "estimator", "density", "num_steps", "optimizer", "dim", "key"],
)  # fmt: skip
def test_fit_refuses_the_checkpoint_of_other_settings(directory, changes):
    before = contents(directory)
    with pytest.raises(uivi.storage.ArchiveError, match="belongs to another configuration"):
        fit(directory, **changes)
    assert contents(directory) == before


def test_fit_refuses_the_checkpoint_of_the_same_code_on_other_data(tmp_path):
    fit(tmp_path, log_density=scaled(1.0), num_steps=2)
    with pytest.raises(uivi.storage.ArchiveError, match="belongs to another configuration"):
        fit(tmp_path, log_density=scaled(2.0), num_steps=2)


def test_a_finished_fit_is_given_back_without_work(directory):
    before = contents(directory)
    posterior = fit(directory)
    assert posterior.status is uivi.Status.DONE
    assert posterior.history["step"] == list(range(1, 21))
    assert contents(directory) == before


def test_what_a_killed_run_was_writing_is_removed(directory, monkeypatch):
    class Killed(BaseException):
        pass

    def kill(descriptor):
        raise Killed

    checkpoints = Checkpoints(directory, "f")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", kill)
        patched.setattr(pathlib.Path, "unlink", lambda path, missing_ok=False: None)
        with pytest.raises(Killed):
            checkpoints.save(make_state(), 21, {})
    (half,) = directory.glob(".*.tmp")
    assert half.name.startswith(".step-0000000021.ckpt.")
    with checkpoints.locked():
        assert not list(directory.glob(".*.tmp"))


@pytest.mark.parametrize("below", ["file", "file/directory"])
def test_a_directory_that_cannot_be_written_is_refused(tmp_path, below):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="cannot write to .* choose another directory"):
        fit(tmp_path / below)
    assert (tmp_path / "file").read_text() == "in the way"


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def held_by_another_process(directory):
    command = [sys.executable, "-c", HOLD, str(directory / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield


def test_two_runs_in_one_directory_are_refused(directory):
    before = contents(directory)
    with (
        held_by_another_process(directory),
        pytest.raises(RuntimeError, match="another run is using .* choose another directory"),
    ):
        fit(directory)
    assert contents(directory) == before
    assert fit(directory).status is uivi.Status.DONE


def test_the_lock_is_free_again_after_an_error(tmp_path):
    with pytest.raises(KeyError), locked_directory(tmp_path / "new"):
        raise KeyError
    with (
        locked_directory(tmp_path / "new"),
        pytest.raises(RuntimeError, match="another run is using"),
        locked_directory(tmp_path / "new"),
    ):
        pass
