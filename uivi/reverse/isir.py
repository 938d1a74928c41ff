"""Iterated sampling importance resampling (i-SIR): an invariant kernel without a sequential chain."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from uivi import _checks
from uivi._types import Draw, Key, ReverseDraws, ReverseInfo
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.base import AbstractPerDrawSampler
from uivi.reverse.proposals import AbstractProposal, FittedProposal, Learned


class ISIR(AbstractPerDrawSampler):
    """Runs rounds of i-SIR with K proposals from m(ε|z) (Andrieu, Lee & Vihola 2018).

    A round puts the current ε among K independent proposals, weighs each by q(z|ε) q(ε) / m(ε|z) and picks one.
    The pick leaves q(ε|z) exactly invariant, whatever m. The sampler returns all draws of the last round with
    their weights (Rao-Blackwellised), not only the pick. Draws of earlier rounds come along with weight zero:
    their density was computed in the same batch, and leaving them out would cost a second pass over the
    network.

    The weight W that the start keeps ties the draws to it and biases the entropy's gradient by O(1/K). Counting
    the start by a power of W lowers this to O(1/K²) or less where proposals are good, and the start still wins
    where all of them miss. The remaining O(1/K) is the bias of self-normalised importance sampling, which
    vanishes as m approaches q(ε|z).

    Attributes:
        num_proposals: number of proposals in a round, K.
        num_rounds: number of rounds.
        proposal: the proposal distribution m(ε|z).
        start_power: power with which the start's weight enters. With 1 the weighted draws are exactly
            invariant; above 1 they recover more of the gradient but are no longer exactly invariant. The pick
            is exact either way.
    """

    num_proposals: int = eqx.field(static=True, default=50)
    num_rounds: int = eqx.field(static=True, default=2)
    proposal: AbstractProposal = eqx.field(default_factory=Learned)
    start_power: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        _checks.positive_int("num_proposals", self.num_proposals)
        _checks.positive_int("num_rounds", self.num_rounds)
        _checks.positive_float("start_power", self.start_power)

    def init(self, key: Key, family: SemiImplicit) -> PyTree:
        """Returns the proposal's state."""
        return self.proposal.init(key, family)

    def kernel(
        self, key: Key, family: SemiImplicit, draw: Draw, context: Array | None, state: PyTree
    ) -> tuple[ReverseDraws, ReverseInfo, PyTree]:
        """Runs all rounds for one draw."""
        proposal = self.proposal.at(family, draw.z, context, state)
        density = family.reverse_log_density(draw.z, draw.eps, context)
        propose_key, pick_key = jax.random.split(key)
        # Proposals do not depend on the current ε: one batch serves all rounds.
        eps = jnp.concatenate([draw.eps[None], proposal.sample(propose_key, self.total)])
        raw = jax.vmap(lambda e: density(e) - proposal.log_prob(e))(eps)
        return *self.weigh(pick_key, eps, raw), self.proposal.inputs(family, draw.z, context)

    @property
    def total(self) -> int:
        """Number of proposals in all rounds."""
        return self.num_rounds * self.num_proposals

    def weigh(
        self, key: Key, eps: Float[Array, "M E"], raw: Float[Array, "M"]
    ) -> tuple[ReverseDraws, ReverseInfo]:
        """Runs all rounds on given proposals.

        Args:
            key: random key of the picks.
            eps: the current ε, followed by the proposals of all rounds.
            raw: log of their weights q(z|ε) q(ε) / m(ε|z).
        """
        # Minus infinity is an ordinary zero weight, outside the support; NaN and plus infinity are faults.
        bad = jnp.sum(jnp.isnan(raw) | (raw == jnp.inf))
        raw = jnp.where(jnp.isfinite(raw), raw, -jnp.inf)
        numbers = jnp.arange(eps.shape[0])
        gumbel = jax.random.gumbel(key, (self.num_rounds, eps.shape[0]), raw.dtype)
        place, moved, log_weights = jnp.zeros((), numbers.dtype), 0.0, raw
        # Unrolled in Python, so that XLA merges the network evaluations here with those of the score.
        for number in range(self.num_rounds):
            is_current = numbers == place
            is_member = is_current | ((numbers - 1) // self.num_proposals == number)
            member = jnp.where(is_member, raw, -jnp.inf)
            # Deviation: a start of zero density (a draw that rounding threw out of the support)
            # keeps its place, so that the weights always have a finite maximum.
            member = jnp.where(is_current & jnp.all(member == -jnp.inf), 0.0, member)
            log_weights = jax.nn.log_softmax(member)
            moved += 1 - jnp.sum(jnp.where(is_current, jnp.exp(log_weights), 0.0))
            # The Gumbel trick: the argmax is a draw from the normalised weights.
            place = jnp.argmax(member + gumbel[number])
        if self.start_power != 1:
            is_start = numbers == 0
            log_weights = jax.nn.log_softmax(jnp.where(is_start, self.start_power * log_weights, log_weights))
        share = jnp.asarray(moved / self.num_rounds, eps.dtype)
        unknown = jnp.full_like(share, jnp.nan)
        info = ReverseInfo(unknown, share, unknown, bad.astype(eps.dtype))
        return ReverseDraws(eps, jnp.exp(log_weights), eps[place]), info

    def adapt(self, state: PyTree, draws: Draw, contexts: Array | None, memos: PyTree) -> PyTree:
        """Lets the proposal learn from the pairs of this update."""
        del contexts
        return self.proposal.adapt(state, draws.eps, memos)

    def fitted_proposal(self, state: PyTree) -> FittedProposal:
        """Returns the sampler's own proposal."""
        return FittedProposal(self.proposal, state)
