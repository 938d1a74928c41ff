"""Minibatches of rows, shuffled without replacement and without state."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Int, UInt32

from uivi import _checks
from uivi._types import Key
from uivi.targets.rows import Rows

_NUM_ROUNDS = 32
"""Rounds of the shuffle. Fewer leave visible structure; the test of uniformity would fail."""


def minibatch(key: Key, step: Array, count: Array, batch_size: int) -> Int[Array, "B"]:
    """Returns the row indices of minibatch number `step`.

    Every epoch is shuffled without replacement; the remainder is dropped. There is no state: the shuffle is a
    keyed bijection, so a resumed fit sees the same batches.

    Args:
        key: key of the fit, the same at every step.
        step: number of the update.
        count: number of rows, N.
        batch_size: number of rows in a batch, B, at most N.
    """
    per_epoch = count // batch_size
    place = (step % per_epoch) * batch_size + jnp.arange(batch_size, dtype=jnp.int32)
    index = shuffled(jax.random.fold_in(key, step // per_epoch), place, count)
    # Without the barrier XLA would shuffle again for every element of the rows that it gathers.
    return jax.lax.optimization_barrier(index)


def shuffled(key: Key, place: Int[Array, "B"], count: Array) -> Int[Array, "B"]:
    """Applies a keyed random permutation of 0..count-1 to each `place`.

    This is the swap-or-not shuffle (Hoang, Morris & Rogaway 2012). Every round pairs x with K - x (mod N) and
    swaps the pair or not, by a hash of its larger member. It is a bijection for any N, in O(1) per place.
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
    """Mixes the bits of 32-bit numbers (xor, shift, multiply)."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ (x >> jnp.uint32(shift))) * jnp.uint32(factor)
    return x ^ (x >> jnp.uint32(16))


def check_batch_size(batch_size: int, rows: Rows) -> None:
    """Raises unless 1 <= batch_size <= N."""
    _checks.positive_int("batch_size", batch_size)
    if isinstance(rows.count, Tracer):
        return
    if np.any(np.asarray(rows.count) < batch_size):
        raise ValueError(f"expected a batch_size of at most {rows.count} (the rows of data), got {batch_size}")
