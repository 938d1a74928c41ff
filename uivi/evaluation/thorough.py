"""A search for mass that q misses, from far-off points and without q's draws.

Importance weights know the places that q visits, and a path of the search for a start leads to one mode. Here
particles come from wide normal distributions to the posterior itself; see `uivi.evaluation.tempering`. Where
many of them end and q has almost no density, q misses a part of the posterior.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from uivi._jax import one_blas_thread, seldom_jit
from uivi._random import written_out
from uivi._types import Key
from uivi.estimators.base import AbstractEstimator
from uivi.evaluation.bounds import PAIRS_AT_ONCE, need_known
from uivi.evaluation.tempering import Particles, temper
from uivi.families.base import AbstractFamily
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.proposals import FittedProposal, from_mixing
from uivi.targets.base import AbstractGlobalTarget, AbstractSingleSiteTarget, AbstractTarget
from uivi.targets.cost import operations
from uivi.targets.model import AbstractModelTarget
from uivi.targets.traced import traced

SPREADS = (3.0, 10.0, 30.0, 100.0)
"""How wide the particles begin, in standard deviations of q: one group of particles for each, and one that
begins where the prior of a model is."""
MOST_PARTICLES, FEWEST_PARTICLES = 512, 64
"""Particles of a group: for a cheap density, and for the most expensive one."""
CHEAP = 50_000
"""Operations of one evaluation up to which a group has the most particles."""
FULL_UP_TO = 200
"""Largest D for which the unit of length is q's full covariance; above it, its standard deviations."""
NUM_PRIOR = 512
"""Number of draws of the prior that say where it is."""
NUM_MIXING = 256
"""Number of proposals of ε for log q at each particle."""
FAR = 5.0
"""Nats by which log p/q must be above the log of the mean weight at q's draws: q has less than a hundredth of
the density that it should have."""
LEAST_MISSED = 0.02
"""Share of the posterior from which a part that q misses is reported."""


class Thorough(NamedTuple):
    """What a search from far-off points has found.

    Attributes:
        num_particles: number of particles that reached the posterior.
        num_lost: number of particles that did not, since their group needed too many steps.
        reach: widest standard deviation of the first particles, in those of q.
        missed: share of the posterior where q has less than a hundredth of the density that it should have; 0
            if that is less than a fiftieth of the posterior.
        distance: how far this part is from the mean of q, in standard deviations of q; 0 if there is none.
        from_prior: whether a group of particles began where the prior of the model is.
    """

    num_particles: int
    num_lost: int
    reach: float
    missed: float
    distance: float
    from_prior: bool = False


def search_far(
    key: Key,
    family: AbstractFamily,
    target: AbstractTarget,
    estimator: AbstractEstimator,
    est_state: PyTree,
    z: Float[np.ndarray, "S D"],
    log_mass: float,
) -> Thorough:
    """Looks for mass that q misses.

    Args:
        key: random key.
        family: the fitted family, without context.
        target: the target that was fitted.
        estimator: the method of the fit.
        est_state: state of the method.
        z: draws of q. They only set the centre and the unit of length.
        log_mass: log of the posterior's mass where q is, from importance weights.
    """
    draws = z.astype(np.float64)
    prior_key, key = jax.random.split(key)
    prior = target.prior_draws(prior_key, NUM_PRIOR) if isinstance(target, AbstractModelTarget) else None
    target = traced(target)
    number = _number(target)
    centre, spread = draws.mean(0), draws.std(0)
    if not (math.isfinite(log_mass) and np.all(np.isfinite(spread) & (spread > 0))):
        # A broken fit has no unit of length and no mass to compare with.
        return Thorough(0, number * len(SPREADS), SPREADS[-1], 0.0, 0.0)
    unit = spread
    if len(spread) <= FULL_UP_TO:
        correlation = np.atleast_2d(np.corrcoef(draws.T))
        unit = spread[:, None] * np.linalg.cholesky(0.999 * correlation + 0.001 * np.eye(len(spread)))
    is_implicit = isinstance(family, SemiImplicit)
    proposal = (estimator.fitted_proposal(est_state) or from_mixing()) if is_implicit else None
    frame = (jnp.asarray(centre, z.dtype), jnp.asarray(unit, z.dtype))
    begun = _beginnings(prior, centre, unit)
    with one_blas_thread():
        found = _search(key, family, target, proposal, frame, jnp.asarray(begun, z.dtype), number)
    particles, log_q = jax.tree.map(lambda x: np.asarray(x, np.float64), found)
    return _compared(particles, log_q, log_mass)._replace(from_prior=begun.shape[1] > len(SPREADS))


def _beginnings(prior: np.ndarray | None, centre: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Returns means and standard deviations of the first particles of every group, in units of q."""
    spreads = np.repeat(np.array(SPREADS)[:, None], len(centre), 1)
    groups = np.stack([np.zeros_like(spreads), spreads])
    if prior is None or len(prior) < NUM_PRIOR // 2:
        return groups
    moved = prior - centre
    inside = np.linalg.solve(unit, moved.T).T if unit.ndim == 2 else moved / unit
    # Quantiles: a prior may have no variance.
    low, middle, high = np.quantile(inside, (0.16, 0.5, 0.84), axis=0)
    if not np.all(high > low):
        return groups
    return np.concatenate([groups, np.stack([middle, 0.5 * (high - low)])[:, None]], 1)


def _number(target: AbstractTarget) -> int:
    """Returns the number of particles of a group: a power of two, smaller for an expensive density."""
    cost = operations(target) if isinstance(target, AbstractGlobalTarget) else math.inf
    fewer = math.ceil(math.log2(max(cost / CHEAP, 1.0))) if math.isfinite(cost) else math.inf
    return FEWEST_PARTICLES if fewer > 3 else MOST_PARTICLES >> int(fewer)


@seldom_jit
def _search(
    key: Key,
    family: AbstractFamily,
    target: AbstractTarget,
    proposal: FittedProposal | None,
    frame: tuple[Array, Array],
    begun: Float[Array, "2 G D"],
    number: int,
) -> tuple[Particles, Array]:
    """Returns the particles of all groups, in units of q around its centre, and log q in these units."""
    assert isinstance(target, AbstractSingleSiteTarget)
    centre, unit = frame
    place = lambda w: centre + (unit @ w if unit.ndim == 2 else unit * w)
    volume = jnp.sum(jnp.log(jnp.diag(unit) if unit.ndim == 2 else unit))
    temper_key, density_key = jax.random.split(written_out(key))
    log_density = lambda w: target.log_density(place(w)) + volume
    keys = jax.random.split(temper_key, begun.shape[1])
    run = lambda key, middle, spread: temper(key, log_density, middle, spread, number)
    particles = jax.vmap(run)(keys, *begun)
    z = jax.vmap(jax.vmap(place))(particles.points)
    flat = z.reshape(-1, family.dim)
    keys = jax.random.split(density_key, len(flat))
    at_once = max(1, PAIRS_AT_ONCE // NUM_MIXING)
    log_q = jax.lax.map(lambda xs: _log_q(xs[0], family, xs[1], proposal), (keys, flat), batch_size=at_once)
    return particles, log_q.reshape(z.shape[:2]) + volume


def _log_q(key: Key, family: AbstractFamily, z: Array, proposal: Any) -> Array:
    """Returns log q(z); for a semi-implicit family, the log of an unbiased estimate of q(z)."""
    if not isinstance(family, SemiImplicit):
        return need_known(family).log_prob(z)
    at, conditional = proposal.at(family, z, None), family.conditional.log_prob_of(z)
    log_weight = lambda eps: conditional(eps) + family.mixing.log_prob(eps) - at.log_prob(eps)
    weights = jax.vmap(log_weight)(at.sample(key, NUM_MIXING))
    return jax.nn.logsumexp(weights) - jnp.log(NUM_MIXING).astype(weights.dtype)


def _compared(particles: Particles, log_q: np.ndarray, log_mass: float) -> Thorough:
    """Compares where the particles are with the density of q."""
    has_arrived = (particles.beta >= 1) & np.any(np.isfinite(particles.log_p), 1)
    number, missed, distance = particles.log_p.shape[1], 0.0, 0.0
    for group in np.flatnonzero(has_arrived):
        # The particles of a group share its estimate of the evidence: what is far has an absolute mass. A group
        # that is stuck in a region without mass counts for nothing.
        is_far = particles.log_p[group] - log_q[group] - log_mass > FAR
        if not is_far.any():
            continue
        odds = math.exp(min(particles.log_z[group] + math.log(is_far.mean()) - log_mass, 700.0))
        share = odds / (1 + odds)
        if share > max(missed, LEAST_MISSED):
            missed = share
            distance = float(np.median(np.linalg.norm(particles.points[group][is_far], axis=1)))
    arrived = int(has_arrived.sum())
    return Thorough(number * arrived, number * (len(has_arrived) - arrived), SPREADS[-1], missed, distance)
