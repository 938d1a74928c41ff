"""Measures how well the reverse sampler mixes: how far its draws get from the ε they start at."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

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
        recovered_stderr: standard error of `recovered`.
        steps: mean number of steps until coupled chains meet (NaN without them).
    """

    acceptance: float
    moved: float
    jump: float
    dependence: float
    recovered: float
    recovered_stderr: float = 0.0
    steps: float = math.nan


def mixing_of(rows: Float[np.ndarray, "8 S"]) -> ReverseMixing:
    """Returns the diagnostics from their parts at every draw z.

    Args:
        rows: acceptance, moved, steps, jump and the four numbers of `compare`.
    """
    acceptance, moved, steps, jumped, there, here, projected, square = rows.astype(np.float64)
    # Ratios of totals, not means of ratios: a single z may have almost no spread of ε to divide by.
    with np.errstate(invalid="ignore", divide="ignore"):
        dependence, recovered = np.sum(there) / np.sum(here), np.sum(projected) / np.sum(square)
        stderr = np.linalg.norm(projected - recovered * square) / np.sum(square)  # the delta method
    means = (np.mean(acceptance), np.mean(moved), np.mean(jumped))
    found = (*means, dependence, recovered, stderr, np.mean(steps))
    return ReverseMixing._make(map(float, found))


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
    return mixing_of(np.asarray(_mixing(key, sampler, state, family, num_draws, num_reference)))


@seldom_jit
def _mixing(key: Key, sampler, state, family, num_draws: int, num_reference: int):
    draw_key, reverse_key, reference_key = jax.random.split(key, 3)
    draws = jax.vmap(lambda k: family.sample(k))(jax.random.split(draw_key, num_draws))
    reverse = sample_reverse(reverse_key, sampler, family, draws, None, state)
    proposal = sampler.fitted_proposal(state)

    def reference(args):
        key, draw, used = args
        return compare(
            family, draw, *together(used, *importance_weights(key, family, draw, num_reference, proposal))
        )

    keys = jax.random.split(reference_key, num_draws)
    at_once = max(1, PAIRS_AT_ONCE // num_reference)
    parts = jax.lax.map(reference, (keys, draws, reverse.draws), batch_size=at_once)
    jumps = jax.vmap(lambda d, r: jump(family, d, r))(draws, reverse.draws)
    return jnp.stack([*reverse.info[:3], jumps, *parts])


def compare(
    family: SemiImplicit, draw: Draw, eps: Array, used: Array, weights: Array
) -> tuple[Array, Array, Array, Array]:
    """Returns numerators and denominators of `dependence` and `recovered` at one z.

    The score at the start alone, ∇ log q(z|ε), gives the gradient of H(z|ε); the exact score, ∇ log q(z), gives
    the gradient of H(z). Their gap gives the gradient of I(z;ε), and the sampler's score is projected on it.

    Args:
        family: the family.
        draw: z and the ε that made it.
        eps: the generating ε, followed by draws of the reference and of the sampler.
        used: weights that the sampler gives to them, which sum to one.
        weights: log weights of the reference. The generating ε is an exact draw from q(ε|z): with it they
            cannot all be negligible.
    """
    start = jnp.where(jnp.arange(len(weights)) == 0, jnp.ones_like(weights), 0.0)
    every = jnp.stack([used, jnp.exp(jax.nn.log_softmax(weights)), start])
    # Mapped over the weights alone, so that the network is evaluated once for all three.
    score_used, score_exact, score_start = jax.vmap(
        lambda weights: score(family, draw.z, ReverseDraws(eps, weights, draw.eps))
    )(every)
    there, mean = every[:2] @ eps
    here, gap = draw.eps - mean, score_exact - score_start
    return here @ (there - mean), here @ here, (score_used - score_start) @ gap, gap @ gap


def together(
    used: ReverseDraws, eps: Float[Array, "M E"], weights: Float[Array, "M"]
) -> tuple[Float[Array, "N E"], Float[Array, "N"], Float[Array, "N"]]:
    """Returns the draws of a reference and of a sampler in one array.

    With them come the weights of the sampler and the log weights of the reference, on all of them.
    """
    return (
        jnp.concatenate([eps, used.eps]),
        jnp.concatenate([jnp.zeros_like(weights), used.weights]),
        jnp.concatenate([weights, jnp.full_like(used.weights, -jnp.inf)]),
    )
