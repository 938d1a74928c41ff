"""The oracle with a linear-Gaussian prior that is made implicit: the ELBO with log p(z) has a closed form."""

from typing import NamedTuple

import jax.numpy as jnp

from uivi._types import Scalar
from uivi.families.linear_gaussian import LinearGaussian
from uivi.families.mixing import StandardNormal
from uivi.families.semi_implicit import SemiImplicit
from uivi.priors.bounded import Bounded
from uivi.priors.implicit import Implicit
from uivi.targets.observed import Observed
from uivi.testing.oracle import expected_log_density, make_oracle


class DoublyOracle(NamedTuple):
    """The oracle's family, and its target as the likelihood beside an implicit prior."""

    family: SemiImplicit
    target: Bounded


def make_linear_prior() -> SemiImplicit:
    """Returns p(z) = N(b, W Wᵀ + diag(σ²)) as a semi-implicit distribution; nothing in it is symmetric."""
    weight = jnp.array([[0.8, -0.5], [0.4, 0.9]])
    conditional = LinearGaussian(weight, jnp.array([-0.2, 0.5]), jnp.array([0.7, 0.9]))
    return SemiImplicit(StandardNormal(2), conditional)


def make_doubly_oracle(num_draws: int = 2) -> DoublyOracle:
    """Returns the oracle with `make_linear_prior`, whose log density is bounded with so many draws of ζ."""
    oracle = make_oracle()
    log_likelihood = lambda z: oracle.target.log_joint(z, ())
    observed = Observed(function=log_likelihood, prior=Implicit(make_linear_prior()))
    return DoublyOracle(oracle.family, Bounded(observed, num_draws))


def negative_doubly_elbo(conditionals: tuple[LinearGaussian, LinearGaussian]) -> Scalar:
    """Returns the negative ELBO with log p(z), from the conditionals of the family and of the prior."""
    family, prior = conditionals
    (mean, covariance), (centre, spread) = family.marginal(), prior.marginal()
    entropy = 0.5 * jnp.linalg.slogdet(2 * jnp.pi * jnp.e * covariance)[1]
    second = covariance + jnp.outer(mean - centre, mean - centre)
    constant = 0.5 * jnp.linalg.slogdet(2 * jnp.pi * spread)[1]
    log_prior = -constant - 0.5 * jnp.trace(jnp.linalg.solve(spread, second))
    return -expected_log_density(mean, covariance) - log_prior - entropy
