"""How far draws are from what is known of a target: exact draws, the weights of its modes, its marginals."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from uivi.evaluation.metrics import distance
from uivi.paper.methods.problems import marginal_scores
from uivi.targets import ConditionedDiffusion
from uivi.targets.base import AbstractGlobalTarget, AbstractSamplable
from uivi.targets.diffusion import Marginals
from uivi.targets.mixtures import AbstractMixture

NUM_EXACT = 4_000
"""Size of each of the two exact samples that draws are compared with, if there are as many draws."""
FOUND_SHARE = 1 / 3
"""Share of its weight that a mode must have among the draws to count as found."""
SHARES_AT_ONCE = 2_048
"""Draws whose components are weighed at once."""

Draws = Float[np.ndarray, "S D"]


def scores(target: AbstractGlobalTarget, draws: Draws) -> dict[str, float]:
    """Returns what is known to be wrong with draws, by the kind of target; nothing for most posteriors."""
    found: dict[str, float] = {}
    if isinstance(target, AbstractSamplable):
        found |= distance_scores(target, draws)
    if isinstance(target, AbstractMixture):
        found |= mode_scores(np.concatenate([_shares(target, part) for part in _parts(draws)]).mean(0))
    if isinstance(target, ConditionedDiffusion):
        found |= marginal_scores(_marginals(target), draws)
    return found


def is_scored(target: AbstractGlobalTarget) -> bool:
    """Whether anything is known of a target beside its log Z."""
    return isinstance(target, AbstractSamplable | AbstractMixture | ConditionedDiffusion)


def distance_scores(target: AbstractSamplable, draws: Draws) -> dict[str, float]:
    """Returns the sliced W2 to exact draws, in their standard deviations, beside that of two exact samples."""
    size = min(NUM_EXACT, len(draws))
    found = distance(draws, _exact(target, 2 * size))
    return {
        "distance": found.sds,
        "distance_exact": found.sds / found.over_noise,
        "distance_ratio": found.over_noise,
    }


def mode_scores(shares: Float[np.ndarray, "K"]) -> dict[str, float]:
    """Returns how many modes of equal weight the draws have found, and how far their weights are off.

    Args:
        shares: share of the draws that belongs to each mode; 1/K is right.
    """
    relative = shares * len(shares)
    with np.errstate(divide="ignore"):
        factors = np.maximum(relative, 1 / relative)
    return {
        "modes": float(len(shares)),
        "modes_found": float(np.sum(relative >= FOUND_SHARE)),
        "weight_error": float(np.max(np.abs(shares - 1 / len(shares)))),
        "weight_factor": float(np.max(factors)),
    }


def _parts(draws: Draws) -> list[Any]:
    # Whole parts only: one program, and the mean of their means is that of all draws.
    size = min(SHARES_AT_ONCE, len(draws))
    return [jnp.asarray(draws[i * size : (i + 1) * size], float) for i in range(len(draws) // size)]


def _shares(target: AbstractMixture, draws: Any) -> np.ndarray:
    return np.asarray(_shares_of(target, draws), np.float64)[None]


@jax.jit
def _shares_of(target: AbstractMixture, draws: Any) -> Any:
    return target.shares(draws)


def _exact(target: AbstractSamplable, number: int) -> Draws:
    return np.asarray(_exact_draws(target, jax.random.split(jax.random.key(2019), number)), np.float64)


@jax.jit
def _exact_draws(target: AbstractSamplable, keys: Any) -> Any:
    return jax.vmap(target.sample)(keys)


@functools.cache
def _marginals(target: ConditionedDiffusion) -> Marginals:
    """Filters once for all fits of a process."""
    return target.exact()
