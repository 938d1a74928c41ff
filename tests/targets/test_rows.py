"""Rows keep their bits and are not trained."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uivi.targets import Rows
from uivi.targets.rows import split_data
from uivi.trainable import NonTrainable, trained
from uivi.training.update import all_finite

AWKWARD = np.array([[0.1, -0.0], [1e-40, 3.4e38], [np.pi, -1e-20], [1.0, 2.0]], np.float32)
"""With a denormal, a negative zero and a number near the largest."""


def test_floats_come_back_bit_by_bit():
    rows = Rows.create(AWKWARD)
    found = np.asarray(rows[np.arange(4)])
    assert found.dtype == np.float32
    assert found.tobytes() == AWKWARD.tobytes()
    assert (
        np.asarray(jax.jit(lambda r, i: r[i])(rows, jnp.array([2, 0]))).tobytes() == AWKWARD[[2, 0]].tobytes()
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_integers_stay_integers(dtype):
    values = np.arange(6, dtype=dtype).reshape(3, 2)
    rows = Rows.create(values)
    assert jnp.issubdtype(rows[0].dtype, jnp.integer)
    assert rows[0].dtype == jax.dtypes.canonicalize_dtype(dtype)
    np.testing.assert_array_equal(rows[np.arange(3)], values)


@pytest.mark.parametrize("values", [AWKWARD, np.zeros((2, 3), np.uint8)], ids=["float", "integer"])
def test_rows_are_not_trained(values):
    assert not jax.tree.leaves(trained(Rows.create(values)))
    assert all_finite(Rows.create(values))


@pytest.mark.parametrize("values", [AWKWARD, np.arange(4)], ids=["float", "integer"])
def test_padding_comes_last_and_is_not_counted(values):
    rows = Rows.create(values, 6)
    assert rows.shape == (6, *values.shape[1:])
    assert rows.count == 4
    assert not np.any(rows[np.arange(4, 6)])
    np.testing.assert_array_equal(rows[np.arange(4)], values)
    assert Rows.create(values).count == 4


@pytest.mark.parametrize(
    ("values", "pad_to", "message"),
    [
        (np.array([1.0, np.nan]), None, "expected finite data, got NaN or infinity: clean or impute"),
        (np.array([1.0, np.inf]), None, "expected finite data"),
        (np.zeros((0, 3)), None, r"expected at least one row of data, got an array of shape \(0, 3\)"),
        (np.array(1.0), None, "expected at least one row"),
        (np.zeros(5), 4, "expected at most pad_to=4 rows, got 5"),
    ],
)
def test_bad_rows(values, pad_to, message):
    with pytest.raises(ValueError, match=message):
        Rows.create(values, pad_to)


def test_data_are_split_from_what_belongs_to_a_fit():
    state = {
        "weight": jnp.arange(3.0),
        "constant": NonTrainable(jnp.ones(2)),
        "rows": Rows.create(np.arange(9)),
    }
    fitted, rest = split_data(state)
    assert [x.shape for x in jax.tree.leaves(fitted)] == [(2,), (3,)]
    assert eqx.tree_equal(eqx.combine(fitted, rest), state)


def test_double_precision_is_kept_with_x64(x64):
    assert Rows.create(np.array([1 / 3]))[0].dtype == jnp.float64
