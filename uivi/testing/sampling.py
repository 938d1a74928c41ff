"""Independent samples of what a method computes: pairs (z, ε), gradients, moments of reverse draws."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from uivi._types import Draw, Key, Latent, Noise
from uivi.estimators.base import AbstractEstimator
from uivi.families.base import AbstractFamily
from uivi.families.linear_gaussian import LinearGaussian
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.base import AbstractReverseSampler, sample_reverse
from uivi.targets.base import AbstractTarget
from uivi.trainable import trained

LEARNING_DRAWS = 64
"""Draws in each update of `trained_state`."""

compiled_reverse = eqx.filter_jit(sample_reverse)
"""`uivi.reverse.sample_reverse`, compiled."""


def flat(tree: PyTree) -> Float[Array, "P"]:
    """Returns all trained arrays of a tree in one vector."""
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(trained(tree))])


def component_names(tree: PyTree) -> list[str]:
    """Returns the place in the tree of each component of `flat(tree)`, for messages."""
    leaves = jax.tree_util.tree_leaves_with_path(trained(tree))
    return [
        jax.tree_util.keystr(path) + "".join(f"[{i}]" for i in index)
        for path, leaf in leaves
        for index in np.ndindex(*leaf.shape)
    ]


def draw_pairs(key: Key, family: AbstractFamily, num: int, contexts: Array | None = None) -> Draw:
    """Returns exact draws (z, ε) of the joint, with a context for each if the family takes one."""
    return jax.vmap(family.sample)(jax.random.split(key, num), contexts)


def trained_state(
    key: Key,
    sampler: AbstractReverseSampler,
    family: SemiImplicit,
    num_updates: int,
    contexts: Array | None = None,
) -> PyTree:
    """Returns the state of a reverse sampler that has adapted in so many updates, with the family held."""
    init_key, run_key = jax.random.split(key)

    @eqx.filter_jit
    def run(state: PyTree) -> PyTree:
        def update(state: PyTree, key: Key):
            draw_key, reverse_key = jax.random.split(key)
            draws = draw_pairs(draw_key, family, LEARNING_DRAWS, contexts)
            return sample_reverse(reverse_key, sampler, family, draws, contexts, state).state, None

        return jax.lax.scan(update, state, jax.random.split(run_key, num_updates))[0]

    state = sampler.init(init_key, family)
    return run(state) if num_updates else state


def gradient_samples(
    key: Key,
    estimator: AbstractEstimator,
    params: tuple[AbstractFamily, AbstractTarget],
    num: int,
    *,
    state: PyTree = None,
    step: int = 0,
    pick: Callable[[Any], PyTree] = lambda grads: grads[0],
) -> Float[Array, "num P"]:
    """Returns independent gradient estimates, each in one vector.

    Args:
        key: random key.
        estimator: the method.
        params: family and target, such as an `Oracle`.
        num: number of estimates.
        state: state of the method; by default its first.
        step: number of the update.
        pick: what to take of the gradient in (family, target); by default the family's.
    """
    family, target = params
    init_key, run_key = jax.random.split(key)
    state = estimator.init(init_key, family, target) if state is None else state

    def one(key: Key):
        # Sites may hold random keys: every estimate has its own.
        sites = target.sites(jax.random.fold_in(key, 1), jnp.asarray(step))
        estimate = estimator.estimate(key, (family, target), sites, jnp.asarray(step), state)
        return flat(pick(estimate.grads))

    return jax.jit(jax.vmap(one))(jax.random.split(run_key, num))


def whitened_moments(conditional: LinearGaussian, z: Latent, eps: Noise) -> Float[Array, "F"]:
    """Returns moments of r = C(z)⁻¹ (ε′ - m(z)), all zero in expectation if ε′ ~ q(ε|z), whatever z.

    m and C Cᵀ are mean and covariance of q(ε|z). The moments are r, r rᵀ - I and r zᵀ.
    """
    mean, covariance = conditional.reverse(z)
    cholesky = jnp.linalg.cholesky(covariance)
    r = jax.scipy.linalg.solve_triangular(cholesky, eps - mean, lower=True)
    square = jnp.outer(r, r) - jnp.eye(r.shape[0])
    return jnp.concatenate([r, square[jnp.triu_indices(r.shape[0])], jnp.outer(r, z).ravel()])


def reverse_moments(
    key: Key, sampler: AbstractReverseSampler, state: PyTree, family: SemiImplicit, num: int
) -> tuple[Float[Array, "num F"], Float[Array, "num F"]]:
    """Returns `whitened_moments` of where each of num chains ends, and those of its weighted draws.

    Their means are zero if the kernel leaves q(ε|z) invariant. The family's conditional is a `LinearGaussian`.
    """
    conditional = family.conditional
    if not isinstance(conditional, LinearGaussian):
        raise TypeError(f"expected a LinearGaussian conditional, got {type(conditional).__name__}")

    def run(key: Key):
        draw_key, reverse_key = jax.random.split(key)
        pairs = draw_pairs(draw_key, family, num)
        draws = sample_reverse(reverse_key, sampler, family, pairs, None, state).draws
        moments = lambda z, eps: whitened_moments(conditional, z, eps)
        last = jax.vmap(moments)(pairs.z, draws.last)
        each = jax.vmap(jax.vmap(moments, (None, 0)))(pairs.z, draws.eps)
        return last, jnp.sum(draws.weights[..., None] * each, 1)

    return jax.jit(run)(key)
