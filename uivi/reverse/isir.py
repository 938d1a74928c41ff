"""Iterated sampling importance resampling: an exact kernel without a sequential chain."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from uivi import _checks
from uivi._types import Draw, Key, ReverseDraws, ReverseInfo
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.base import AbstractReverseSampler
from uivi.reverse.proposals import AbstractProposal, FittedProposal, Learned


class ISIR(AbstractReverseSampler):
    """`num_rounds` rounds of i-SIR with K proposals from m(ε|z) (Andrieu, Lee & Vihola 2018).

    A round puts the current ε among K independent proposals, weighs each by q(z|ε) q(ε) / m(ε|z) and picks
    one: exactly invariant for q(ε|z) whatever m. The draws of the last round are returned with their weights
    (Rao-Blackwellised), not only the one picked.
    """

    num_proposals: int = eqx.field(static=True, default=50)
    num_rounds: int = eqx.field(static=True, default=2)
    proposal: AbstractProposal = eqx.field(default_factory=Learned)

    def __check_init__(self):
        _checks.positive_int("num_proposals", self.num_proposals)
        _checks.positive_int("num_rounds", self.num_rounds)

    def init(self, key: Key, family: SemiImplicit) -> PyTree:
        """The proposal's state."""
        return self.proposal.init(key, family)

    def kernel(
        self, key: Key, family: SemiImplicit, draw: Draw, context: Array | None, state: PyTree
    ) -> tuple[ReverseDraws, ReverseInfo, tuple]:
        """All rounds for one draw."""
        proposal = self.proposal.at(family, draw.z, context, state)
        density = family.reverse_log_density(draw.z, context)
        current, moved, bad = draw.eps, 0.0, 0
        eps = log_weights = None
        for round_key in jax.random.split(key, self.num_rounds):
            propose_key, pick_key = jax.random.split(round_key)
            fresh = proposal.sample(propose_key, self.num_proposals)
            eps = jnp.concatenate([current[None], fresh])
            raw = jax.vmap(lambda e: density(e) - proposal.log_prob(e))(eps)
            bad += jnp.sum(jnp.isnan(raw) | (raw == jnp.inf))
            raw = jnp.where(jnp.isfinite(raw), raw, -jnp.inf)
            # Deviation: a start of zero density (a draw that rounding threw out of the support)
            # keeps its place, so that the weights always have a finite maximum.
            raw = raw.at[0].set(jnp.where(jnp.all(raw == -jnp.inf), 0.0, raw[0]))
            log_weights = jax.nn.log_softmax(raw)
            current = eps[jax.random.categorical(pick_key, raw)]
            moved += 1 - jnp.exp(log_weights[0])
        assert eps is not None
        assert log_weights is not None
        share = jnp.asarray(moved / self.num_rounds, eps.dtype)
        info = ReverseInfo(jnp.full_like(share, jnp.nan), share, jnp.asarray(bad, eps.dtype))
        return ReverseDraws(eps, log_weights, current), info, ()

    def adapt(self, state: PyTree, draws: Draw, contexts: Array | None, memos: tuple) -> PyTree:
        """Let the proposal learn from the pairs of this update."""
        del memos
        return self.proposal.adapt(state, draws, contexts)

    def fitted_proposal(self, state: PyTree) -> FittedProposal:
        """The sampler's own proposal."""
        return FittedProposal(self.proposal, state)
