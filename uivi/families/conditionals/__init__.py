"""Conditionals q(z|ε)."""

from uivi.families.conditionals.affine import Affine, Standardised
from uivi.families.conditionals.base import (
    AbstractAutodiffConditional,
    AbstractConditional,
    AbstractNetConditional,
    AbstractSimpleConditional,
)
from uivi.families.conditionals.layered import Layered
from uivi.families.conditionals.location_scale import Gaussian, Laplace, NetGaussian
from uivi.families.conditionals.modes import AtModes
from uivi.families.conditionals.particles import AtParticles
from uivi.families.conditionals.positive import Exponential, Gamma
from uivi.families.conditionals.scales import AbstractScale, LogScale, RawScale
from uivi.families.conditionals.sheared import Sheared
from uivi.families.conditionals.stretched import Stretched
from uivi.families.conditionals.user import Reparameterised
from uivi.families.conditionals.warped import Warped

__all__ = [
    "AbstractAutodiffConditional",
    "AbstractConditional",
    "AbstractNetConditional",
    "AbstractScale",
    "AbstractSimpleConditional",
    "Affine",
    "AtModes",
    "AtParticles",
    "Exponential",
    "Gamma",
    "Gaussian",
    "Laplace",
    "Layered",
    "LogScale",
    "NetGaussian",
    "RawScale",
    "Reparameterised",
    "Sheared",
    "Standardised",
    "Stretched",
    "Warped",
]
