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

    A key of another generator comes back as it is.
    """
    return _rewrapped(key, "threefry2x32", _IMPLEMENTATION)


def normal(key: Key, shape: tuple[int, ...], dtype: Any = float) -> Float[Array, "..."]:
    """Returns standard normal numbers, computed once for all that use them."""
    bare = _rewrapped(key, "uivi", _BARE)
    # Flat, because LLVM vectorises a loop over one long axis only.
    numbers = jax.random.normal(bare, (math.prod(shape),), dtype)
    return _computed_once(numbers, jax.random.key_data(key)).reshape(shape)


def _rewrapped(key: Key, name: str, implementation: Any) -> Key:
    """Returns the key with another implementation, if its own has this name."""
    if str(jax.random.key_impl(key)) != name:
        return key
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=implementation)


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


def _bare_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    x, y = _threefry(key, *_counters((math.prod(shape),)))
    if bit_width == 64:
        bits = (x.astype(jnp.uint64) << 32) | y.astype(jnp.uint64)
    else:
        bits = (x ^ y).astype(f"uint{bit_width}")
    return bits.reshape(shape)


def _random_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    return _computed_once(_bare_bits(key, bit_width, shape), key)


@jax.custom_batching.custom_vmap
def _computed_once(x: Array, key: Array) -> Array:
    """Keeps XLA from computing an elementwise chain again for each of its consumers.

    Args:
        x: the result of the chain.
        key: words that XLA does not know.
    """

    def loop(x: Array, key: Array) -> Array:
        # On a CPU, XLA drops its barriers before it fuses. It cannot fuse across a loop. This one never runs,
        # but XLA does not know that a word has fewer than 64 bits set.
        never = (lax.population_count(key.ravel()[0]) >> 6).astype(jnp.int32)
        return lax.fori_loop(0, never, lambda _, y: y + jnp.ones((), y.dtype), x)

    return lax.platform_dependent(x, key, cpu=loop, default=lambda x, _: lax.optimization_barrier(x))


@_computed_once.def_vmap
def _(axis_size: int, in_batched: list[bool], x: Array, key: Array) -> tuple[Array, bool]:
    """Treats the batch as one array."""
    del axis_size
    return _computed_once(x, key), in_batched[0]


def _implementation(name: str, random_bits: Any) -> Any:
    functions = {"seed": _seed, "split": _split, "random_bits": random_bits, "fold_in": _fold_in}
    return extended.define_prng_impl(key_shape=(2,), name=name, tag=name, **functions)


_IMPLEMENTATION = _implementation("uivi", _random_bits)
_BARE = _implementation("uivi-bare", _bare_bits)
"""The same without a barrier, for numbers that are not used as they are."""
