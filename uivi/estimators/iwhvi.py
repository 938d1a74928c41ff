"""Importance-weighted hierarchical variational inference: a lower bound with a learned proposal."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, PyTree

from uivi import _checks
from uivi._jax import ordinary_promotion
from uivi._types import Context, Draw, Estimate, Key, Scalar
from uivi.estimators.base import AbstractEstimator, Params, RepeatedSites, grad_of_trained, info_without_chain
from uivi.estimators.uivi import need_semi_implicit
from uivi.families.base import AbstractFamily
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.amortised import Amortised
from uivi.reverse.proposals import AbstractLearned, AbstractProposal, FittedProposal
from uivi.targets.base import AbstractTarget
from uivi.trainable import trained


class IWHVIState(NamedTuple):
    """The proposal's state, whose trained arrays follow the bound, and the state of their optimiser."""

    proposal: PyTree
    opt_state: PyTree


class IWHVI(AbstractEstimator):
    """The gradient of the bound with K draws of a learned proposal τ(ε|z) (Sobolev & Vetrov 2019, Section 3).

    It bounds log q(z) from above by

        E log 1/(K+1) Σ_{k=0..K} q(z|εᵏ) q(εᵏ) / τ(εᵏ|z),

    where ε⁰ is the noise that made z and the others come from τ. The network of τ descends the same bound. With
    τ = q(ε) this is SIVI, with K = 0 a hierarchical variational model (Ranganath, Tran & Blei 2016).

    It is biased for the ELBO's gradient: the bound lies below the ELBO. It tightens with K, and is tight for
    every K if τ is the reverse conditional.

    Args:
        num_draws: number of draws of z per site, S.
        num_proposals: number of draws of τ for each z, K.
        proposal: τ. The trained arrays of its state are learned by the bound.
        learning_rate: learning rate of the Adam that learns them.
    """

    num_draws: int = eqx.field(static=True, default=64)
    num_proposals: int = eqx.field(static=True, default=50)
    proposal: AbstractProposal = eqx.field(default_factory=Amortised)
    learning_rate: float = eqx.field(static=True, default=1e-3)

    def __check_init__(self):
        _checks.positive_int("num_draws", self.num_draws)
        _checks.count("num_proposals", self.num_proposals)
        _checks.positive_float("learning_rate", self.learning_rate)
        if isinstance(self.proposal, AbstractLearned):
            raise TypeError(
                f"expected a `proposal` that the bound can train, got {type(self.proposal).__name__}, which "
                "fits itself by maximum likelihood: use uivi.reverse.Amortised(), or FromMixing() for τ = q(ε)"
            )

    @property
    def _optimizer(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate)

    def init(self, key: Key, family: AbstractFamily, target: AbstractTarget) -> IWHVIState:
        """Returns the proposal's first state, after checking the family."""
        del target
        proposal = self.proposal.init(key, need_semi_implicit(self, family))
        with ordinary_promotion():  # Optax mixes its count of updates with floats
            return IWHVIState(proposal, self._optimizer.init(trained(proposal)))

    def fitted_proposal(self, state: IWHVIState) -> FittedProposal:
        """Returns τ."""
        return FittedProposal(self.proposal, state.proposal)

    def estimate(self, key: Key, params: Params, sites: PyTree, step: Array, state: IWHVIState) -> Estimate:
        """Differentiates the bound in the parameters and in τ."""
        del step
        draw_key, propose_key = jax.random.split(key)
        batch = RepeatedSites.create(params[1], sites, self.num_draws)
        draw_keys = jax.random.split(draw_key, batch.size)
        propose_keys = jax.random.split(propose_key, batch.size)

        def loss(both: tuple[Params, PyTree]):
            (family, target), proposal = both
            assert isinstance(family, SemiImplicit)
            draws = jax.vmap(family.sample)(draw_keys, batch.contexts)
            one = lambda k, d, c: self._log_marginal(family, proposal, k, d, c)
            log_q = jax.vmap(one)(propose_keys, draws, batch.contexts)
            log_joint = batch.log_joint(target, draws.z)
            return -jnp.mean(log_joint - log_q), log_joint

        (grads, proposal_grads), log_joint = grad_of_trained(loss, (params, state.proposal))
        with ordinary_promotion():
            updates, opt_state = self._optimizer.update(proposal_grads, state.opt_state)
        following = IWHVIState(eqx.apply_updates(state.proposal, updates), opt_state)
        return Estimate(grads, following, info_without_chain(log_joint))

    def _log_marginal(
        self, family: SemiImplicit, state: PyTree, key: Key, draw: Draw, context: Context
    ) -> Scalar:
        """Returns the log of the mean weight of the generating ε and of K draws of τ."""
        proposal = self.proposal.at(family, draw.z, context, state)
        # The draws move with z and with τ: the gradient of the bound has these paths too.
        eps = jnp.concatenate([draw.eps[None], proposal.sample(key, self.num_proposals)])
        log_prob = family.conditional.log_prob_of(draw.z, context)
        weight = lambda e: log_prob(e) + family.mixing.log_prob(e) - proposal.log_prob(e)
        return jax.nn.logsumexp(jax.vmap(weight)(eps)) - jnp.log(1.0 + self.num_proposals)
