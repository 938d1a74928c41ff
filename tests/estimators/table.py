"""One row per estimator: how to make it, and the family it is meant for."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tests.priors.table import encoder, vamp
from uivi.estimators import (
    IWHVI,
    KSIVI,
    PVI,
    SIVI,
    SIVISM,
    UIVI,
    AbstractEstimator,
    Explicit,
    FixedBandwidth,
    GaussianKernel,
    InverseMultiquadric,
    PriorScore,
    SharedEncoder,
    StickingTheLanding,
    WithinBatch,
)
from uivi.families import AbstractFamily, AtParticles, ExplicitGaussian, SemiImplicit, Uniform
from uivi.families.conditionals.affine import Frame
from uivi.integrations.flowjax import Flow, RealNVP
from uivi.priors import Bounded, Implicit
from uivi.reverse import (
    HMC,
    ISIR,
    Amortised,
    ByParticle,
    Compose,
    Coupled,
    Exact,
    FixedStep,
    FromMixing,
    Importance,
    LearnedFlow,
)
from uivi.targets import AbstractTarget, Observed
from uivi.testing import make_linear_prior, make_oracle


class Row(NamedTuple):
    """A constructor, the family that suits it, and a target with the density of the oracle's."""

    make: Callable[[], AbstractEstimator]
    family: Callable[[], AbstractFamily]
    target: Callable[[], AbstractTarget] = lambda: make_oracle().target


def implicit_family() -> AbstractFamily:
    """The oracle's linear-Gaussian family."""
    return make_oracle().family


def particle_family() -> SemiImplicit:
    """The oracle's conditional at five particles."""
    cloud = jnp.array([[0.3, -1.2], [1.1, 0.4], [-0.6, 0.9], [0.0, 0.2], [-1.4, -0.7]])
    return SemiImplicit(Uniform(1), AtParticles(cloud, make_oracle().conditional))


def explicit_family() -> ExplicitGaussian:
    """A mean-field Gaussian that is not centred and not isotropic."""
    return ExplicitGaussian(jnp.array([0.4, -0.3, -0.5, 0.2]))


def flow_family() -> Flow:
    """A small normalising flow, on a scale that is not its own."""
    frame = Frame.create(jnp.array([0.3, -0.5]), jnp.array([[1.1, 0.0], [0.4, 0.8]]))
    return Flow.create(jax.random.key(2), RealNVP(2, num_layers=2, width=4), frame=frame)


def split_target() -> Bounded:
    """The oracle's target, of which an implicit prior is a factor."""
    prior, oracle = make_linear_prior(), make_oracle().target
    log_likelihood = lambda z: oracle.log_joint(z, ()) - prior.conditional.marginal_log_prob(z)
    return Bounded(Observed(log_likelihood, Implicit(prior)), 2)


def vamp_target() -> Observed:
    """The oracle's target, of which the prior of `encoder` is a factor."""
    prior, oracle = vamp(), make_oracle().target
    return Observed(lambda z: oracle.log_joint(z, ()) - prior.log_prob(z), prior)


ESTIMATORS = {
    "uivi-exact": Row(lambda: UIVI(4, Exact(2)), implicit_family),
    "uivi-isir": Row(lambda: UIVI(4, ISIR(100, 3, FromMixing())), implicit_family),
    "uivi-coupled": Row(lambda: UIVI(4, Coupled(12, FromMixing())), implicit_family),
    "uivi-hmc": Row(lambda: UIVI(4, HMC(25, 3, 3, FixedStep(0.4))), implicit_family),
    "uivi-compose": Row(
        lambda: UIVI(4, Compose(ISIR(60, 2, FromMixing()), HMC(1, 2, 3, FixedStep(0.4)))),
        implicit_family,
    ),
    "prior-score": Row(lambda: PriorScore(UIVI(4, Exact(2)), Exact(2)), implicit_family, split_target),
    "prior-score-explicit": Row(lambda: PriorScore(Explicit(4), Exact(2)), explicit_family, split_target),
    "shared-encoder": Row(lambda: SharedEncoder(Explicit(4)), encoder, vamp_target),
    "sivi": Row(lambda: SIVI(4, 3), implicit_family),
    "iwhvi": Row(lambda: IWHVI(4, 3, Amortised(width=8)), implicit_family),
    "ksivi": Row(lambda: KSIVI(4, GaussianKernel(FixedBandwidth(1.2))), implicit_family),
    "ksivi-within": Row(lambda: KSIVI(4, InverseMultiquadric(), WithinBatch()), implicit_family),
    "sivi-sm": Row(lambda: SIVISM(4, width=8), implicit_family),
    "uivi-particles": Row(lambda: UIVI(4, Importance(1, ByParticle())), particle_family),
    "pvi": Row(lambda: PVI(2), particle_family),
    "aisivi": Row(
        lambda: UIVI(4, Importance(40, LearnedFlow(num_layers=2, width=8, learning_rate=1e-2))), implicit_family
    ),
    "bsivi": Row(lambda: UIVI(4, Importance(200, FromMixing())), implicit_family),
    "explicit": Row(lambda: Explicit(4), explicit_family),
    "sticking-the-landing": Row(lambda: StickingTheLanding(4), explicit_family),
    "flow": Row(lambda: Explicit(4), flow_family),
    "flow-sticking": Row(lambda: StickingTheLanding(4), flow_family),
}

FLOWS = ("flow", "flow-sticking")

OTHERS = (
    *("sivi", "iwhvi", "ksivi", "ksivi-within", "sivi-sm", "uivi-particles", "pvi", "aisivi", "bsivi"),
    *FLOWS,
)
"""Their expected gradient is not the oracle's ELBO gradient: each has a test of its own."""

UNBIASED = [name for name in ESTIMATORS if name not in (*OTHERS, "shared-encoder")]
