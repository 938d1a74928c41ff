"""Bounds for an implicit prior: the ELBO from both sides, and log p(x) from below.

log q(z) is estimated as in `uivi.evaluation.bounds`. With ζ_1..K ~ m(ζ|z) and w_k = p(z|ζ_k) p(ζ_k) / m(ζ_k|z),
whose mean is unbiased for p(z) whatever z is, log p(z) is estimated by

- the log of the mean of w, which is too low in expectation (Jensen);
- the mean over k of log h_k + w_k/h_k - 1, which is too high. h_k is the mean of the other weights. For every
  h > 0, log p ≤ log h + p/h - 1, a tangent of the logarithm, and w_k is independent of h_k with the mean p(z).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from uivi import _checks
from uivi._jax import seldom_jit
from uivi._types import Draw, Key, Latent
from uivi.evaluation.bounds import PAIRS_AT_ONCE, BoundValue, Side, log_marginal_sides, need_known
from uivi.evaluation.importance import log_mean_weight
from uivi.families.base import AbstractFamily
from uivi.families.semi_implicit import SemiImplicit
from uivi.priors.bounded import Bounded
from uivi.priors.implicit import AbstractImplicit
from uivi.reverse.proposals import AbstractProposal, FittedProposal, from_mixing
from uivi.targets.priors import AbstractPrior, AbstractPriorTarget, need_density


class DoublyEvaluated(NamedTuple):
    """S draws z ~ q at each of B sites, with both estimates of log q(z) and of log p(z).

    Attributes:
        log_likelihood: log p(x|z).
        log_q_high: estimate of log q(z) that is too high in expectation.
        log_q_low: estimate of log q(z) that is too low in expectation.
        log_prior_high: estimate of log p(z) that is too high in expectation.
        log_prior_low: estimate of log p(z) that is too low in expectation.
    """

    log_likelihood: Float[np.ndarray, "B S"]
    log_q_high: Float[np.ndarray, "B S"]
    log_q_low: Float[np.ndarray, "B S"]
    log_prior_high: Float[np.ndarray, "B S"]
    log_prior_low: Float[np.ndarray, "B S"]

    def elbo(self) -> tuple[BoundValue, BoundValue]:
        """Returns the mean ELBO of the sites from below and from above, from the same draws."""
        lower = self.log_likelihood + self.log_prior_low - self.log_q_high
        upper = self.log_likelihood + self.log_prior_high - self.log_q_low
        return _averaged("lower", lower), _averaged("upper", upper)

    @property
    def unsure(self) -> float:
        """Share of the draws at which the two estimates of log p(z) differ by more than a nat.

        If no proposal finds p(ζ|z), h_k is tiny and the upper side enormous, at a few z or at one that was not
        among the draws. Unless this share is zero, the standard error of the upper side means little.
        """
        return float(np.mean(~(self.log_prior_high - self.log_prior_low <= 1.0)))

    def log_marginal(self) -> BoundValue:
        """Returns the mean of log p(x) over the sites from below, by importance sampling from q.

        The mean weight is unbiased for p(x), because the mean of w is unbiased for p(z), and the inverse of the
        mean with the generating ε for 1/q(z). Its log is too low (Jensen).
        """
        weights = self.log_likelihood + self.log_prior_low - self.log_q_high
        made = jax.vmap(log_mean_weight)(jnp.asarray(weights))
        values, stderrs = (np.asarray(x, np.float64) for x in made)
        stderr = float(np.sqrt(np.sum(stderrs**2)) / len(values))
        return BoundValue("log p(x)", "lower", float(np.mean(values)), stderr, weights.size)


def evaluate_doubly(
    key: Key,
    family: AbstractFamily,
    target: AbstractPriorTarget | Bounded,
    sites: PyTree = (),
    *,
    num_draws: int = 1_000,
    num_mixing: int = 1_000,
    num_prior: int = 1_000,
    proposal: FittedProposal | None = None,
    prior_proposal: FittedProposal | None = None,
) -> DoublyEvaluated:
    """Draws z ~ q at every site and estimates log q(z) and log p(z) from both sides.

    A distribution with a density is evaluated exactly: both of its sides are then the same.

    Args:
        key: random key.
        family: any family.
        target: a model with any prior, or the `Bounded` target of a fit.
        sites: sites of the model on a leading axis B, such as images; nothing for a single posterior.
        num_draws: number of draws z at each site, S, at least two.
        num_mixing: number of proposals of ε for each z, L.
        num_prior: number of proposals of ζ for each z, K, at least two.
        proposal: a proposal for q(ε|z), by default q(ε).
        prior_proposal: a proposal for p(ζ|z), by default p(ζ); see `learn_proposal`.
    """
    for name, value in (("num_draws", num_draws), ("num_mixing", num_mixing), ("num_prior", num_prior)):
        _checks.positive_int(name, value)
    if num_draws < 2 or num_prior < 2:
        raise ValueError(
            f"expected `num_draws` and `num_prior` of at least 2, got {num_draws} and {num_prior}: one draw "
            "has no standard error, and one ζ gives no upper side"
        )
    model = target.target if isinstance(target, Bounded) else target
    if not isinstance(model, AbstractPriorTarget):
        raise TypeError(
            f"expected a target with a prior, got {type(model).__name__}: use uivi.evaluation.evaluate, or "
            "make the target a subclass of uivi.targets.AbstractPriorTarget"
        )
    if family.dim != model.dim:
        raise ValueError(
            f"expected a family on {model.dim} dimensions (the target's), got one on {family.dim}: evaluate "
            "the two parts of one fit"
        )
    if not isinstance(family, SemiImplicit):
        need_known(family)
    if not isinstance(model.prior, AbstractImplicit):
        need_density(model.prior)
    budget = _Budget(num_draws, num_mixing, num_prior)
    proposals = tuple(from_mixing() if given is None else given for given in (proposal, prior_proposal))
    made = _evaluate(key, family, model, sites, budget, *proposals)
    return DoublyEvaluated(*(np.asarray(x, np.float64) for x in made))


def learn_proposal(
    key: Key, prior: AbstractImplicit, proposal: AbstractProposal, num_updates: int, num_pairs: int = 64
) -> FittedProposal:
    """Lets a proposal for p(ζ|z) learn from pairs (z, ζ) drawn from the prior.

    Args:
        key: random key.
        prior: an implicit prior.
        proposal: what learns, such as `uivi.reverse.Learned()`.
        num_updates: number of steps of learning.
        num_pairs: number of fresh pairs in each step.
    """
    for name, value in (("num_updates", num_updates), ("num_pairs", num_pairs)):
        _checks.positive_int(name, value)
    return FittedProposal(proposal, _learn(key, prior.distribution(), proposal, num_updates, num_pairs))


class _Budget(NamedTuple):
    """Static numbers of draws."""

    draws: int
    mixing: int
    prior: int


@seldom_jit
def _evaluate(
    key: Key,
    family: AbstractFamily,
    model: AbstractPriorTarget,
    sites: PyTree,
    budget: _Budget,
    proposal: FittedProposal,
    prior_proposal: FittedProposal,
):
    leaves = jax.tree.leaves(sites)
    count = leaves[0].shape[0] if leaves else 1

    def one(args):
        key, site = args
        draw_key, mixing_key, prior_key = jax.random.split(key, 3)
        context = model.context(site)
        draw = family.sample(draw_key, context)
        log_q = _family_sides(mixing_key, family, draw, budget.mixing, proposal, context)
        log_prior = _prior_sides(prior_key, model.prior, draw.z, budget.prior, prior_proposal)
        return model.log_likelihood(draw.z, site), *log_q, *log_prior

    repeated = jax.tree.map(lambda x: jnp.repeat(x, budget.draws, 0), sites)
    keys = jax.random.split(key, count * budget.draws)
    at_once = max(1, PAIRS_AT_ONCE // (budget.mixing + budget.prior))
    made = jax.lax.map(one, (keys, repeated), batch_size=at_once)
    return [x.reshape(count, budget.draws) for x in made]


def _family_sides(key: Key, family: AbstractFamily, draw: Draw, num: int, proposal: FittedProposal, context):
    if isinstance(family, SemiImplicit):
        return log_marginal_sides(key, family, draw, num, proposal, context)
    log_q = need_known(family).log_prob(draw.z, context)
    return log_q, log_q


def _prior_sides(key: Key, prior: AbstractPrior, z: Latent, num: int, proposal: FittedProposal):
    if not isinstance(prior, AbstractImplicit):
        log_p = need_density(prior).log_prob(z)
        return log_p, log_p
    distribution = prior.distribution()
    at, log_prob = proposal.at(distribution, z, None), distribution.conditional.log_prob_of(z)
    weigh = lambda zeta: log_prob(zeta) + distribution.mixing.log_prob(zeta) - at.log_prob(zeta)
    return tangent_and_jensen(jax.vmap(weigh)(at.sample(key, num)))


def tangent_and_jensen(log_weights: Float[Array, "K"]) -> tuple[Array, Array]:
    """Returns estimates of log p from above and from below, given logs of independent weights of mean p.

    From above it is the mean over k of log h_k + w_k/h_k - 1, where h_k is the mean of the other weights. It is
    infinite if some h_k is zero.
    """
    count = log_weights.shape[0]
    nothing = jnp.full((1,), -jnp.inf, log_weights.dtype)
    before = jnp.concatenate([nothing, jax.lax.cumlogsumexp(log_weights)[:-1]])
    after = jnp.concatenate([jax.lax.cumlogsumexp(log_weights, reverse=True)[1:], nothing])
    log_others = jnp.logaddexp(before, after) - jnp.log(count - 1)
    each = log_others + jnp.exp(log_weights - log_others) - 1
    each = jnp.where(log_others == -jnp.inf, jnp.inf, each)
    return jnp.mean(each), jax.nn.logsumexp(log_weights) - jnp.log(count)


@seldom_jit
def _learn(key: Key, prior: SemiImplicit, proposal: AbstractProposal, num_updates: int, num_pairs: int):
    start_key, run_key = jax.random.split(key)

    step = lambda state, key: (proposal.learn(key, prior, state, num_pairs), None)
    return jax.lax.scan(step, proposal.init(start_key, prior), jax.random.split(run_key, num_updates))[0]


def _averaged(side: Side, terms: Float[np.ndarray, "B S"]) -> BoundValue:
    """Averages the sites. They are fixed: the error of their mean is that of the draws at each of them."""
    variances = np.var(terms, 1, ddof=1) / terms.shape[1]
    stderr = float(np.sqrt(np.sum(variances)) / len(terms))
    return BoundValue("ELBO", side, float(np.mean(terms)), stderr, terms.size)
