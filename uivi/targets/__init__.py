"""Targets: what a family is fitted to."""

from uivi.targets.base import (
    AbstractGlobalTarget,
    AbstractSamplable,
    AbstractSingleSiteTarget,
    AbstractTarget,
    log_density_at,
)
from uivi.targets.brownian import BrownianMotion
from uivi.targets.cox import CoxProcess
from uivi.targets.density import Density
from uivi.targets.diffusion import ConditionedDiffusion, bounded_drift, cubic_drift
from uivi.targets.funnel import Funnel
from uivi.targets.logistic import LogisticRegression
from uivi.targets.minibatched import AbstractRowModel, Anchored, Minibatched
from uivi.targets.minibatches import minibatch
from uivi.targets.mixtures import (
    AbstractMixture,
    GaussianMixture,
    StudentMixture,
    eight_gaussians,
    forty_gaussians,
    ten_students,
)
from uivi.targets.model import AbstractModel, AbstractModelTarget, ModelTarget
from uivi.targets.network import NetworkRegression
from uivi.targets.observed import Observed
from uivi.targets.priors import AbstractKnownPrior, AbstractPrior, AbstractPriorTarget, Normal
from uivi.targets.regression import SoftmaxRegression
from uivi.targets.rescaled import Rescaled
from uivi.targets.rosenbrock import Rosenbrock
from uivi.targets.rows import Rows
from uivi.targets.seeds import Seeds
from uivi.targets.toys import Banana, Multimodal, XShaped
from uivi.targets.vae import BernoulliVAE

__all__ = [
    "AbstractGlobalTarget",
    "AbstractKnownPrior",
    "AbstractMixture",
    "AbstractModelTarget",
    "AbstractModel",
    "AbstractPrior",
    "AbstractPriorTarget",
    "AbstractRowModel",
    "AbstractSamplable",
    "AbstractSingleSiteTarget",
    "AbstractTarget",
    "Anchored",
    "Banana",
    "BernoulliVAE",
    "BrownianMotion",
    "ConditionedDiffusion",
    "CoxProcess",
    "Density",
    "Funnel",
    "GaussianMixture",
    "LogisticRegression",
    "Minibatched",
    "Multimodal",
    "ModelTarget",
    "NetworkRegression",
    "Normal",
    "Observed",
    "Rescaled",
    "Rosenbrock",
    "Rows",
    "Seeds",
    "SoftmaxRegression",
    "StudentMixture",
    "XShaped",
    "bounded_drift",
    "cubic_drift",
    "eight_gaussians",
    "forty_gaussians",
    "log_density_at",
    "minibatch",
    "ten_students",
]
