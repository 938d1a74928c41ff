"""States to save in checkpoints."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


class State(eqx.Module):
    """One leaf of each sort."""

    weights: jax.Array
    count: jax.Array
    key: jax.Array
    name: str = "static"


def make_state(seed=0):
    weights = jax.random.normal(jax.random.key(seed), (3,)).at[1].set(jnp.nan)
    return State(weights, jnp.asarray(seed, jnp.int32), jax.random.key(seed + 1))


def leaves(state):
    values = jax.tree.leaves(eqx.filter(state, eqx.is_array))
    keys = [jnp.issubdtype(x.dtype, jax.dtypes.prng_key) for x in values]
    return [np.asarray(jax.random.key_data(x) if k else x) for x, k in zip(values, keys, strict=True)]


def contents(directory):
    return {p.name: p.read_bytes() for p in directory.iterdir() if p.name != ".lock"}
