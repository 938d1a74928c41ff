"""The gradient of log p(z) for an implicit prior, by the identity that UIVI uses for log q(z)."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from uivi import _checks
from uivi._types import Context, Draw, Estimate, Key, Latent, Scalar
from uivi.estimators.base import AbstractEstimator, Params
from uivi.estimators.marginal_score import surrogate
from uivi.estimators.uivi import UIVI
from uivi.families.base import AbstractFamily
from uivi.priors.bounded import Bounded, NoisySite
from uivi.reverse.base import AbstractReverseSampler, sample_reverse
from uivi.reverse.importance import Importance
from uivi.reverse.proposals import FittedProposal, Learned
from uivi.targets.base import AbstractTarget
from uivi.trainable import Frozen


class PriorScoreState(NamedTuple):
    """States of the inner estimator, and of the sampler of p(ζ|z)."""

    estimator: PyTree
    sampler: PyTree


class PriorScore(AbstractEstimator):
    """Replaces the gradient of a `Bounded` target's bound of log p(z) by an estimate of that of log p(z).

    For an implicit prior p(z) = ∫ p_φ(z|ζ) p(ζ) dζ, the gradients of log p(z) in z and in φ are those of
    log p_φ(z|ζ), averaged over p(ζ|z). Nothing is known of a ζ for the z that q draws: the sampler starts at a
    draw of its own proposal, which learns from pairs (z, ζ) drawn from the prior.

    The estimate is unbiased if the sampler's weighted draws are, whatever its start, as are those of
    `uivi.reverse.Coupled`. Those of `Importance`, the default, have a bias of order 1/K, which vanishes as the
    proposal approaches p(ζ|z). With `Importance(K, FromMixing())` the gradient is that of the bound. A Markov
    chain is biased by its start.

    Args:
        estimator: estimator of everything else, for any family.
        sampler: sampler of p(ζ|z).
        num_pairs: number of pairs of the prior from which the sampler learns in an update.
    """

    estimator: AbstractEstimator = eqx.field(default_factory=UIVI)
    sampler: AbstractReverseSampler = eqx.field(default_factory=lambda: Importance(50, Learned()))
    num_pairs: int = eqx.field(static=True, default=64)

    def __check_init__(self):
        _checks.positive_int("num_pairs", self.num_pairs)
        roles = ("estimator", AbstractEstimator), ("sampler", AbstractReverseSampler)
        for name, role in roles:
            if not isinstance(value := getattr(self, name), role):
                raise TypeError(
                    f"expected `{name}` to be an {role.__name__}, got {type(value).__name__} {value!r}: "
                    "as in PriorScore(uivi.UIVI(), uivi.Importance(50))"
                )

    def init(self, key: Key, family: AbstractFamily, target: AbstractTarget) -> PriorScoreState:
        """Checks the target, and returns the states of the inner estimator and of the sampler."""
        estimator_key, sampler_key = jax.random.split(key)
        prior = _need_bounded(target).prior
        return PriorScoreState(
            self.estimator.init(estimator_key, family, target), self.sampler.init(sampler_key, prior)
        )

    def estimate(
        self, key: Key, params: Params, sites: NoisySite, step: Array, state: PriorScoreState
    ) -> Estimate:
        """Lets the inner estimator differentiate a surrogate, then the sampler learn."""
        family, target = params[0], _need_bounded(params[1])
        estimate_key, pairs_key, learn_key = jax.random.split(key, 3)
        scored = _Scored(target, Frozen.create(self.sampler), Frozen.create(state.sampler))
        made = self.estimator.estimate(estimate_key, (family, scored), sites, step, state.estimator)
        family_grads, grads = made.grads
        pairs = jax.vmap(target.prior.sample)(jax.random.split(pairs_key, self.num_pairs))
        reverse = sample_reverse(learn_key, self.sampler, target.prior, pairs, None, state.sampler)
        # What goes wrong with ζ, such as coupled chains that are given up, shows at these pairs.
        info = made.info._replace(nonfinite=made.info.nonfinite + jnp.sum(reverse.info.nonfinite))
        return Estimate((family_grads, grads.bounded), PriorScoreState(made.state, reverse.state), info)

    def fitted_proposal(self, state: PriorScoreState) -> FittedProposal:
        """Returns the inner estimator's proposal for q(ε|z)."""
        return self.estimator.fitted_proposal(state.estimator)

    def prior_proposal(self, state: PriorScoreState) -> FittedProposal:
        """Returns the sampler's proposal for p(ζ|z)."""
        return self.sampler.fitted_proposal(state.sampler)


class _Scored(AbstractTarget):
    """A target whose log joint has the value of `bounded` and another gradient in z and the prior."""

    bounded: Bounded
    sampler: Frozen
    state: Frozen

    @property
    def dim(self) -> int:
        return self.bounded.dim

    @property
    def num_sites(self) -> int:
        return self.bounded.num_sites

    def sites(self, key: Key, step: Array) -> NoisySite:
        return self.bounded.sites(key, step)

    def context(self, site: NoisySite) -> Context:
        return self.bounded.context(site)

    def log_joint(self, z: Latent, site: NoisySite) -> Scalar:
        value_key, sampler_key = jax.random.split(site.key)
        value = self.bounded.log_prior(value_key, jax.lax.stop_gradient(z))
        made = self._surrogate(sampler_key, z)
        # The value of the bound, the gradient of the surrogate.
        log_prior = jax.lax.stop_gradient(value - made) + made
        return self.bounded.target.log_likelihood(z, site.site) + log_prior

    def _surrogate(self, key: Key, z: Latent) -> Scalar:
        sampler, state, prior = self.sampler(), self.state(), self.bounded.prior
        start_key, reverse_key = jax.random.split(key)
        # Constants of the gradient: Fisher's identity holds for draws that are held fixed.
        held, point = Frozen.create(prior)(), jax.lax.stop_gradient(z)
        start = sampler.fitted_proposal(state).at(held, point, None).sample(start_key, 1)
        draws = Draw(point[None], start)
        reverse, _, _ = sampler.sample(reverse_key[None], held, draws, None, state)
        return surrogate(prior, z, jax.tree.map(lambda x: jnp.squeeze(x, 0), reverse))


def _need_bounded(target: AbstractTarget) -> Bounded:
    if isinstance(target, Bounded):
        return target
    raise TypeError(
        f"expected a target with an implicit prior, got {type(target).__name__}: wrap the model in "
        "uivi.priors.Bounded, or use the inner estimator alone"
    )
