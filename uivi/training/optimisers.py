"""Optimisers: the paper's RMSProp as an Optax transformation, and the default."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from uivi import _checks
from uivi.trainable import trained

LARGE = 2**15
"""Size from which `pack` leaves an array alone. With many fits side by side, copying it is not cheap."""


def pack(tree: PyTree) -> tuple[list[Array], Callable[[PyTree], PyTree]]:
    """Joins all small arrays into one vector, followed by the large ones; also returns the inverse."""
    leaves, treedef = jax.tree.flatten(tree)
    is_large = [leaf.size >= LARGE for leaf in leaves]
    small = [leaf for leaf, large in zip(leaves, is_large, strict=True) if not large]
    vector, split = ravel_pytree(small)

    def unpack(packed: PyTree) -> PyTree:
        parts, others = iter(split(packed[0])), iter(packed[1:])
        return jax.tree.unflatten(treedef, [next(others if large else parts) for large in is_large])

    return [vector, *(leaf for leaf, large in zip(leaves, is_large, strict=True) if large)], unpack


def joined(inner: optax.GradientTransformation) -> optax.GradientTransformation:
    """Applies `inner` to packed arrays: a GPU then runs a few kernels in all, instead of a few per array.

    This is for transformations that treat all elements alike, such as Adam or a bound on the global norm.
    """

    def init(params):
        return inner.init(pack(params)[0])

    def update(updates, state, params=None):
        packed, unpack = pack(updates)
        packed, state = inner.update(packed, state, None if params is None else pack(params)[0])
        return unpack(packed), state

    return optax.GradientTransformation(init, update)


class PaperRMSPropState(NamedTuple):
    """Update count and running mean of squared gradients."""

    count: Array
    mean_square: PyTree


def scale_by_paper_rmsprop(weight: float = 0.1) -> optax.GradientTransformation:
    """Divides by 1 + √G with G ← (1 - w) G + w g², and G = g² at the first step.

    See Titsias & Ruiz (2019), Section 4.1. The 1 stands outside the root, so the scale of the gradient matters.
    """

    def init(params):
        return PaperRMSPropState(jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params))

    def update(updates, state, params=None):
        del params
        # The authors' code seeds G with the first squared gradient; zeros would make the first step too long.
        weight_now = jnp.where(state.count == 0, 1.0, weight)

        def next_square(old, g):
            w = weight_now.astype(g.dtype)
            return (1 - w) * old + w * g**2

        squares = jax.tree.map(next_square, state.mean_square, updates)
        scaled = jax.tree.map(lambda g, s: g / (1 + jnp.sqrt(s)), updates, squares)
        return scaled, PaperRMSPropState(state.count + 1, squares)

    return optax.GradientTransformation(init, update)


def keep_above(floor: float) -> optax.GradientTransformation:
    """Cuts updates so that no parameter ends below `floor`."""

    def update(updates, state, params=None):
        if params is None:
            raise ValueError("keep_above needs the parameters: pass them to update()")
        # As an update, not as a projection afterwards: Optax has no hook behind `apply_updates`.
        return jax.tree.map(lambda u, p: jnp.maximum(p + u, floor) - p, updates, params), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def paper_rmsprop(
    network_rate: float = 0.01,
    scale_rate: float = 0.002,
    model_rate: float = 0.01,
    *,
    decay: float = 0.9,
    decay_every: int = 3_000,
    floor: float = 1e-5,
) -> optax.GradientTransformation:
    """Returns the paper's RMSProp, with separate rates for network, scale and model.

    All rates fall by `decay` every `decay_every` updates. A parameter belongs to the scale if its path contains
    a field `scale` or `scale_net`, to the model if it is the target's, and otherwise to the network. Raw scales
    are kept above `floor`.
    """
    _checks.positive_int("decay_every", decay_every)
    _checks.positive_float("scale_rate", scale_rate)
    rates = {"network": network_rate, "scale": scale_rate, "log_scale": scale_rate, "model": model_rate}
    groups = {}
    for name, rate in rates.items():
        scaled = optax.scale_by_learning_rate(_checks.positive_float(f"{name}_rate", rate))
        groups[name] = optax.chain(scaled, keep_above(floor)) if name == "scale" else scaled
    fall = optax.exponential_decay(1.0, decay_every, decay, staircase=True)
    shared = joined(optax.chain(scale_by_paper_rmsprop(), optax.scale_by_schedule(fall)))
    return optax.chain(shared, optax.partition(groups, label_parameters))


def label_parameters(params: PyTree) -> PyTree:
    """Returns the group of every leaf of (family, target): scale, log_scale, model or network."""

    def label(path, _):
        names = [getattr(entry, "name", None) for entry in path]
        if "scale_net" in names:
            return "log_scale"
        if "scale" in names:
            return "log_scale" if names[-1] == "log_value" else "scale"
        return "model" if getattr(path[0], "idx", 0) == 1 else "network"

    return jax.tree_util.tree_map_with_path(label, params)


class AveragedState(NamedTuple):
    """The inner optimiser's state and the running average of the parameters (`pack`ed)."""

    inner: PyTree
    count: Array
    average: list[Array]


def with_average(inner: optax.GradientTransformation, decay: float = 0.999) -> optax.GradientTransformation:
    """Keeps an exponential average of the parameters beside the updates of `inner` (Polyak & Juditsky 1992).

    The updates are those of `inner`. `update.averaged_state` puts the average in place of the parameters. At
    first the average follows faster: its weight on the past is at most (1 + t)/(10 + t).
    """
    if not 0 < decay < 1:
        raise ValueError(f"expected `decay` between 0 and 1, got {decay}")

    def init(params):
        return AveragedState(inner.init(params), jnp.zeros((), jnp.int32), pack(params)[0])

    def update(updates, state, params=None):
        if params is None:
            raise ValueError("with_average needs the parameters: pass them to update()")
        updates, inner_state = inner.update(updates, state.inner, params)
        count = state.count.astype(float)
        weight = 1 - jnp.minimum(decay, (1 + count) / (10 + count))
        follow = lambda old, now, change: old + weight.astype(old.dtype) * (now + change - old)
        average = jax.tree.map(follow, state.average, pack(params)[0], pack(updates)[0])
        return updates, AveragedState(inner_state, state.count + 1, average)

    return optax.GradientTransformation(init, update)


def average_of(opt_state: PyTree, params: PyTree) -> PyTree:
    """Returns the average of the parameters if the optimiser keeps one, otherwise `params`."""
    if not isinstance(opt_state, AveragedState):
        return params
    shaped = lambda packed, like: pack(like)[1](packed)
    shaped = shaped if opt_state.count.ndim == 0 else jax.vmap(shaped)
    return eqx.combine(shaped(opt_state.average, trained(params)), params)


def adam_cosine(
    num_steps: int,
    rate: float = 2e-3,
    *,
    clip: float = 10.0,
    b2: float = 0.999,
    warmup: int = 0,
    weight_decay: float = 0.0,
) -> optax.GradientTransformation:
    """Returns Adam with a cosine decay to zero over `num_steps` and a bound on the global gradient norm.

    Args:
        num_steps: number of updates of the whole fit.
        rate: largest learning rate.
        clip: bound on the norm of the gradient.
        b2: decay rate of Adam's second moment.
        warmup: number of updates over which the rate grows from zero.
        weight_decay: decoupled weight decay (AdamW) of every parameter.
    """
    _checks.positive_float("rate", rate)
    schedule = optax.cosine_decay_schedule(rate, _checks.positive_int("num_steps", num_steps))
    if warmup:
        plain = schedule
        schedule = lambda count: plain(count) * jnp.minimum((count + 1) / warmup, 1.0)
    return adam(schedule, clip=clip, b2=b2, weight_decay=weight_decay)


def adam(
    schedule: optax.Schedule, *, clip: float = 10.0, b2: float = 0.999, weight_decay: float = 0.0
) -> optax.GradientTransformation:
    """Returns Adam with a learning-rate schedule and a bound on the global gradient norm; see `adam_cosine`."""
    decay = [optax.add_decayed_weights(weight_decay)] if weight_decay else []
    parts = [optax.scale_by_adam(b2=b2), *decay, optax.scale_by_learning_rate(schedule)]
    return joined(optax.chain(optax.clip_by_global_norm(clip), *parts))
