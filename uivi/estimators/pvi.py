"""Particle variational inference: the ELBO's gradient in a conditional and in a cloud of particles."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from uivi import _checks
from uivi._types import Estimate, Key, ReverseDraws
from uivi.estimators.base import AbstractEstimator, Params, RepeatedSites, info_without_chain
from uivi.estimators.marginal_score import scores
from uivi.estimators.uivi import model_part, need_semi_implicit
from uivi.families.base import AbstractFamily
from uivi.families.conditionals.particles import AtParticles
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.by_particle import ByParticle, need_particles
from uivi.reverse.proposals import FittedProposal
from uivi.targets.base import AbstractTarget
from uivi.trainable import partition_trained


class PVI(AbstractEstimator):
    """The gradients of particle variational inference (Lim & Johansen 2024, eqs. 8 to 12 and Algorithm 1).

    The mixing distribution is a cloud of M particles, see `uivi.families.AtParticles`, so the score of q(z) is
    exact. The conditional gets the path gradient of the negative ELBO (eq. 11), which is unbiased.

    A particle gets its own drift (eq. 12), M times its part of that gradient, so that its speed does not depend
    on M. The regulariser λ KL(r | N(0, I)) of eq. 4 adds the drift λ ψ and Gaussian noise to it (eq. 8).
    The noise of a step of length h is √(2 λ h); the gradient holds it divided by h. It is right for an
    optimiser that moves particles by `step_size` times the gradient. With λ = 0 there is no noise.

    Args:
        num_draws: number of draws of z for each site and particle, L.
        regularisation: λ.
        step_size: h, the particles' learning rate.
    """

    num_draws: int = eqx.field(static=True, default=1)
    regularisation: float = eqx.field(static=True, default=1e-8)
    step_size: float = eqx.field(static=True, default=1e-2)

    def __check_init__(self):
        _checks.positive_int("num_draws", self.num_draws)
        _checks.positive_float("step_size", self.step_size)
        if self.regularisation != 0:
            _checks.positive_float("regularisation", self.regularisation)

    def init(self, key: Key, family: AbstractFamily, target: AbstractTarget) -> tuple:
        """Checks the family; there is no state."""
        del key, target
        need_particles(type(self).__name__, need_semi_implicit(self, family))
        return ()

    def fitted_proposal(self, state: tuple) -> FittedProposal:
        """Returns the exact reverse conditional."""
        return FittedProposal(ByParticle(), state)

    def estimate(self, key: Key, params: Params, sites: PyTree, step: Array, state: tuple) -> Estimate:
        """Pulls the difference of the scores back through the draws of all particles."""
        del step
        family, target = params
        assert isinstance(family, SemiImplicit)
        assert isinstance(family.conditional, AtParticles)
        draw_key, noise_key = jax.random.split(key)
        batch = RepeatedSites.create(target, sites, family.conditional.num_particles * self.num_draws)
        keys = jax.random.split(draw_key, batch.size)
        # Every particle as often as any other, in place of draws of ε: eqs. 11 and 12 average over all of them.
        eps = jnp.tile(family.conditional.centres(), (batch.size // family.conditional.num_particles, 1))
        trained, static = partition_trained(family)

        def sample(trained):
            return jax.vmap(eqx.combine(trained, static).conditional.sample)(keys, eps, batch.contexts)

        z, pull_back = jax.vjp(sample, trained)
        reverse = jax.vmap(lambda z, c: _all_particles(family, z, c))(z, batch.contexts)
        log_joint, score_model, target_grads = model_part(target, batch, z)
        (grads,) = pull_back((scores(family, z, reverse, batch.contexts) - score_model) / batch.size)
        grads = eqx.tree_at(
            lambda f: f.conditional.cloud, grads, self._drift(noise_key, family.conditional.cloud, grads)
        )
        return Estimate((grads, target_grads), state, info_without_chain(log_joint))

    def _drift(self, key: Key, cloud: Float[Array, "M I"], grads: PyTree) -> Float[Array, "M I"]:
        """Returns minus the drift of every particle, with the regulariser and its noise."""
        # Deviation: Algorithm 1 is printed without the 2 that its flow (eq. 8) has.
        scale = (2 * self.regularisation / self.step_size) ** 0.5
        noise = scale * jax.random.normal(key, cloud.shape, cloud.dtype)
        return cloud.shape[0] * grads.conditional.cloud + self.regularisation * cloud - noise


def _all_particles(family: SemiImplicit, z: Float[Array, "D"], context: Array | None) -> ReverseDraws:
    """Returns all particles with their exact weights in the reverse conditional."""
    assert isinstance(family.conditional, AtParticles)
    eps = family.conditional.centres()
    return ReverseDraws(eps, jax.nn.softmax(family.conditional.log_probs(z, context)), eps[0])
