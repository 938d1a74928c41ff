"""Coupled i-SIR chains: exactly unbiased means over the reverse conditional, at a finite but random cost."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from uivi import _checks
from uivi._types import Context, Draw, Key, ReverseDraws, ReverseInfo
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.base import AbstractReverseSampler
from uivi.reverse.proposals import (
    AbstractLearned,
    AbstractProposal,
    AbstractProposalAt,
    FittedProposal,
    Learned,
)

NUM_BLOCKS = 16
"""Number of parts into which the draws of an update are divided. Chains that have not met go on one part at a
time, so that a few late ones cost little."""
FLOOR = -1e30
"""Log weight of a proposal outside the support. If there are no others, weights are equal instead of NaN."""


class Coupled(AbstractReverseSampler):
    """Runs two i-SIR chains, one a step ahead of the other, which share their proposals until they meet.

    A chain that starts at the ε that made z depends on it after any number of steps. Two coupled chains remove
    that dependence (Jacob, O'Leary & Atchadé 2020). Both start at that ε: X₀ = Y₀ = ε. Let S(x, P) be the
    self-normalised weighted mean of a function h over x and K fresh proposals P: the expectation of h after a
    step of i-SIR from x. As Xₜ and Yₜ have the same law, the sum

        S(X₀, P₁) + Σₜ [S(Xₜ₋₁, Pₜ) - S(Yₜ₋₂, Pₜ)],  t = 2, 3, ... until the chains meet,

    telescopes. Given z and ε its expectation is the limit, the mean of h over q(ε|z), whatever ε is.

    Chains meet at once if the leading one stays at ε, and else as soon as both pick the same fresh proposal,
    mostly at t = 2. Where all proposals miss, the sum is h at the ε that made z, and far-off ones do not count.
    The first two steps enter in full. A later one enters by three points: both chains, and a proposal that
    stands for all K, whose weights differ between the chains by a common factor. If there are several later
    steps, one of them stands for all.

    Proposals should be wider than q(ε|z). With narrow ones weights are large, chains take long to meet, and the
    variance explodes. Two numbers show it, in the history and in the verdict: the mean number of steps, of K
    evaluations of q(z|ε) each, and the share of weight that leaves the start in the first.

    Attributes:
        num_proposals: number of fresh proposals in a step, K.
        proposal: the proposal distribution m(ε|z).
        most_steps: number of steps after which a pair of chains is given up. The mean is exactly unbiased if
            that never happens; otherwise such pairs are counted as non-finite proposals.
    """

    num_proposals: int = eqx.field(static=True, default=32)
    proposal: AbstractProposal = eqx.field(default_factory=lambda: Learned(prior_share=0.1, inflation=1.2))
    most_steps: int = eqx.field(static=True, default=1_000)

    def __check_init__(self):
        _checks.positive_int("num_proposals", self.num_proposals)
        _checks.positive_int("most_steps", self.most_steps)
        if self.most_steps < 2:
            raise ValueError(f"expected `most_steps` of at least 2, got {self.most_steps}")
        if isinstance(self.proposal, AbstractLearned) and self.proposal.inflation < 1:
            raise ValueError(
                f"expected proposals at least as wide as learned, got inflation={self.proposal.inflation}: "
                "narrow proposals make coupled chains meet late; use an inflation from 1 to 1.5"
            )

    def init(self, key: Key, family: SemiImplicit) -> PyTree:
        """Returns the proposal's state."""
        return self.proposal.init(key, family)

    def sample(
        self, keys: Array, family: SemiImplicit, draws: Draw, contexts: Array | None, state: PyTree
    ) -> tuple[ReverseDraws, ReverseInfo, PyTree]:
        """Runs the chains of all draws until they have met."""
        number = len(keys)

        def weigh(draw: Draw, context: Context, choose: Callable[[AbstractProposalAt], Array]) -> _Points:
            proposal = self.proposal.at(family, draw.z, context, state)
            eps = choose(proposal)
            density = family.reverse_log_density(draw.z, draw.eps, context)
            return _Points(eps, jax.vmap(lambda e: density(e) - proposal.log_prob(e))(eps))

        def begin(key: Key, draw: Draw, context: Context) -> tuple[_Points, Array, _Chains]:
            propose_key, pick_key = jax.random.split(key)
            fresh = lambda proposal: proposal.sample(propose_key, 2 * self.num_proposals)
            points = weigh(draw, context, lambda proposal: jnp.concatenate([draw.eps[None], fresh(proposal)]))
            return _first_steps(pick_key, points)

        def proceed(key: Key, draw: Draw, context: Context, chains: _Chains) -> _Chains:
            propose_key, pick_key, keep_key = jax.random.split(jax.random.fold_in(key, chains.steps), 3)
            fresh = lambda proposal: proposal.sample(propose_key, self.num_proposals)
            return _next_step(pick_key, keep_key, weigh(draw, context, fresh), chains)

        def proceed_with_some(chains: _Chains) -> _Chains:
            rows = jnp.nonzero(self._are_apart(chains), size=-(-number // NUM_BLOCKS), fill_value=number)[0]
            inputs = jax.tree.map(lambda x: x[jnp.minimum(rows, number - 1)], (keys, draws, contexts, chains))
            # Rows that only fill the block lie beyond the last one, and are dropped.
            return jax.tree.map(
                lambda old, new: old.at[rows].set(new, mode="drop"), chains, jax.vmap(proceed)(*inputs)
            )

        points, weights, chains = jax.vmap(begin)(keys, draws, contexts)
        chains = jax.lax.while_loop(lambda chains: jnp.any(self._are_apart(chains)), proceed_with_some, chains)
        later = (chains.steps - 2).astype(weights.dtype)[:, None]
        reverse = ReverseDraws(
            jnp.concatenate([points.eps, chains.kept], 1),
            jnp.concatenate([weights, later * chains.kept_weights], 1),
            chains.points.eps[:, 0],
        )
        unknown = jnp.full_like(weights[:, 0], jnp.nan)
        bad = chains.nonfinite + (~chains.have_met).astype(chains.nonfinite.dtype)
        moved = 1 - jax.nn.softmax(points.raw[:, : self.num_proposals + 1])[:, 0]
        info = ReverseInfo(unknown, moved, chains.steps.astype(unknown.dtype), bad.astype(unknown.dtype))
        memos = jax.vmap(lambda z, context: self.proposal.inputs(family, z, context))(draws.z, contexts)
        return reverse, info, memos

    def _are_apart(self, chains: "_Chains") -> Bool[Array, "N"]:
        """Whether the chains of each draw have not met and go on."""
        return ~chains.have_met & (chains.steps < self.most_steps)

    def adapt(self, state: PyTree, draws: Draw, contexts: Array | None, memos: PyTree) -> PyTree:
        """Lets the proposal learn from the pairs of this update."""
        del contexts
        return self.proposal.adapt(state, draws.eps, memos)

    def fitted_proposal(self, state: PyTree) -> FittedProposal:
        """Returns the sampler's own proposal."""
        return FittedProposal(self.proposal, state)


class _Points(NamedTuple):
    """Proposals and their log weights q(z|ε) q(ε) / m(ε|z)."""

    eps: Float[Array, "*N M E"]
    raw: Float[Array, "*N M"]


class _Chains(NamedTuple):
    """The two chains of a draw.

    Attributes:
        points: where the leading chain is, and where the following one is.
        steps: number of steps of the leading chain.
        have_met: whether both are at the same place.
        kept: the three points of one of the steps after the second.
        kept_weights: their weights in the difference between the chains.
        nonfinite: number of proposals whose weight was NaN or infinite.
    """

    points: _Points
    steps: Int[Array, "*N"]
    have_met: Bool[Array, "*N"]
    kept: Float[Array, "*N 3 E"]
    kept_weights: Float[Array, "*N 3"]
    nonfinite: Int[Array, "*N"]


def _usable(points: _Points) -> tuple[_Points, Int[Array, ""]]:
    """Gives weight zero to proposals outside the support and to faults, and counts the faults."""
    bad = jnp.sum(jnp.isnan(points.raw) | (points.raw == jnp.inf))
    return points._replace(raw=jnp.where(jnp.isfinite(points.raw), points.raw, FLOOR)), bad


def _among(raw: Float[Array, "M"], members: Bool[Array, "M"]) -> Float[Array, "M"]:
    return jnp.where(members, raw, -jnp.inf)


def _first_steps(key: Key, points: _Points) -> tuple[_Points, Float[Array, "M"], _Chains]:
    """Takes two steps of the leading chain and one of the following chain; both start at the first point.

    Returns:
        The points, their weights in the mean after the first step plus the difference in the second, and the
        chains.
    """
    points, bad = _usable(points)
    eps, raw = points
    numbers = jnp.arange(len(raw))
    is_fresh = numbers > len(raw) // 2
    first_key, second_key = jax.random.split(key)
    first = _among(raw, ~is_fresh)
    place = jnp.argmax(first + jax.random.gumbel(first_key, raw.shape, raw.dtype))
    # The same proposals and the same Gumbel numbers for both chains: most often they pick the same proposal.
    leading, following = _among(raw, is_fresh | (numbers == place)), _among(raw, is_fresh | (numbers == 0))
    gumbel = jax.random.gumbel(second_key, raw.shape, raw.dtype)
    both = jnp.stack([jnp.argmax(leading + gumbel), jnp.argmax(following + gumbel)])
    weights = jax.nn.softmax(first) + (jax.nn.softmax(leading) - jax.nn.softmax(following))
    chains = _Chains(
        points=_Points(eps[both], raw[both]),
        steps=jnp.asarray(2),
        have_met=both[0] == both[1],
        kept=eps[:3],
        kept_weights=jnp.zeros_like(raw[:3]),
        nonfinite=bad,
    )
    return points, weights, chains


def _next_step(pick_key: Key, keep_key: Key, fresh: _Points, chains: _Chains) -> _Chains:
    """Takes a step of both chains with common proposals."""
    fresh, bad = _usable(fresh)
    eps, raw = jax.tree.map(lambda x, y: jnp.concatenate([x, y]), chains.points, fresh)
    numbers = jnp.arange(len(raw))
    leading, following = _among(raw, numbers != 1), _among(raw, numbers != 0)
    gumbel = jax.random.gumbel(pick_key, raw.shape, raw.dtype)
    both = jnp.stack([jnp.argmax(leading + gumbel), jnp.argmax(following + gumbel)])
    ours, theirs = jax.nn.softmax(leading)[0], jax.nn.softmax(following)[1]
    # The fresh proposals have 1 - ours in one chain and 1 - theirs in the other, shared out in the same way.
    one_for_all = jnp.argmax(_among(raw, numbers > 1) + gumbel)
    steps = chains.steps + 1
    # Each of the n steps so far is the one that is kept with probability 1/n, and counts n times.
    is_kept = jax.random.uniform(keep_key) * (steps - 2).astype(float) < 1
    return _Chains(
        points=_Points(eps[both], raw[both]),
        steps=steps,
        have_met=both[0] == both[1],
        kept=jnp.where(is_kept, eps[jnp.array([0, 1, one_for_all])], chains.kept),
        kept_weights=jnp.where(is_kept, jnp.stack([ours, -theirs, theirs - ours]), chains.kept_weights),
        nonfinite=chains.nonfinite + bad,
    )
