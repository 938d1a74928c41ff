"""Rows keep their bits and are not trained; minibatches are shuffled without replacement."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from tests.helpers import FAILURE_RATE, assert_mean, z_threshold
from uivi.targets import Rows, minibatch
from uivi.targets import rows as data
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


@eqx.filter_jit
def batches(key, steps, count, batch_size):
    return jax.vmap(lambda step: minibatch(key, step, count, batch_size))(steps)


def epochs(key, count, batch_size, num_epochs):
    """The indices of each epoch: shape (num_epochs, number of batches, B)."""
    per_epoch = count // batch_size
    found = batches(key, jnp.arange(num_epochs * per_epoch), jnp.asarray(count), batch_size)
    return np.asarray(found).reshape(num_epochs, per_epoch, batch_size)


@pytest.mark.parametrize(("count", "batch_size"), [(13, 1), (64, 8), (7, 7), (1, 1), (97, 10), (1_000, 300)])
def test_an_epoch_visits_every_row_once(count, batch_size, getkey):
    """But for the remainder, which differs from epoch to epoch."""
    found = epochs(getkey(), count, batch_size, 5)
    kept = count - count % batch_size
    for epoch in found.reshape(5, -1):
        assert len(set(epoch.tolist())) == kept
        assert epoch.min() >= 0
        assert epoch.max() < count
    if count > batch_size:
        assert len({epoch.tobytes() for epoch in found}) == 5
    if kept < count:
        assert len({frozenset(epoch.ravel().tolist()) for epoch in found}) == 5


def test_batches_depend_on_the_key_and_the_step_alone(getkey):
    first, other = getkey(), getkey()
    one = minibatch(first, jnp.asarray(37), jnp.asarray(50), 4)
    np.testing.assert_array_equal(one, epochs(first, 50, 4, 4).reshape(-1, 4)[37])
    assert not np.array_equal(one, minibatch(other, jnp.asarray(37), jnp.asarray(50), 4))


def test_data_sets_of_different_lengths_side_by_side(getkey):
    key, steps, counts = getkey(), jnp.arange(9), jnp.array([9, 16, 31])
    found = jax.jit(jax.vmap(lambda n: jax.vmap(lambda t: minibatch(key, t, n, 3))(steps)))(counts)
    for count, together in zip((9, 16, 31), found, strict=True):
        np.testing.assert_array_equal(together, batches(key, steps, jnp.asarray(count), 3))
        per_epoch = min(9, count // 3)
        assert len(np.unique(together[:per_epoch])) == 3 * per_epoch


SIZE, NUM_SHUFFLES = 11, 20_000


def permutations(key):
    place, count = jnp.arange(SIZE, dtype=jnp.int32), jnp.asarray(SIZE)
    keys = jax.random.split(key, NUM_SHUFFLES)
    return np.asarray(jax.jit(jax.vmap(lambda k: data.shuffled(k, place, count)))(keys))


def chi_square_pvalue(cells, num_cells):
    return scipy.stats.chisquare(np.bincount(cells, minlength=num_cells)).pvalue


def uniformity(found):
    """P-values: where each place goes, and where each pair of neighbours goes (declared rate, shared)."""
    single = [chi_square_pvalue(found[:, i], SIZE) for i in range(SIZE)]
    # The second of a pair, counted from the first: 1 to SIZE - 1.
    gaps = (found[:, 1:] - found[:, :-1]) % SIZE - 1
    number = found[:, :-1] * (SIZE - 1) + gaps
    pairs = [chi_square_pvalue(number[:, i], SIZE * (SIZE - 1)) for i in range(SIZE - 1)]
    return min(single + pairs) * (2 * SIZE - 1)


def test_the_shuffle_is_uniform_and_neighbours_are_independent(getkey):
    found = permutations(getkey())
    assert uniformity(found) > FAILURE_RATE
    # Of a random permutation E (v_i - v_{i+1})² = N (N + 1) / 6.
    assert_mean((found[:, 1:] - found[:, :-1]) ** 2, SIZE * (SIZE + 1) / 6, max_stderr=0.2)


def test_a_shuffle_of_few_rounds_is_noticed(getkey, monkeypatch):
    monkeypatch.setattr(data, "_NUM_ROUNDS", 6)
    assert uniformity(permutations(getkey())) < FAILURE_RATE


def test_long_epochs_are_not_ordered(getkey):
    """Serial correlation of one epoch of many rows: about N(0, 1/N)."""
    place, size = jnp.arange(60_000, dtype=jnp.int32), 60_000
    values = np.asarray(jax.jit(data.shuffled)(getkey(), place, jnp.asarray(size)), np.float64)
    np.testing.assert_array_equal(np.sort(values), np.arange(size))
    for lag in (1, 2, 100, size // 2):
        correlation = np.corrcoef(values[lag:], values[:-lag])[0, 1]
        assert abs(correlation) * np.sqrt(size - lag) < z_threshold(5)
    assert abs(np.corrcoef(values, np.arange(size))[0, 1]) * np.sqrt(size) < z_threshold(5)
