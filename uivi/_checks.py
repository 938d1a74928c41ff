"""Checks of arguments. Messages say what was expected, what came, and what to do."""

import difflib
import math
import numbers
from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np

MOST = 10**9
"""Largest number of anything. XLA ends the whole process, or fails with errors of its own, for far more."""


def positive_int(name: str, value: object) -> int:
    """Returns `value` if it is a positive whole number, otherwise raises."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value <= 0:
        raise ValueError(f"expected `{name}` to be a positive whole number, got {value!r}")
    if (number := int(value)) > MOST:
        raise ValueError(f"expected `{name}` to be at most {MOST:,}, got {number:,}: is it a typing error?")
    return number


def count(name: str, value: object) -> int:
    """Returns `value` if it is a whole number from 0 on, otherwise raises."""
    if value == 0 and isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return 0
    return positive_int(name, value)


def positive_float(name: str, value: object) -> float:
    """Returns `value` as a float if it is a positive finite number, otherwise raises."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"expected `{name}` to be a positive number, got {value!r}")
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"expected `{name}` to be positive and finite, got {value!r}")
    return float(value)


def shape(name: str, array, expected: tuple[int, ...], advice: str) -> None:
    """Raises unless `array` has the expected shape."""
    if jnp.shape(array) != expected:
        raise ValueError(f"expected {name} of shape {expected}, got {jnp.shape(array)}: {advice}")


def known_name(kind: str, name: str, names: Iterable[str]) -> str:
    """Returns `name` if it is one of `names`, otherwise raises with the nearest match."""
    names = sorted(names)
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"unknown {kind} {name!r}: {hint}known: {', '.join(names)}")


def seed(name: str, value: object) -> int:
    """Returns `value` if it is a whole number of 32 bits, otherwise raises: JAX would drop the other bits."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"expected `{name}` to be a whole number, got {value!r}")
    if not 0 <= int(value) < 2**32:
        raise ValueError(f"expected `{name}` from 0 to {2**32 - 1}, got {value}")
    return int(value)


def key_or_seed(key, random_seed: object) -> jax.Array:
    """Returns whichever of the two is given, as a typed JAX key."""
    if (key is None) == (random_seed is None):
        which = "neither" if key is None else "both"
        raise TypeError(
            f"expected either `key` or `random_seed`, got {which}: pass key=jax.random.key(0) or random_seed=0"
        )
    if random_seed is None:
        return prng_key(key)
    return jax.random.key(np.uint32(seed("random_seed", random_seed)))


def prng_key(key) -> jax.Array:
    """Returns `key` if it is a typed JAX key, or a wrapped legacy key, otherwise raises."""
    if isinstance(key, jax.Array):
        if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ():
            return key
        if key.dtype == jnp.uint32 and key.shape == (2,):
            return jax.random.wrap_key_data(key)
    raise TypeError(
        f"expected `key` to be one JAX random key, got {type(key).__name__} {key!r}: pass jax.random.key(0)"
    )
