"""Targets: what a family is fitted to."""

from uivi.targets.base import AbstractGlobalTarget, AbstractSamplable, AbstractTarget, log_density_at
from uivi.targets.data import Rows, minibatch
from uivi.targets.density import Density
from uivi.targets.minibatched import AbstractRowProgram, Anchored, Minibatched
from uivi.targets.program import AbstractModel, AbstractProgram, Program
from uivi.targets.regression import SoftmaxRegression
from uivi.targets.toys import Banana, Multimodal, XShaped
from uivi.targets.vae import BernoulliVAE

__all__ = [
    "AbstractGlobalTarget",
    "AbstractModel",
    "AbstractProgram",
    "AbstractRowProgram",
    "AbstractSamplable",
    "AbstractTarget",
    "Anchored",
    "Banana",
    "BernoulliVAE",
    "Density",
    "Minibatched",
    "Multimodal",
    "Program",
    "Rows",
    "SoftmaxRegression",
    "XShaped",
    "log_density_at",
    "minibatch",
]
