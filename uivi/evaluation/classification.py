"""Scores draws from a classifier's posterior by how well they predict held-out labels."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Key
from uivi.families.base import AbstractFamily
from uivi.targets.regression import LabelledRows, SoftmaxRegression

_DRAWS_AT_ONCE = 50
"""Draws whose predictions for all rows are in memory at a time."""
_NUM_BINS = 15
"""Bins of the calibration error, as in Guo et al. (2017)."""


class Predictive(NamedTuple):
    """Scores on held-out rows.

    Attributes:
        joint: log (1/S) Σ_s Π_n p(y_n|x_n, z_s), divided by N. This is the authors' form; the best draw
            dominates it.
        pointwise: mean over n of log (1/S) Σ_s p(y_n|x_n, z_s), the usual predictive log-likelihood.
        pointwise_stderr: standard error of `pointwise` over the rows.
        accuracy: accuracy of the averaged prediction.
        calibration: expected calibration error of the averaged prediction, with 15 bins.
    """

    joint: Array
    pointwise: Array
    pointwise_stderr: Array
    accuracy: Array
    calibration: Array


@eqx.filter_jit
def predict(
    key: Key, family: AbstractFamily, target: SoftmaxRegression, held_out: LabelledRows, num_draws: int
) -> Predictive:
    """Scores draws from q on held-out rows. It streams over the draws to bound the memory.

    Args:
        key: random key.
        family: a fitted family without context.
        target: the model, which turns z into predictions.
        held_out: features as floats, and labels.
        num_draws: number of draws, S.
    """
    _checks.positive_int("num_draws", num_draws)
    x, y = held_out
    log_s = jnp.log(num_draws)

    def one(key: Key):
        log_p = jax.nn.log_softmax(target.logits(family.sample(key).z, x))
        return jnp.sum(_of_label(log_p, y)), log_p

    def add(total, key_block):
        keys, used = key_block
        joint, log_p = jax.vmap(one)(keys)
        # The last block is filled up to the common size: surplus draws get the probability zero.
        log_p = jnp.where(used[:, None, None], log_p, -jnp.inf)
        return jnp.logaddexp(total, jax.nn.logsumexp(log_p, 0)), jnp.where(used, joint, -jnp.inf)

    size = min(_DRAWS_AT_ONCE, num_draws)
    blocks = -(-num_draws // size)
    keys = jax.random.split(key, (blocks, size))
    used = (jnp.arange(blocks * size) < num_draws).reshape(blocks, size)
    start = jnp.full((x.shape[0], target.num_classes), -jnp.inf)
    total, joint = jax.lax.scan(add, start, (keys, used))
    log_p = total - log_s
    of_label = _of_label(log_p, y)
    right = jnp.argmax(log_p, -1) == y
    return Predictive(
        (jax.nn.logsumexp(joint) - log_s) / x.shape[0],
        jnp.mean(of_label),
        jnp.std(of_label) / jnp.sqrt(x.shape[0]),
        jnp.mean(right.astype(x.dtype)),
        _calibration_error(jnp.exp(jnp.max(log_p, -1)), right.astype(x.dtype)),
    )


def _of_label(log_p: Float[Array, "N K"], y: Array) -> Float[Array, "N"]:
    return jnp.take_along_axis(log_p, y[:, None], 1)[:, 0]


def _calibration_error(confidence: Float[Array, "N"], right: Float[Array, "N"]) -> Array:
    """Returns Σ_bins (share of rows) |accuracy - confidence| (Guo et al. 2017)."""
    # A confidence of exactly 1 belongs to the last bin.
    bins = jnp.clip((confidence * _NUM_BINS).astype(jnp.int32), 0, _NUM_BINS - 1)
    # Share times mean is sum over N. The number of rows in a bin cancels, so an empty bin is no special case.
    gap = jax.ops.segment_sum(right - confidence, bins, _NUM_BINS)
    return jnp.sum(jnp.abs(gap)) / confidence.shape[0]
