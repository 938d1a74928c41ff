"""Checkpoints: exact, kept in number, held against a second run, never overwritten by a wrong one."""

import contextlib
import shutil
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import uivi
from tests.tiny import explicit_settings, log_density
from uivi.storage import archive
from uivi.storage.checkpoints import Checkpoints, locked_directory


class State(eqx.Module):
    """One leaf of each sort."""

    weights: jax.Array
    count: jax.Array
    key: jax.Array
    name: str = "static"


def make_state(seed=0):
    weights = jax.random.normal(jax.random.key(seed), (3,)).at[1].set(jnp.nan)
    return State(weights, jnp.asarray(seed, jnp.int32), jax.random.key(seed + 1))


def leaves(state):
    values = jax.tree.leaves(eqx.filter(state, eqx.is_array))
    keys = [jnp.issubdtype(x.dtype, jax.dtypes.prng_key) for x in values]
    return [np.asarray(jax.random.key_data(x) if k else x) for x, k in zip(values, keys, strict=True)]


def contents(directory):
    return {p.name: p.read_bytes() for p in directory.iterdir() if p.name != ".lock"}


def test_a_fresh_directory_has_nothing_to_restore(tmp_path):
    assert Checkpoints(tmp_path / "none", "f").restore(make_state()) is None
    assert not (tmp_path / "none").exists()


def test_the_newest_state_comes_back_bit_by_bit(tmp_path):
    checkpoints = Checkpoints(tmp_path, "f")
    for step in (9, 10, 100):
        checkpoints.save(make_state(step), step, {"history": {"step": [step]}})
    state, extra = checkpoints.restore(make_state())
    assert extra["history"] == {"step": [100]}
    assert state.name == "static"
    assert isinstance(state.key, jax.Array)
    assert jnp.issubdtype(state.key.dtype, jax.dtypes.prng_key)
    for found, expected in zip(leaves(state), leaves(make_state(100)), strict=True):
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()


def test_the_last_k_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path, "f", keep=3)
    for step in range(0, 3_000, 500):
        checkpoints.save(make_state(), step, {})
    names = [f"step-{step:010d}.ckpt" for step in (1_500, 2_000, 2_500)]
    assert sorted(p.name for p in tmp_path.iterdir()) == names


@pytest.mark.parametrize(
    ("fingerprint", "template"),
    [
        ("other", make_state()),
        ("f", eqx.tree_at(lambda s: s.weights, make_state(), jnp.zeros(4))),
        ("f", eqx.tree_at(lambda s: s.count, make_state(), jnp.zeros((), jnp.int16))),
        ("f", {"weights": jnp.zeros(3), "count": jnp.zeros((), jnp.int32)}),
    ],
    ids=["fingerprint", "shape", "dtype", "structure"],
)
def test_another_configuration_is_refused(tmp_path, fingerprint, template):
    Checkpoints(tmp_path, "f").save(make_state(), 5, {})
    before = contents(tmp_path)
    with pytest.raises(archive.ArchiveError, match="belongs to another configuration .* nothing was changed"):
        Checkpoints(tmp_path, fingerprint).restore(template)
    assert contents(tmp_path) == before


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
    archive.write(path, {"kind": "posterior"}, {})


def replace_format(path):
    archive.write(path, {"kind": "checkpoint", "format": archive.FORMAT + 1}, {})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, "truncated or not a uivi checkpoint file .* nothing was changed"),
        (replace_kind, "expected a uivi checkpoint file, .* is a posterior file"),
        (replace_format, "has format 2, this uivi reads up to 1: update uivi; nothing was changed"),
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


def test_what_a_killed_run_was_writing_is_removed(directory):
    (directory / ".step-0000000021.ckpt.12345.tmp").write_bytes(b"half a file")
    fit(directory)
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
