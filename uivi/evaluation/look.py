"""One look at a fit: draws, densities from both sides, and how the reverse sampler mixes, from one program.

The monitor, the verdict and reweighted draws all use it, at one size. A fit compiles it once.
"""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from uivi._jax import one_blas_thread, seldom_jit
from uivi._random import written_out
from uivi._types import Draw, Key, ReverseDraws, ReverseInfo
from uivi.estimators.base import AbstractEstimator
from uivi.estimators.uivi import UIVI
from uivi.evaluation.bounds import PAIRS_AT_ONCE, Evaluated, high_and_low, importance_weights, need_known
from uivi.evaluation.reverse_mixing import ReverseMixing, compare, mixing_of, together
from uivi.evaluation.wide import Pooled, log_ratio, sample_scaled, scale_of
from uivi.families.base import AbstractFamily
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.base import AbstractReverseSampler, jump
from uivi.reverse.isir import ISIR
from uivi.reverse.proposals import FittedProposal
from uivi.targets.base import AbstractTarget, log_density_at
from uivi.targets.traced import traced

BATCH = 1_024
"""Number of draws of q in one call of the program."""
WIDE = 128
"""Number of wide draws besides them; see `uivi.evaluation.wide`."""
NUM_MIXING = 256
"""Largest number of proposals of ε for each draw."""
NUM_MIXING_LARGE, LARGE_ABOVE = 64, 200
"""The same for a z larger than this, where each proposal costs more."""
NUMBERS_AT_ONCE = 2**22
"""Numbers z that are evaluated side by side. It bounds the memory, and they stay in the cache."""


class Look(NamedTuple):
    """What a look at a fit finds.

    Attributes:
        evaluated: draws with log p and both estimates of log q.
        mixing: how the reverse sampler mixes, or None for a method without one.
        pooled: the same draws and wide ones.
    """

    evaluated: Evaluated
    mixing: ReverseMixing | None
    pooled: Pooled


def look(
    key: Key,
    family: AbstractFamily,
    target: AbstractTarget,
    estimator: AbstractEstimator,
    est_state: PyTree,
    *,
    num_draws: int = BATCH,
    first: int = 0,
) -> Look:
    """Looks at a fit of a family without context to a target with a single site.

    Args:
        key: random key.
        family: the family.
        target: the target.
        estimator: the method of the fit. Its learned proposal tightens the bounds.
        est_state: state of the method.
        num_draws: number of draws, rounded up to whole batches.
        first: number of the first batch. Batches of different numbers are independent.
    """
    arguments = _arguments(family, target, estimator, est_state)
    numbers = range(first, first - (-num_draws // BATCH))
    with one_blas_thread():
        found = [look_batch(key, np.int32(number), *arguments) for number in numbers]
        found = jax.tree.map(np.asarray, found)
    join = lambda parts: (np.concatenate(part) for part in zip(*parts, strict=True))
    plain, pooled, mixing = zip(*found, strict=True)
    evaluated = Evaluated(*join(plain))
    if pooled[0] is None:
        z, log_p, log_q, _ = evaluated
        both = Pooled(z, log_p, log_q, log_q, np.zeros(len(z), bool))
    else:
        both = Pooled(*join(pooled))
    return Look(evaluated, None if mixing[0] is None else mixing_of(np.concatenate(mixing, 1)), both)


def _arguments(family: AbstractFamily, target: AbstractTarget, estimator: AbstractEstimator, est_state: PyTree):
    if not isinstance(family, SemiImplicit):
        return family, traced(target), None, None, None
    proposal = estimator.fitted_proposal(est_state)
    sampler = estimator.sampler if isinstance(estimator, UIVI) else None
    return family, traced(target), proposal, sampler, est_state if sampler else None


@seldom_jit
def look_batch(
    key: Key,
    number: Any,
    family: AbstractFamily,
    target: AbstractTarget,
    proposal: FittedProposal | None,
    sampler: AbstractReverseSampler | None,
    state: PyTree,
) -> tuple[tuple[Array, ...], tuple[Array, ...] | None, Array | None]:
    """Returns the columns of `Evaluated` and of `Pooled`, and the parts of `ReverseMixing`, of one batch."""
    draw_key, reverse_key, mixing_key = jax.random.split(jax.random.fold_in(written_out(key), number), 3)
    if not isinstance(family, SemiImplicit) or proposal is None:
        draws = jax.vmap(lambda k: family.sample(k))(jax.random.split(draw_key, BATCH))
        log_q = jax.vmap(need_known(family).log_prob)(draws.z)
        return (draws.z, log_density_at(target, draws.z), log_q, log_q), None, None
    total = BATCH + WIDE
    is_wide = jnp.arange(total) >= BATCH
    sample = lambda key, wide: sample_scaled(key, family, jnp.where(wide, scale_of(family.mixing), 1.0))
    draws = jax.vmap(sample)(jax.random.split(draw_key, total), is_wide)
    log_p = log_density_at(target, draws.z)
    given = family
    num_mixing = NUM_MIXING if family.dim <= LARGE_ABOVE else NUM_MIXING_LARGE
    at_once = min(PAIRS_AT_ONCE, NUMBERS_AT_ONCE // family.dim) // num_mixing
    size = _divisor(total, at_once)

    def part(args: tuple[Array, Array, Draw]):
        """Treats `size` draws side by side."""
        family, (reverse_keys, mixing_keys, draws) = _kept_inside(given, args)
        weigh = lambda key, draw: importance_weights(key, family, draw, num_mixing, proposal)
        eps, weights = jax.vmap(weigh)(mixing_keys, draws)
        high, low = jax.vmap(lambda w: high_and_low(jax.nn.logsumexp(w[1:]), w[0], num_mixing))(weights)
        ratios = jax.vmap(jax.vmap(lambda e: log_ratio(family.mixing, e, WIDE / total)))(eps)
        sides = high, low, jax.nn.logsumexp(weights + ratios, 1) - jnp.log(num_mixing + 1)
        if sampler is None:
            return sides, None
        if isinstance(sampler, ISIR) and sampler.total <= num_mixing // 2:
            # The sampler's proposals are draws of the same kind: it takes the first ones, and the reference has
            # the others. The program is half as large as with draws of its own.
            used, info = jax.vmap(functools.partial(_first_of, sampler))(reverse_keys, eps, weights)
            taken = (jnp.arange(num_mixing + 1) > 0) & (jnp.arange(num_mixing + 1) <= sampler.total)
            both = eps, used.weights, jnp.where(taken[None], -jnp.inf, weights)
        else:
            used, info, _ = sampler.sample(reverse_keys, family, draws, None, state)
            both = jax.vmap(together)(used, eps, weights)
        parts = jax.vmap(lambda *each: compare(family, *each))(draws, *both)
        jumps = jax.vmap(lambda d, r: jump(family, d, r))(draws, used)
        return sides, jnp.stack([*info[:3], jumps, *parts], 1)

    keys = (jax.random.split(reverse_key, total), jax.random.split(mixing_key, total))
    pieces = jax.tree.map(lambda x: x.reshape(total // size, size, *x.shape[1:]), (*keys, draws))
    sides, mixing = jax.lax.map(part, pieces)
    high, low, mixture = (side.reshape(total) for side in sides)
    plain = tuple(column[:BATCH] for column in (draws.z, log_p, high, low))
    # Wide draws have no part in how the sampler mixes.
    rows = None if mixing is None else mixing.reshape(total, -1)[:BATCH].T
    return plain, (draws.z, log_p, high, mixture, is_wide), rows


def _kept_inside(family: SemiImplicit, args: PyTree) -> tuple[SemiImplicit, PyTree]:
    """Returns the same, tied together inside a loop.

    Otherwise XLA moves the preparation of the network's weights out of the loop, once for the density and once
    for the score. It then no longer sees that both evaluate the same network, and evaluates it twice.
    """
    arrays, static = eqx.partition(family, eqx.is_array)
    arrays, args = jax.lax.optimization_barrier((arrays, args))
    return eqx.combine(arrays, static), args


def _first_of(sampler: ISIR, key: Key, eps: Array, weights: Array) -> tuple[ReverseDraws, ReverseInfo]:
    """Runs i-SIR on the first proposals. All others come along with weight zero."""
    size = sampler.total + 1
    used, info = sampler.weigh(key, eps[:size], weights[:size])
    nothing = jnp.zeros((len(weights) - size,), weights.dtype)
    return ReverseDraws(eps, jnp.concatenate([used.weights, nothing]), used.last), info


def _divisor(number: int, most: int) -> int:
    """Returns the largest power of two up to `most` that divides `number`, so that there is no remainder."""
    size = 1
    while size * 2 <= most and number % (size * 2) == 0:
        size *= 2
    return size


def lowered_look(
    key: Key, family: AbstractFamily, target: AbstractTarget, estimator: AbstractEstimator, est_state: PyTree
) -> jax.stages.Lowered:
    """Returns the program of `look` before compilation."""
    return look_batch.compiled.lower(
        key, np.int32(0), *_arguments(family, target, estimator, est_state)
    ).lowered
