"""The difference of the model's score and the conditional's score, from which score-based methods are made."""

from typing import NamedTuple

import jax
from jaxtyping import Array, Float, PyTree

from uivi._types import Context, Key
from uivi.estimators.base import AbstractEstimator
from uivi.families.semi_implicit import SemiImplicit
from uivi.targets.base import AbstractTarget
from uivi.trainable import trained


class Residuals(NamedTuple):
    """Draws z of one site with ∇_z log p(x, z) - ∇_z log q(z|ε), whose mean given z is s_p(z) - s_q(z).

    Attributes:
        z: the draws.
        value: the difference of the scores at each.
        log_joint: log p(x, z) of each.
    """

    z: Float[Array, "S D"]
    value: Float[Array, "S D"]
    log_joint: Float[Array, "S"]


def residuals(
    key: Key, family: SemiImplicit, target: AbstractTarget, site: PyTree, context: Context, num_draws: int
) -> Residuals:
    """Returns reparameterised draws of one site; everything is differentiable in the family's parameters."""

    def one(key: Key):
        z, eps = family.sample(key, context)
        log_joint, score_p = jax.value_and_grad(target.log_joint)(z, site)
        score_q = jax.grad(family.conditional.log_prob)(z, eps, context)
        return Residuals(z, score_p - score_q, log_joint)

    return jax.vmap(one)(jax.random.split(key, num_draws))


def need_fixed_target(method: AbstractEstimator, target: AbstractTarget) -> None:
    """Raises if the target has trained arrays."""
    if jax.tree.leaves(trained(target)):
        raise TypeError(
            f"expected a target without trained arrays for {type(method).__name__}, got "
            f"{type(target).__name__}: a distance between scores knows no evidence and cannot train a model, "
            "use uivi.UIVI"
        )
