"""One row per prior, and the oracle: a Gaussian prior that is made implicit, with every quantity known."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from uivi.families import MLP, ExplicitGaussian, LinearGaussian, SemiImplicit, StandardNormal, Uniform
from uivi.priors import Bounded, FixedImplicit, GaussianMixture, Implicit, Normal, RowConditional, VampPrior
from uivi.targets import Observed
from uivi.testing import expected_log_density, make_oracle
from uivi.trainable import NonTrainable


def linear_prior() -> SemiImplicit:
    """p(z) = N(b, W Wᵀ + diag(σ²)) as a semi-implicit distribution; nothing in it is symmetric."""
    weight = jnp.array([[0.8, -0.5], [0.4, 0.9]])
    return SemiImplicit(
        StandardNormal(2), LinearGaussian(weight, jnp.array([-0.2, 0.5]), jnp.array([0.7, 0.9]))
    )


def gaussian_mixture() -> GaussianMixture:
    return GaussianMixture(
        jnp.array([[1.0, -0.5], [-0.8, 0.7], [0.2, 1.5]]),
        jnp.log(jnp.array([[0.5, 0.8], [0.6, 0.4], [0.9, 0.7]])),
        jnp.array([0.3, -0.4, 0.1]),
    )


def encoder() -> ExplicitGaussian:
    return ExplicitGaussian(MLP.create(jax.random.key(5), 3, 4, width=6))


def vamp() -> VampPrior:
    return VampPrior(encoder(), jax.random.normal(jax.random.key(6), (5, 3)))


def rows() -> SemiImplicit:
    """`vamp` as an implicit prior: ζ picks a row."""
    prior = vamp()
    return SemiImplicit(Uniform(1), RowConditional(prior.encoder, prior.rows))


def vamp_at_data() -> VampPrior:
    pixels = (np.random.default_rng(0).random((7, 3)) < 0.4).astype(np.uint8)
    return VampPrior(encoder(), NonTrainable(jnp.asarray(pixels)))


KNOWN = {
    "normal": lambda: Normal(2),
    "gaussian-mixture": gaussian_mixture,
    "vamp": vamp,
    "vamp-at-data": vamp_at_data,
}
IMPLICIT = {
    "implicit": lambda: Implicit(linear_prior()),
    "implicit-rows": lambda: Implicit(rows()),
    "fixed": lambda: FixedImplicit.create(linear_prior()),
}
PRIORS = KNOWN | IMPLICIT


class DoublyOracle(NamedTuple):
    """A linear-Gaussian family, the oracle's target as likelihood, and the linear-Gaussian prior."""

    family: SemiImplicit
    target: Bounded


def doubly_oracle(num_draws: int = 2) -> DoublyOracle:
    oracle = make_oracle()
    log_likelihood = lambda z: oracle.target.log_joint(z, ())
    return DoublyOracle(oracle.family, Bounded(Observed(log_likelihood, Implicit(linear_prior())), num_draws))


def negative_doubly_elbo(conditionals):
    """Closed form, from the conditionals of the family and of the prior."""
    family, prior = conditionals
    (mean, covariance), (centre, spread) = family.marginal(), prior.marginal()
    entropy = 0.5 * jnp.linalg.slogdet(2 * jnp.pi * jnp.e * covariance)[1]
    second = covariance + jnp.outer(mean - centre, mean - centre)
    log_prior = -0.5 * jnp.linalg.slogdet(2 * jnp.pi * spread)[1] - 0.5 * jnp.trace(
        jnp.linalg.solve(spread, second)
    )
    return -expected_log_density(mean, covariance) - log_prior - entropy
