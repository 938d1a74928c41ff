"""Targets: what a family is fitted to."""

from uivi.targets.base import AbstractGlobalTarget, AbstractSamplable, AbstractTarget, log_density_at
from uivi.targets.density import Density
from uivi.targets.toys import Banana, Multimodal, XShaped

__all__ = [
    "AbstractGlobalTarget",
    "AbstractSamplable",
    "AbstractTarget",
    "Banana",
    "Density",
    "Multimodal",
    "XShaped",
    "log_density_at",
]
