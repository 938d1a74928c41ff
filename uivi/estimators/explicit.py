"""Estimators for families with a density: the standard reparameterised gradient and its path form."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from uivi import _checks
from uivi._types import Estimate, Key
from uivi.estimators.base import AbstractEstimator, Params, RepeatedSites, grad_of_trained, info_without_chain
from uivi.families.base import AbstractFamily
from uivi.families.explicit import AbstractDensityAt, AbstractExplicit
from uivi.reverse.proposals import FittedProposal, from_mixing
from uivi.targets.base import AbstractTarget


class AbstractReparameterised(AbstractEstimator):
    """The gradient of log p(x, z) - log q(z) through reparameterised draws of a family with a density."""

    num_draws: int = eqx.field(static=True, default=64)

    def __check_init__(self):
        _checks.positive_int("num_draws", self.num_draws)

    @abc.abstractmethod
    def held(self, density: AbstractDensityAt) -> AbstractDensityAt:
        """Returns log q(z) as the gradient sees it."""

    def init(self, key: Key, family: AbstractFamily, target: AbstractTarget) -> tuple:
        """Checks the family; there is no state."""
        del key, target
        return _need_density(self, family)

    def fitted_proposal(self, state: tuple) -> FittedProposal:
        """Returns q(ε): an explicit family has no reverse conditional to learn."""
        del state
        return from_mixing()

    def estimate(self, key: Key, params: Params, sites: PyTree, step: Array, state: tuple) -> Estimate:
        """Differentiates in everything that `held` leaves free."""
        del step
        batch = RepeatedSites.create(params[1], sites, self.num_draws)
        keys = jax.random.split(key, batch.size)

        def loss(params: Params):
            family, target = params
            assert isinstance(family, AbstractExplicit)

            def draw(key: Key, context: Array | None):
                density = family.at(context)
                z = density.sample(key)
                return z, self.held(density).log_prob(z)

            z, log_q = jax.vmap(draw)(keys, batch.contexts)
            log_joint = batch.log_joint(target, z)
            return -jnp.mean(log_joint - log_q), log_joint

        grads, log_joint = grad_of_trained(loss, params)
        return Estimate(grads, state, info_without_chain(log_joint))


class Explicit(AbstractReparameterised):
    """The gradient of the ELBO by full reparameterisation (Kingma & Welling 2014)."""

    def held(self, density: AbstractDensityAt) -> AbstractDensityAt:
        """Returns it as it is."""
        return density


class StickingTheLanding(AbstractReparameterised):
    """The path derivative: the parameters of log q(z) itself are held constant (Roeder et al. 2017).

    It is unbiased too, and has no variance where q is the posterior.
    """

    def held(self, density: AbstractDensityAt) -> AbstractDensityAt:
        """Returns it with its parameters as constants."""
        parameters, rest = eqx.partition(density, eqx.is_inexact_array)
        return eqx.combine(jax.lax.stop_gradient(parameters), rest)


def _need_density(method: AbstractEstimator, family: AbstractFamily) -> tuple:
    if not isinstance(family, AbstractExplicit):
        raise TypeError(
            f"expected a family with a density for {type(method).__name__}, got "
            f"{type(family).__name__}: use uivi.ExplicitGaussian, or uivi.UIVI for this family"
        )
    return ()
