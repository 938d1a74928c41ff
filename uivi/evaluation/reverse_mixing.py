"""Measures how well the reverse sampler mixes: how far its draws get from the ε they start at."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from uivi._jax import seldom_jit
from uivi._types import Draw, Key, ReverseDraws
from uivi.estimators.marginal_score import score
from uivi.evaluation.bounds import PAIRS_AT_ONCE, importance_weights
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.base import AbstractReverseSampler, jump, sample_reverse


class ReverseMixing(NamedTuple):
    """How far ε′ gets from the ε it starts at.

    Attributes:
        acceptance: mean Metropolis acceptance (NaN without such moves).
        moved: share of i-SIR weight that leaves the start (NaN without i-SIR).
        jump: squared distance between ε′ and ε, relative to independent draws from q(ε).
        dependence: correlation of ε and ε′ given z: 0 if independent, 1 if stuck.
        recovered: share of the gradient of I(z;ε) that the score recovers: 1 if it is unbiased, 0 if only the
            gradient of H(z|ε) is left.
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
    """Runs the sampler once on fresh draws and compares it with self-normalised importance sampling.

    Args:
        key: random key.
        sampler: the reverse sampler.
        state: state of the sampler at the end of the fit.
        family: a family without context.
        num_draws: number of draws z.
        num_reference: number of importance draws per z from the sampler's own proposal. The generating ε is
            added to them.
    """
    values = _mixing(key, sampler, state, family, num_draws, num_reference)
    return ReverseMixing(*(float(v) for v in values))


@seldom_jit
def _mixing(key: Key, sampler, state, family, num_draws: int, num_reference: int):
    draw_key, reverse_key, reference_key = jax.random.split(key, 3)
    draws = jax.vmap(lambda k: family.sample(k))(jax.random.split(draw_key, num_draws))
    reverse = sample_reverse(reverse_key, sampler, family, draws, None, state)
    proposal = sampler.fitted_proposal(state)

    def reference(args):
        key, draw, used = args
        return compare(family, draw, used, *importance_weights(key, family, draw, num_reference, proposal))

    keys = jax.random.split(reference_key, num_draws)
    at_once = max(1, PAIRS_AT_ONCE // num_reference)
    parts = jax.lax.map(reference, (keys, draws, reverse.draws), batch_size=at_once)
    # Ratios of totals, not means of ratios: a single z may have almost no spread of ε to divide by.
    totals = jax.tree.map(lambda x: jnp.sum(x, 0), parts)
    jumps = jax.vmap(lambda d, r: jump(family, d, r))(draws, reverse.draws)
    return (
        jnp.mean(reverse.info.acceptance),
        jnp.mean(reverse.info.moved),
        jnp.mean(jumps),
        totals[0] / totals[1],
        totals[2] / totals[3],
    )


def compare(
    family: SemiImplicit, draw: Draw, used: ReverseDraws, eps: Array, weights: Array
) -> tuple[Array, Array, Array, Array]:
    """Returns numerators and denominators of `dependence` and `recovered` at one z.

    The score at the start alone, ∇ log q(z|ε), gives the gradient of H(z|ε); the exact score, ∇ log q(z), gives
    the gradient of H(z). Their gap gives the gradient of I(z;ε), and the sampler's score is projected on it.

    Args:
        family: the family.
        draw: z and the ε that made it.
        used: what the sampler returned.
        eps: the generating ε followed by proposals, for the reference. The generating ε is an exact draw from
            q(ε|z): with it the weights cannot all be negligible.
        weights: their log weights.
    """
    exact = ReverseDraws(eps, jax.nn.log_softmax(weights), draw.eps)
    # The same array ε with all weight on its first entry, so that XLA evaluates the network once for both.
    only_first = jnp.where(jnp.arange(len(weights)) == 0, jnp.zeros_like(weights), -jnp.inf)
    start = ReverseDraws(eps, only_first, draw.eps)
    mean = jnp.exp(exact.log_weights) @ exact.eps
    here, there = draw.eps - mean, jnp.exp(used.log_weights) @ used.eps - mean
    score_used, score_exact, score_start = (score(family, draw.z, r) for r in (used, exact, start))
    gap = score_exact - score_start
    return here @ there, here @ here, (score_used - score_start) @ gap, gap @ gap
