"""What every reverse sampler promises, whatever it does."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from uivi._jax import strongly_typed
from uivi._types import Draw, Key, ReverseDraws, ReverseInfo
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.base import AbstractReverseSampler, Reversed, sample_reverse
from uivi.testing.promises import Counter, differing, require, require_same_structure, restored
from uivi.testing.sampling import draw_pairs

NUM_CHAINS = 7


def check_reverse_sampler(
    key: Key, sampler: AbstractReverseSampler, family: SemiImplicit, context: Array | None = None
) -> None:
    """Runs a reverse sampler in two fits side by side; an AssertionError names the promise that it breaks.

    Draws, weights and info have their shapes and the precision of the family; weights sum to one. The state
    keeps its structure and comes back from a checkpoint. The same key gives the same numbers, another key gives
    others, neither fit sees the other, and a second call with the next state compiles nothing.

    This says nothing about invariance: see `reverse_moments`.

    Args:
        key: random key.
        sampler: the sampler.
        family: a family that suits it.
        context: the context of the draws, if the family takes one.
    """
    name, traces = type(sampler).__name__, Counter()
    init_key, pair_key, first, second, other = jax.random.split(key, 5)
    contexts = None if context is None else jnp.broadcast_to(context, (NUM_CHAINS, *context.shape))
    pairs = draw_pairs(pair_key, family, NUM_CHAINS, contexts)
    state = strongly_typed(sampler.init(init_key, family))
    one = lambda key, state: sample_reverse(key, sampler, family, pairs, contexts, state)
    _check_structure(name, pairs, state, eqx.filter_eval_shape(one, first, state))

    @eqx.filter_jit
    def run(keys: Array, states: PyTree) -> Reversed:
        traces.count += 1
        found = eqx.filter_vmap(one)(keys, states)
        return Reversed(found.draws, found.info, strongly_typed(found.state))

    states = jax.tree.map(lambda x: jnp.stack([x, x]) if eqx.is_array(x) else x, state)
    found = run(jnp.stack([first, second]), states)
    _check_numbers(name, found)
    place = differing(found, run(jnp.stack([first, second]), states))
    require(not place, f"the same key gave other numbers at {place}: take all randomness from `key`")
    others = run(jnp.stack([first, other]), states)
    lane = lambda found, i: jax.tree.map(lambda x: x[i], eqx.filter(found, eqx.is_array))
    place = differing(lane(found, 0), lane(others, 0))
    require(not place, f"a fit depends on the fit beside it, at {place}: average over the axes of one fit only")
    place = differing(lane(found.draws, 1), lane(others.draws, 1))
    require(place, "another key gave the same draws: use `key`")
    place = differing(found.state, restored(found.state))
    require(not place, f"the state changes in a checkpoint, at {place}: make everything in it a JAX array")
    run(jnp.stack([first, second]), found.state)
    require(traces.count == 1, f"{name} was compiled again for the state that it returned")


def _check_structure(name: str, pairs: Draw, state: PyTree, found: Reversed) -> None:
    """Compares shapes and dtypes with what is promised."""
    num_draws, size = found.draws.eps.shape[1], pairs.eps.shape[1]

    def like(*shape: int) -> Any:
        return jax.ShapeDtypeStruct((NUM_CHAINS, *shape), pairs.z.dtype)

    draws = ReverseDraws(like(num_draws, size), like(num_draws), like(size))
    require_same_structure(f"the draws of {name}", draws, found.draws)
    info = ReverseInfo(*[like()] * len(ReverseInfo._fields))
    require_same_structure(f"the info of {name}", info, found.info)
    require_same_structure(f"the state of {name} after an update", state, found.state)


def _check_numbers(name: str, found: Reversed) -> None:
    """Looks at weights and statistics."""
    totals = np.sum(found.draws.weights, -1)
    require(np.allclose(totals, 1.0, atol=1e-5), f"expected weights of {name} that sum to one, got {totals}")
    rejected = np.asarray(found.info.nonfinite)
    require(not np.any(rejected), f"{name} rejected non-finite energies: {rejected}")
    for field in ("acceptance", "moved"):
        value = np.asarray(getattr(found.info, field))
        in_range = np.isnan(value) | ((value >= 0) & (value <= 1))
        require(np.all(in_range), f"expected `{field}` of {name} between 0 and 1, or NaN, got {value}")
