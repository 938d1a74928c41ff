"""Targets: what a family is fitted to."""

from uivi.targets.base import (
    AbstractGlobalTarget,
    AbstractSamplable,
    AbstractSingleSiteTarget,
    AbstractTarget,
    log_density_at,
)
from uivi.targets.density import Density
from uivi.targets.diffusion import ConditionedDiffusion, bounded_drift, cubic_drift
from uivi.targets.logistic import LogisticRegression
from uivi.targets.minibatched import AbstractRowModel, Anchored, Minibatched
from uivi.targets.minibatches import minibatch
from uivi.targets.model import AbstractModel, AbstractModelTarget, ModelTarget
from uivi.targets.network import NetworkRegression
from uivi.targets.observed import Observed
from uivi.targets.priors import AbstractKnownPrior, AbstractPrior, AbstractPriorTarget, Normal
from uivi.targets.regression import SoftmaxRegression
from uivi.targets.rescaled import Rescaled
from uivi.targets.rows import Rows
from uivi.targets.toys import Banana, Multimodal, XShaped
from uivi.targets.vae import BernoulliVAE

__all__ = [
    "AbstractGlobalTarget",
    "AbstractKnownPrior",
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
    "ConditionedDiffusion",
    "Density",
    "LogisticRegression",
    "Minibatched",
    "Multimodal",
    "ModelTarget",
    "NetworkRegression",
    "Normal",
    "Observed",
    "Rescaled",
    "Rows",
    "SoftmaxRegression",
    "XShaped",
    "bounded_drift",
    "cubic_drift",
    "log_density_at",
    "minibatch",
]
