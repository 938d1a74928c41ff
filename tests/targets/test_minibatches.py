"""Minibatches are shuffled without replacement, uniformly, and without state."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from uivi.targets import minibatch, minibatches
from uivi.testing import FAILURE_RATE, assert_mean, z_threshold


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
    return np.asarray(jax.jit(jax.vmap(lambda k: minibatches.shuffled(k, place, count)))(keys))


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
    monkeypatch.setattr(minibatches, "_NUM_ROUNDS", 6)
    assert uniformity(permutations(getkey())) < FAILURE_RATE


def test_long_epochs_are_not_ordered(getkey):
    """Serial correlation of one epoch of many rows: about N(0, 1/N)."""
    place, size = jnp.arange(60_000, dtype=jnp.int32), 60_000
    values = np.asarray(jax.jit(minibatches.shuffled)(getkey(), place, jnp.asarray(size)), np.float64)
    np.testing.assert_array_equal(np.sort(values), np.arange(size))
    for lag in (1, 2, 100, size // 2):
        correlation = np.corrcoef(values[lag:], values[:-lag])[0, 1]
        assert abs(correlation) * np.sqrt(size - lag) < z_threshold(5)
    assert abs(np.corrcoef(values, np.arange(size))[0, 1]) * np.sqrt(size) < z_threshold(5)
