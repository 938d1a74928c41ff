"""A prior of rows that has the family's own encoder."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from uivi._types import Estimate, Key
from uivi.estimators.base import AbstractEstimator, Params
from uivi.estimators.explicit import Explicit
from uivi.families.base import AbstractFamily
from uivi.families.explicit import AbstractExplicit
from uivi.priors.rows import AbstractOfRows
from uivi.reverse.proposals import FittedProposal
from uivi.targets.base import AbstractTarget
from uivi.trainable import trained


class SharedState(NamedTuple):
    """State of the inner estimator, and whether family and prior began with the same encoder (always true)."""

    estimator: PyTree
    is_shared: Array


class SharedEncoder(AbstractEstimator):
    """Trains the family's encoder as that of the prior's rows, too (Tomczak & Welling 2018).

    `VampPrior` and `RowConditional` hold a copy of the encoder; make the target by `lend`. Both copies get the
    sum of their gradients. An optimiser that treats every number by itself keeps them equal bit by bit.

    Args:
        estimator: estimator of the gradient, for a family with a density.
    """

    estimator: AbstractEstimator = eqx.field(default_factory=Explicit)

    def init(self, key: Key, family: AbstractFamily, target: AbstractTarget) -> SharedState:
        """Checks that family and prior have the same encoder, and returns the inner estimator's state."""
        inner = self.estimator.init(key, family, target)
        same = jnp.ones((), bool)
        for encoder in _need_encoders(target, family):
            same &= eqx.tree_equal(trained(family), trained(encoder))
        message = "expected a prior with the family's encoder: make the target by uivi.estimators.lend"
        same = eqx.error_if(same, ~same, message)
        return SharedState(inner, same)

    def estimate(self, key: Key, params: Params, sites: PyTree, step: Array, state: SharedState) -> Estimate:
        """Adds up the gradients of all copies."""
        family, target = params
        made = self.estimator.estimate(key, (family, lend(target, family)), sites, step, state.estimator)
        family_grads, target_grads = made.grads
        total = jax.tree.map(lambda *parts: sum(parts), family_grads, *_encoders(target_grads))
        grads = total, lend(target_grads, total)
        return Estimate(grads, SharedState(made.state, state.is_shared), made.info)

    def fitted_proposal(self, state: SharedState) -> FittedProposal:
        """Returns the inner estimator's proposal for q(ε|z)."""
        return self.estimator.fitted_proposal(state.estimator)


def lend(target: AbstractTarget, family: AbstractFamily) -> AbstractTarget:
    """Returns a target whose prior of rows has the encoder of `family`."""
    return eqx.tree_at(_encoders, target, [family for _ in _need_encoders(target, family)])


def _encoders(tree: PyTree) -> list[AbstractExplicit]:
    is_holder = lambda node: isinstance(node, AbstractOfRows)
    return [node.encoder for node in jax.tree.leaves(tree, is_leaf=is_holder) if is_holder(node)]


def _need_encoders(target: AbstractTarget, family: AbstractFamily) -> list[AbstractExplicit]:
    found = _encoders(target)
    if not found:
        raise TypeError(
            f"expected a target with a prior of rows, such as uivi.priors.VampPrior, got "
            f"{type(target).__name__} without one: use the inner estimator alone"
        )
    if any(jax.tree.structure(encoder) != jax.tree.structure(family) for encoder in found):
        raise TypeError(
            f"expected a family of the kind of the prior's encoder, got {type(family).__name__} and "
            f"{[type(encoder).__name__ for encoder in found]}: give the prior an encoder like the family"
        )
    return found
