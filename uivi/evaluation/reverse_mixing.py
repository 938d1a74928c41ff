"""How well the reverse sampler mixes: how far its draws get from the ε they start at."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from uivi._types import Draw, Key, ReverseDraws
from uivi.estimators.marginal_score import score
from uivi.evaluation.bounds import importance_weights
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.base import AbstractReverseSampler, jump, sample_reverse


class ReverseMixing(NamedTuple):
    """How far ε′ gets from the ε it starts at.

    Attributes:
        acceptance: mean Metropolis acceptance (NaN without such moves).
        moved: share of i-SIR weight that leaves the start (NaN without i-SIR).
        jump: squared distance of ε′ from ε over that of independent draws of q(ε).
        dependence: correlation of ε and ε′ given z: 0 independent, 1 stuck.
        recovered: share of the gradient of I(z;ε) that the score recovers: 1 unbiased, 0 the gradient
            of H(z|ε) alone.
    """

    acceptance: float
    moved: float
    jump: float
    dependence: float
    recovered: float


def measure_mixing(
    key: Key,
    sampler: AbstractReverseSampler,
    state: Any,
    family: SemiImplicit,
    *,
    num_draws: int = 512,
    num_reference: int = 1024,
) -> ReverseMixing:
    """Run the sampler once on fresh draws and compare with self-normalised importance sampling.

    Args:
        key: random key.
        sampler: the reverse sampler.
        state: as the fit left it.
        family: without context.
        num_draws: how many z.
        num_reference: importance draws per z, from the sampler's own proposal, the generating ε among them.
    """
    values = _mixing(key, sampler, state, family, num_draws, num_reference)
    return ReverseMixing(*(float(v) for v in values))


@eqx.filter_jit
def _mixing(key: Key, sampler, state, family, num_draws: int, num_reference: int):
    draw_key, reverse_key, reference_key = jax.random.split(key, 3)
    draws = jax.vmap(lambda k: family.sample(k))(jax.random.split(draw_key, num_draws))
    reverse = sample_reverse(reverse_key, sampler, family, draws, None, state)
    proposal = sampler.fitted_proposal(state)

    def reference(args):
        key, draw, used = args
        eps, fresh, own = importance_weights(key, family, draw, num_reference, proposal)
        all_eps = jnp.concatenate([eps, draw.eps[None]])
        weights = jax.nn.log_softmax(jnp.concatenate([fresh, own[None]]))
        exact = ReverseDraws(all_eps, weights, draw.eps)
        start = ReverseDraws(draw.eps[None], jnp.zeros_like(own)[None], draw.eps)
        return _compare(family, draw, used, exact, start)

    keys = jax.random.split(reference_key, num_draws)
    parts = jax.lax.map(reference, (keys, draws, reverse.draws), batch_size=max(1, 65_536 // num_reference))
    totals = jax.tree.map(lambda x: jnp.sum(x, 0), parts)
    jumps = jax.vmap(lambda d, r: jump(family, d, r))(draws, reverse.draws)
    return (
        jnp.mean(reverse.info.acceptance),
        jnp.mean(reverse.info.moved),
        jnp.mean(jumps),
        totals[0] / totals[1],
        totals[2] / totals[3],
    )


def _compare(
    family: SemiImplicit, draw: Draw, used: ReverseDraws, exact: ReverseDraws, start: ReverseDraws
) -> tuple[Array, Array, Array, Array]:
    """Sums for `dependence` and `recovered` at one z."""
    mean = jnp.exp(exact.log_weights) @ exact.eps
    here, there = draw.eps - mean, jnp.exp(used.log_weights) @ used.eps - mean
    score_used, score_exact, score_start = (score(family, draw.z, r) for r in (used, exact, start))
    gap = score_exact - score_start
    return here @ there, here @ here, (score_used - score_start) @ gap, gap @ gap
