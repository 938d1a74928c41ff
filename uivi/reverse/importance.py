"""Self-normalised importance sampling of the reverse conditional."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from uivi import _checks
from uivi._types import Draw, Key, ReverseDraws, ReverseInfo
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.base import AbstractPerDrawSampler
from uivi.reverse.proposals import AbstractProposal, FittedProposal, FromMixing


class Importance(AbstractPerDrawSampler):
    """Weighs `num_draws` fresh proposals by self-normalised importance weights, without the generating ε.

    The estimate is consistent, with a bias of order 1/num_draws. i-SIR costs the same and is exactly invariant.
    AISIVI uses this estimator with a learned proposal, BSIVI with q(ε).
    """

    num_draws: int = eqx.field(static=True, default=100)
    proposal: AbstractProposal = eqx.field(default_factory=FromMixing)

    def __check_init__(self):
        _checks.positive_int("num_draws", self.num_draws)

    def init(self, key: Key, family: SemiImplicit) -> PyTree:
        """Returns the proposal's state."""
        return self.proposal.init(key, family)

    def kernel(
        self, key: Key, family: SemiImplicit, draw: Draw, context: Array | None, state: PyTree
    ) -> tuple[ReverseDraws, ReverseInfo, PyTree]:
        """Returns weighted draws for one z."""
        propose_key, pick_key = jax.random.split(key)
        proposal = self.proposal.at(family, draw.z, context, state)
        density = family.reverse_log_density(draw.z, draw.eps, context)
        eps = proposal.sample(propose_key, self.num_draws)
        raw = jax.vmap(lambda e: density(e) - proposal.log_prob(e))(eps)
        bad = jnp.sum(jnp.isnan(raw) | (raw == jnp.inf)).astype(eps.dtype)
        # A finite floor: if every weight is zero, softmax of -inf would be NaN.
        raw = jnp.where(jnp.isfinite(raw), raw, -1e30)
        weights = jnp.exp(jax.nn.log_softmax(raw))
        last = eps[jax.random.categorical(pick_key, raw)]
        unknown = jnp.full_like(bad, jnp.nan)
        info = ReverseInfo(unknown, unknown, unknown, bad)
        return ReverseDraws(eps, weights, last), info, self.proposal.inputs(family, draw.z, context)

    def adapt(self, state: PyTree, draws: Draw, contexts: Array | None, memos: PyTree) -> PyTree:
        """Lets the proposal learn from the pairs of this update."""
        del contexts
        return self.proposal.adapt(state, draws.eps, memos)

    def fitted_proposal(self, state: PyTree) -> FittedProposal:
        """Returns the sampler's own proposal."""
        return FittedProposal(self.proposal, state)
