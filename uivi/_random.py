"""JAX's own random numbers, in a form that compiles and runs faster inside a large program.

JAX rolls the rounds of its generator (Threefry, Salmon et al. 2011) into a loop on a CPU. An update has a dozen
such loops, which take longer to start than to run and which XLA cannot fuse with anything else. Here the rounds
are written out. The numbers are the same, bit by bit.
"""

from typing import Any

import jax
import jax.numpy as jnp
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
    return jax.lax.optimization_barrier(jax.random.normal(key, shape, dtype))


def _threefry(key: Array, high: Array, low: Array) -> tuple[Array, Array]:
    """Returns both words of Threefry-2x32 with 20 rounds, elementwise in the counter."""
    first, second = key[0], key[1]
    keys = (first, second, first ^ second ^ jnp.uint32(_PARITY))
    x, y = high + first, low + second
    for group in range(_NUM_GROUPS):
        for rotation in _ROTATIONS[group % 2]:
            x = x + y
            y = ((y << jnp.uint32(rotation)) | (y >> jnp.uint32(32 - rotation))) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + jnp.uint32(group + 1)
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
    return jnp.stack(_threefry(key, *_counters(shape)), -1)


def _fold_in(key: Array, data: Array) -> Array:
    return jnp.stack(_threefry(key, jnp.zeros((), jnp.uint32), data.astype(jnp.uint32)))


def _random_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    x, y = _threefry(key, *_counters(shape))
    if bit_width == 64:
        return (x.astype(jnp.uint64) << 32) | y.astype(jnp.uint64)
    return (x ^ y).astype(f"uint{bit_width}")


_IMPLEMENTATION = extended.define_prng_impl(
    key_shape=(2,), seed=_seed, split=_split, random_bits=_random_bits, fold_in=_fold_in, name="uivi", tag="uivi"
)
