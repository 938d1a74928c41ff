"""One row per estimator: how to make it, and the family it is meant for."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from tests.helpers import make_oracle
from tests.priors.table import encoder, linear_prior, vamp
from uivi.estimators import (
    SIVI,
    UIVI,
    AbstractEstimator,
    Explicit,
    PriorScore,
    SharedEncoder,
    StickingTheLanding,
)
from uivi.families import AbstractFamily, ExplicitGaussian
from uivi.priors import Bounded, Implicit
from uivi.reverse import HMC, ISIR, Compose, Exact, FixedStep, FromMixing
from uivi.targets import AbstractTarget, Observed


class Row(NamedTuple):
    """A constructor, the family that suits it, and a target with the density of the oracle's."""

    make: Callable[[], AbstractEstimator]
    family: Callable[[], AbstractFamily]
    target: Callable[[], AbstractTarget] = lambda: make_oracle().target


def implicit_family() -> AbstractFamily:
    """The oracle's linear-Gaussian family."""
    return make_oracle().family


def explicit_family() -> ExplicitGaussian:
    """A mean-field Gaussian that is not centred and not isotropic."""
    return ExplicitGaussian(jnp.array([0.4, -0.3, -0.5, 0.2]))


def split_target() -> Bounded:
    """The oracle's target, of which an implicit prior is a factor."""
    prior, oracle = linear_prior(), make_oracle().target
    log_likelihood = lambda z: oracle.log_joint(z, ()) - prior.conditional.marginal_log_prob(z)
    return Bounded(Observed(log_likelihood, Implicit(prior)), 2)


def vamp_target() -> Observed:
    """The oracle's target, of which the prior of `encoder` is a factor."""
    prior, oracle = vamp(), make_oracle().target
    return Observed(lambda z: oracle.log_joint(z, ()) - prior.log_prob(z), prior)


ESTIMATORS = {
    "uivi-exact": Row(lambda: UIVI(4, Exact(2)), implicit_family),
    "uivi-isir": Row(lambda: UIVI(4, ISIR(100, 3, FromMixing())), implicit_family),
    "uivi-hmc": Row(lambda: UIVI(4, HMC(25, 3, 3, FixedStep(0.4))), implicit_family),
    "uivi-compose": Row(
        lambda: UIVI(4, Compose(ISIR(60, 2, FromMixing()), HMC(1, 2, 3, FixedStep(0.4)))),
        implicit_family,
    ),
    "prior-score": Row(lambda: PriorScore(UIVI(4, Exact(2)), Exact(2)), implicit_family, split_target),
    "prior-score-explicit": Row(lambda: PriorScore(Explicit(4), Exact(2)), explicit_family, split_target),
    "shared-encoder": Row(lambda: SharedEncoder(Explicit(4)), encoder, vamp_target),
    "sivi": Row(lambda: SIVI(4, 3), implicit_family),
    "explicit": Row(lambda: Explicit(4), explicit_family),
    "sticking-the-landing": Row(lambda: StickingTheLanding(4), explicit_family),
}

UNBIASED = [name for name in ESTIMATORS if name not in ("shared-encoder", "sivi")]
