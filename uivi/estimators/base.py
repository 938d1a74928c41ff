"""The role of an estimator of the ELBO's gradient, and what all of them share."""

import abc
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from uivi._jax import is_key
from uivi._types import Estimate, Info, Key, ReverseInfo, Scalar
from uivi.families.base import AbstractFamily
from uivi.reverse.proposals import FittedProposal
from uivi.targets.base import AbstractTarget
from uivi.trainable import partition_trained

Params = tuple[AbstractFamily, AbstractTarget]
Tree = TypeVar("Tree")


class AbstractEstimator(eqx.Module):
    """Estimates the gradient of the negative ELBO in the parameters of (family, target).

    Some methods minimise another objective, a bound or a distance between scores, and say so.

    Whatever a method learns on the side (a step size, a proposal) lives in its state, so the training loop is
    the same for every method.
    """

    @abc.abstractmethod
    def init(self, key: Key, family: AbstractFamily, target: AbstractTarget) -> PyTree:
        """Checks that the family suits the method, and returns the method's first state."""

    @abc.abstractmethod
    def estimate(self, key: Key, params: Params, sites: PyTree, step: Array, state: PyTree) -> Estimate:
        """Returns one gradient, averaged over sites and draws."""

    @abc.abstractmethod
    def fitted_proposal(self, state: PyTree) -> FittedProposal:
        """Returns a proposal for q(ε|z) that tightens bounds: q(ε) unless the method learns one."""


class RepeatedSites(eqx.Module):
    """The sites of an update, each repeated for its S draws along a leading axis N = B * S.

    A random key in a site is split, so that every draw has its own.
    """

    sites: PyTree
    contexts: Float[Array, "N C"] | None
    size: int = eqx.field(static=True)

    @classmethod
    def create(cls, target: AbstractTarget, sites: PyTree, num_draws: int) -> "RepeatedSites":
        """Repeats sites and contexts."""
        contexts = jax.vmap(target.context, axis_size=target.num_sites)(sites)
        split = lambda keys: jax.vmap(lambda key: jax.random.split(key, num_draws))(keys).ravel()
        repeat = lambda x: split(x) if is_key(x) else jnp.repeat(x, num_draws, 0)
        repeated, contexts = jax.tree.map(repeat, (sites, contexts))
        return cls(repeated, contexts, target.num_sites * num_draws)

    def log_joint(self, target: AbstractTarget, z: Float[Array, "N D"]) -> Float[Array, "N"]:
        """Returns log p(x, z) of all draws."""
        return jax.vmap(target.log_joint)(z, self.sites)


def grad_of_trained(loss: Callable[[Tree], tuple[Scalar, Any]], tree: Tree) -> tuple[Any, Any]:
    """Differentiates a loss with an auxiliary output in the trained arrays of a tree, such as `Params`."""
    trained, rest = partition_trained(tree)
    return jax.grad(lambda trained: loss(eqx.combine(trained, rest)), has_aux=True)(trained)


def make_info(log_joint: Float[Array, "N"], reverse: ReverseInfo, jump: Float[Array, "N"]) -> Info:
    """Averages the parts into the fields that all methods report."""
    bad = jnp.sum(~jnp.isfinite(log_joint)).astype(log_joint.dtype)
    return Info(
        log_joint=jnp.mean(log_joint),
        acceptance=jnp.mean(reverse.acceptance),
        moved=jnp.mean(reverse.moved),
        steps=jnp.mean(reverse.steps),
        jump=jnp.mean(jump),
        nonfinite=jnp.sum(reverse.nonfinite) + bad,
    )


def info_without_chain(log_joint: Float[Array, "N"]) -> Info:
    """Returns the info of a method without a reverse sampler."""
    unknown = jnp.full_like(log_joint, jnp.nan)
    return make_info(log_joint, ReverseInfo(unknown, unknown, unknown, jnp.zeros_like(log_joint)), unknown)
