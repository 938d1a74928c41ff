"""The files of checkpoints: exact, kept in number, checked, and never links to other files."""

import os

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.storage.states import contents, leaves, make_state
from uivi.storage import archive
from uivi.storage.checkpoints import Checkpoints, locked_directory


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


def test_a_link_in_place_of_a_half_file_is_removed_and_not_followed(tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / ".step-0.tmp").symlink_to(tmp_path / "victim")
    with Checkpoints(tmp_path, "f").locked():
        pass
    assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", "victim"]
    assert (tmp_path / "victim").read_text() == "precious"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("victim")])
def test_a_lock_that_is_no_regular_file_is_refused(make, tmp_path):
    make(tmp_path / ".lock")
    with (
        pytest.raises(OSError, match="cannot write to .* choose another directory"),
        locked_directory(tmp_path),
    ):
        pass
    assert [p.name for p in tmp_path.iterdir()] == [".lock"]


def test_a_checkpoint_that_is_a_link_is_not_overwritten(tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "step-0000000007.ckpt").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="only a regular file is replaced"):
        Checkpoints(tmp_path, "f").save(make_state(), 7, {})
    assert (tmp_path / "victim").read_text() == "precious"


EXTRA = {"history": {"step": [1, 2]}, "seconds": 1.5, "status": ["DONE"], "best": [-1.0]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": [1]}, r"'names' in its header to be list\[str\]"),
        ({"fingerprint": None}, "'fingerprint' in its header to be str"),
        ({"more": 1}, "'more' unknown"),
        ({"extra": []}, "'extra' in its header to be dict"),
        ({"extra": {}}, "history, seconds, status missing"),
        ({"extra": EXTRA | {"module": "os:system"}}, "'module' unknown"),
        ({"extra": EXTRA | {"history": [1]}}, "'history' in its extra to be dict"),
        ({"extra": EXTRA | {"seconds": "1"}}, "'seconds' in its extra to be float"),
        ({"extra": EXTRA | {"status": "DONE"}}, "'status' in its extra to be list"),
        ({"extra": EXTRA | {"best": ["x"]}}, "'best' in its extra to be list"),
    ],
)
def test_a_crafted_header_is_refused(tmp_path, change, message):
    checkpoints, expected = Checkpoints(tmp_path, "f"), ("history", "seconds", "status")
    checkpoints.save(make_state(), 5, EXTRA)
    path, annotations = checkpoints.newest(), {"fingerprint": str, "names": list, "extra": dict}
    header, arrays = archive.read(path, "checkpoint", annotations)
    assert checkpoints.restore(make_state(), expected)[1] == EXTRA
    archive.write(path, "checkpoint", {k: header[k] for k in annotations} | change, arrays)
    before = contents(tmp_path)
    with pytest.raises(archive.ArchiveError, match=message):
        checkpoints.restore(make_state(), expected)
    assert contents(tmp_path) == before


def test_only_known_extras_are_saved(tmp_path):
    with pytest.raises(ValueError, match="'more' unknown"):
        Checkpoints(tmp_path, "f").save(make_state(), 5, {"more": 1})


def test_other_files_in_the_directory_are_left_alone(tmp_path):
    checkpoints = Checkpoints(tmp_path, "f", keep=1)
    for name in ("step-zzz.ckpt", "step-1.ckpt", "step-99999999999.ckpt"):
        (tmp_path / name).write_text("somebody's")
    checkpoints.save(make_state(), 5, {})
    checkpoints.save(make_state(), 6, {})
    assert checkpoints.newest().name == "step-0000000006.ckpt"
    assert len(list(tmp_path.iterdir())) == 4


def test_names_of_leaves_are_places_in_the_tree(tmp_path):
    """Renamed or moved classes do not matter."""
    checkpoints = Checkpoints(tmp_path, "f")
    checkpoints.save((make_state(), {"a": jnp.zeros(1)}), 5, {})
    header, _ = archive.read(
        checkpoints.newest(), "checkpoint", {"fingerprint": str, "names": list, "extra": dict}
    )
    assert header["names"] == ["[0].weights", "[0].count", "[0].key", "[1]['a']"]


def test_keys_of_other_generators_come_back(tmp_path):
    checkpoints = Checkpoints(tmp_path, "f")
    checkpoints.save(jax.random.key(3, impl="rbg"), 5, {})
    again, _ = checkpoints.restore(jax.random.key(0, impl="rbg"))
    assert jax.random.key_impl(again) == jax.random.key_impl(jax.random.key(0, impl="rbg"))
    assert np.array_equal(jax.random.key_data(again), jax.random.key_data(jax.random.key(3, impl="rbg")))


def test_states_in_bfloat16_come_back(tmp_path):
    checkpoints = Checkpoints(tmp_path, "f")
    checkpoints.save(jnp.array([1.5, jnp.nan], jnp.bfloat16), 5, {})
    again, _ = checkpoints.restore(jnp.zeros(2, jnp.bfloat16))
    assert again.dtype == jnp.bfloat16
    assert np.array_equal(again, jnp.array([1.5, jnp.nan], jnp.bfloat16), equal_nan=True)
