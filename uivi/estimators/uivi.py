"""Unbiased implicit variational inference."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from uivi import _checks
from uivi._types import Estimate, Key
from uivi.estimators.base import AbstractEstimator, Params, RepeatedSites, make_info
from uivi.estimators.marginal_score import scores
from uivi.families.base import AbstractFamily
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.base import AbstractReverseSampler, jump, sample_reverse
from uivi.reverse.isir import ISIR
from uivi.reverse.proposals import FittedProposal
from uivi.targets.base import AbstractTarget
from uivi.trainable import partition_trained


class UIVI(AbstractEstimator):
    """The gradient g = (∇_z log p(x, z) - ∇_z log q(z)) ∇_θ h_θ(u; ε) (Titsias & Ruiz 2019, eqs. 5 to 9).

    The score of q comes from reverse draws ε′ ~ q(ε|z). The estimate is unbiased if their weighted mean is so
    given z and ε, as with `Exact` draws or `Coupled` chains. A kernel that stays at its start gives the
    gradient of the entropy H(z|ε) instead of H(z).

    Args:
        num_draws: number of draws of z per site, S.
        sampler: sampler of the reverse conditional.
    """

    num_draws: int = eqx.field(static=True, default=64)
    sampler: AbstractReverseSampler = eqx.field(default_factory=ISIR)

    def __check_init__(self):
        _checks.positive_int("num_draws", self.num_draws)
        if not isinstance(self.sampler, AbstractReverseSampler):
            raise TypeError(
                "expected `sampler` to be a reverse sampler such as uivi.ISIR() or uivi.HMC(), got "
                f"{type(self.sampler).__name__} {self.sampler!r}: make one of uivi.reverse"
            )

    def init(self, key: Key, family: AbstractFamily, target: AbstractTarget) -> PyTree:
        """Returns the sampler's state."""
        del target
        return self.sampler.init(key, need_semi_implicit(self, family))

    def estimate(self, key: Key, params: Params, sites: PyTree, step: Array, state: PyTree) -> Estimate:
        """Pulls model and entropy component back through the reparameterisation, in one pass."""
        del step
        family, target = params
        assert isinstance(family, SemiImplicit)
        draw_key, reverse_key = jax.random.split(key)
        batch = RepeatedSites.create(target, sites, self.num_draws)
        keys = jax.random.split(draw_key, batch.size)

        def reparameterise(family: SemiImplicit):
            draws = jax.vmap(family.sample)(keys, batch.contexts)
            return draws.z, draws

        # h_θ(u; ε) of eq. 4, the only path from the parameters to z. The density of q is not differentiated in
        # θ, because the expected score of q in its own parameters is zero (text below eq. 7).
        trained, static = partition_trained(family)
        sample = lambda trained: reparameterise(eqx.combine(trained, static))
        z, pull_back, draws = jax.vjp(sample, trained, has_aux=True)
        reverse = sample_reverse(reverse_key, self.sampler, family, draws, batch.contexts, state)
        score = scores(family, z, reverse.draws, batch.contexts)
        log_joint, score_model, target_grads = model_part(target, batch, z)
        # Eqs. 6 and 9 in one pull-back. The sign is that of the negative ELBO, which Optax minimises.
        (family_grads,) = pull_back((score - score_model) / batch.size)
        jumps = jax.vmap(lambda d, r: jump(family, d, r))(draws, reverse.draws)
        info = make_info(log_joint, reverse.info, jumps)
        return Estimate((family_grads, target_grads), reverse.state, info)

    def fitted_proposal(self, state: PyTree) -> FittedProposal:
        """Returns the proposal of the reverse sampler."""
        return self.sampler.fitted_proposal(state)


def model_part(target: AbstractTarget, batch: RepeatedSites, z: Array):
    """Returns log p(x, z) of all draws, its gradient in z, and the gradient of minus its mean in the target."""
    trained, static = partition_trained(target)

    # The sum keeps the gradient in z of each draw apart from the others; the mean is taken afterwards.
    def total(z: Array, trained):
        log_joint = batch.log_joint(eqx.combine(trained, static), z)
        return jnp.sum(log_joint), log_joint

    (score, grads), log_joint = jax.grad(total, (0, 1), has_aux=True)(z, trained)
    return log_joint, score, jax.tree.map(lambda g: -g / batch.size, grads)


def need_semi_implicit(method: AbstractEstimator, family: AbstractFamily) -> SemiImplicit:
    """Returns the family if it is semi-implicit, otherwise raises."""
    if isinstance(family, SemiImplicit):
        return family
    raise TypeError(
        f"expected a uivi.SemiImplicit family for {type(method).__name__}, got "
        f"{type(family).__name__}: use uivi.Explicit for families with a density"
    )
