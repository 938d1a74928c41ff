"""JAX's own random numbers, in a form that compiles and runs faster inside a large program.

JAX rolls the rounds of its generator (Threefry, Salmon et al. 2011) into a loop on a CPU. An update has a dozen
such loops, which take longer to start than to run and which XLA cannot fuse with anything else. Here the rounds
are written out. The numbers are the same, bit by bit.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import random as extended
from jaxtyping import Array, Float

from uivi._types import Key

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_NUM_GROUPS = 5
"""Threefry has five groups of four rounds."""
_PARITY = 0x1BD11BDA


def written_out(key: Key) -> Key:
    """Returns a key that gives the same numbers by the rounds that are written out.

    Keys of another generator, and many keys at once, come back as they are.
    """
    if str(jax.random.key_impl(key)) != "threefry2x32":
        return key
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_IMPLEMENTATION)


def normal(key: Key, shape: tuple[int, ...], dtype: Any = float) -> Float[Array, "..."]:
    """Returns standard normal numbers, computed once.

    XLA computes an elementwise chain again for each of its consumers. For this one, that is too dear.
    """
    # Flat, because LLVM vectorises a loop over one long axis only.
    return _computed_once(jax.random.normal(key, (math.prod(shape),), dtype), jax.random.key_data(key)).reshape(shape)


def _threefry(key: Array, high: Array, low: Array) -> tuple[Array, Array]:
    """Returns both words of Threefry-2x32 with 20 rounds, elementwise in the counter."""
    # Operations of `lax` on full arrays: those of jax.numpy take several times as long to trace.
    word = lambda value: lax.full_like(low, np.uint32(value))
    first, second = (lax.broadcast(key[i], low.shape) for i in (0, 1))
    keys = (first, second, lax.bitwise_xor(lax.bitwise_xor(first, second), word(_PARITY)))
    x, y = lax.add(high, first), lax.add(low, second)
    for group in range(_NUM_GROUPS):
        for rotation in _ROTATIONS[group % 2]:
            x = lax.add(x, y)
            left, right = lax.shift_left(y, word(rotation)), lax.shift_right_logical(y, word(32 - rotation))
            y = lax.bitwise_xor(lax.bitwise_or(left, right), x)
        x = lax.add(x, keys[(group + 1) % 3])
        y = lax.add(lax.add(y, keys[(group + 2) % 3]), word(group + 1))
    return x, y


def _counters(shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Returns the place of each element in the flattened array, as high and low words."""
    low = jnp.zeros(shape, jnp.uint32)
    stride = 1
    for axis in reversed(range(len(shape))):
        low = low + jax.lax.broadcasted_iota(jnp.uint32, shape, axis) * jnp.uint32(stride)
        stride *= shape[axis]
    # The high word is zero: no array here has 2³² numbers.
    return jnp.zeros_like(low), low


def _seed(seed: Array) -> Array:
    return jax.random.key_data(jax.random.key(seed))


def _split(key: Array, shape: tuple[int, ...]) -> Array:
    return _computed_once(jnp.stack(_threefry(key, *_counters(shape)), -1), key)


def _fold_in(key: Array, data: Array) -> Array:
    return jnp.stack(_threefry(key, jnp.zeros((), jnp.uint32), data.astype(jnp.uint32)))


def _random_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    x, y = _threefry(key, *_counters((math.prod(shape),)))
    if bit_width == 64:
        bits = (x.astype(jnp.uint64) << 32) | y.astype(jnp.uint64)
    else:
        bits = (x ^ y).astype(f"uint{bit_width}")
    return _computed_once(bits, key).reshape(shape)


_IMPLEMENTATION = extended.define_prng_impl(
    key_shape=(2,), seed=_seed, split=_split, random_bits=_random_bits, fold_in=_fold_in, name="uivi", tag="uivi"
)


def _computed_once(x: Array, key: Array) -> Array:
    """Keeps XLA from computing an elementwise chain again for each of its consumers."""
    if x.size < 2: return x
    def loop(x, key):
        # XLA on a CPU drops its barriers before it fuses. A loop is one that it keeps; this one never runs, but XLA
        # cannot know that a word has less than 64 bits set.
        never = (jax.lax.population_count(key.ravel()[0]) >> 6).astype(jnp.int32)
        return jax.lax.fori_loop(0, never, lambda _, y: y + jnp.ones((), y.dtype), x)
    return jax.lax.platform_dependent(x, key, cpu=loop, default=lambda x, key: jax.lax.optimization_barrier(x))
