"""Rows of a data set inside a target, and minibatches of them without replacement."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Int, PyTree, UInt32

from uivi import _checks
from uivi._types import Key
from uivi.trainable import NonTrainable

_NUM_ROUNDS = 32


class Rows(eqx.Module):
    """Rows of a data set: constants that no optimiser trains and no checkpoint holds.

    Padding lets data sets of different lengths run side by side.

    Attributes:
        stored: the rows, then padding.
        count: number of rows without the padding.
    """

    stored: NonTrainable
    count: Int[Array, ""]

    @classmethod
    def create(cls, rows: np.ndarray, pad_to: int | None = None) -> "Rows":
        """Checks `rows` and keeps them in JAX's own types, padded with zeros to `pad_to` rows."""
        rows = np.asarray(rows)
        if rows.ndim < 1 or rows.shape[0] == 0:
            raise ValueError(f"expected at least one row of data, got an array of shape {rows.shape}")
        if not (np.issubdtype(rows.dtype, np.number) or rows.dtype == bool) or np.iscomplexobj(rows):
            raise TypeError(f"expected rows of real numbers, got {rows.dtype}: encode them first")
        if rows.dtype == bool:
            rows = rows.astype(np.uint8)
        elif np.issubdtype(rows.dtype, np.floating):
            if not np.all(np.isfinite(rows)):
                raise ValueError("expected finite data, got NaN or infinity: clean or impute the rows first")
        elif rows.dtype != jax.dtypes.canonicalize_dtype(rows.dtype) and np.abs(rows).max() >= 2**31:
            raise ValueError("expected whole numbers below 2^31 in size: rescale the rows first")
        missing = 0 if pad_to is None else pad_to - rows.shape[0]
        if missing < 0:
            raise ValueError(f"expected at most pad_to={pad_to} rows, got {rows.shape[0]}")
        padded = np.pad(rows, [(0, missing)] + [(0, 0)] * (rows.ndim - 1))
        kept = padded.astype(jax.dtypes.canonicalize_dtype(padded.dtype))
        return cls(NonTrainable(jnp.asarray(kept)), jnp.asarray(rows.shape[0], jnp.int32))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the rows, padding included."""
        return self.stored.value.shape

    def __getitem__(self, index) -> Array:
        """Returns the rows at `index`."""
        return self.stored()[index]


def split_data(tree: PyTree) -> tuple[PyTree, PyTree]:
    """Splits a tree into the arrays that belong to a fit, and the rest: data and static parts.

    `eqx.combine` joins the two again.
    """
    is_rows = lambda node: isinstance(node, Rows)
    belongs = lambda node: not is_rows(node) and eqx.is_array(node)
    return eqx.partition(tree, jax.tree.map(belongs, tree, is_leaf=is_rows))


def minibatch(key: Key, step: Array, count: Array, batch_size: int) -> Int[Array, "B"]:
    """Indices of minibatch number `step`: epochs are shuffled, without replacement, the remainder dropped.

    Needs no state: the shuffle is a keyed bijection, so a resumed fit sees the same batches.

    Args:
        key: of the run; the same at every step.
        step: number of the update.
        count: N.
        batch_size: B, at most N.
    """
    per_epoch = count // batch_size
    place = (step % per_epoch) * batch_size + jnp.arange(batch_size, dtype=jnp.int32)
    index = shuffled(jax.random.fold_in(key, step // per_epoch), place, count)
    # Else XLA would shuffle anew for every number of a row that it gathers.
    return jax.lax.optimization_barrier(index)


def shuffled(key: Key, place: Int[Array, "B"], count: Array) -> Int[Array, "B"]:
    """Where a keyed random permutation of 0..count-1 sends each `place`.

    The swap-or-not shuffle (Hoang, Morris & Rogaway 2012): every round pairs x with K - x (mod N) and swaps the
    pair or not by a hash of its larger member. A bijection for any N, in O(1) for each place.
    """
    size = count.astype(jnp.uint32)
    words = jax.random.bits(key, (2,), jnp.uint32)
    x = place.astype(jnp.uint32)
    for number in range(_NUM_ROUNDS):
        offset, salt = _hash(words + jnp.uint32(0x9E3779B9 * (number + 1) % 2**32))
        partner = (offset % size + size - x) % size
        swap = _hash(jnp.maximum(x, partner) ^ salt) >> jnp.uint32(31)
        x = jnp.where(swap == 1, partner, x)
    return x.astype(jnp.int32)


def _hash(x: UInt32[Array, "B"]) -> UInt32[Array, "B"]:
    """A 32-bit mixing function (xor, shift, multiply)."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ (x >> jnp.uint32(shift))) * jnp.uint32(factor)
    return x ^ (x >> jnp.uint32(16))


def check_batch_size(batch_size: int, rows: Rows) -> None:
    """Raise unless 1 <= batch_size <= N."""
    _checks.positive_int("batch_size", batch_size)
    if isinstance(rows.count, Tracer):
        return
    if np.any(np.asarray(rows.count) < batch_size):
        raise ValueError(f"expected a batch_size of at most {rows.count} (the rows of data), got {batch_size}")
