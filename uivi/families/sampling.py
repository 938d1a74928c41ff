"""Many draws of a family, in batches of one size: one compiled program for any number of draws."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from uivi._jax import seldom_jit
from uivi._random import written_out
from uivi._types import Context, Draw, Key
from uivi.families.base import AbstractFamily

BATCH = 1_024


def sample_many(key: Key, family: AbstractFamily, num_draws: int, context: Context = None) -> Draw:
    """Returns independent draws with a leading axis. Fewer draws are the first of more draws."""
    batches = [sample_batch(key, family, number, context) for number in range(-(-num_draws // BATCH))]
    if len(batches) == 1:
        return batches[0] if num_draws == BATCH else jax.tree.map(lambda x: x[:num_draws], batches[0])
    return jax.tree.map(lambda *parts: jnp.concatenate(parts)[:num_draws], *batches)


def sample_batch(key: Key, family: AbstractFamily, number: int, context: Context = None) -> Draw:
    """Returns batch `number` of the draws: draws number * BATCH and following."""
    return _sample(key, family, np.int32(number), context)


@seldom_jit
def _sample(key: Key, family: AbstractFamily, number: Any, context: Context) -> Draw:
    keys = jax.random.split(jax.random.fold_in(written_out(key), number), BATCH)
    return jax.vmap(lambda k: family.sample(k, context))(keys)
