"""Variational families."""

from uivi.families.base import AbstractFamily
from uivi.families.conditionals import (
    AbstractAutodiffConditional,
    AbstractConditional,
    AbstractNetConditional,
    AbstractScale,
    AbstractSimpleConditional,
    Affine,
    AtModes,
    AtParticles,
    Exponential,
    Gamma,
    Gaussian,
    Laplace,
    Layered,
    LogScale,
    NetGaussian,
    RawScale,
    Reparameterised,
    Sheared,
    Standardised,
    Stretched,
    Warped,
)
from uivi.families.explicit import AbstractExplicit, ExplicitGaussian, TwoNetGaussian
from uivi.families.full_gaussian import FullGaussian
from uivi.families.linear_gaussian import LinearGaussian
from uivi.families.mixing import AbstractMixing, StandardNormal, Uniform
from uivi.families.semi_implicit import SemiImplicit
from uivi.networks import MLP, authors_init, he_init, small_init

__all__ = [
    "MLP",
    "AbstractAutodiffConditional",
    "AbstractConditional",
    "AbstractExplicit",
    "AbstractFamily",
    "AbstractMixing",
    "AbstractNetConditional",
    "AbstractScale",
    "AbstractSimpleConditional",
    "Affine",
    "AtModes",
    "AtParticles",
    "ExplicitGaussian",
    "Exponential",
    "FullGaussian",
    "Gamma",
    "Gaussian",
    "Laplace",
    "Layered",
    "LinearGaussian",
    "LogScale",
    "NetGaussian",
    "RawScale",
    "Reparameterised",
    "SemiImplicit",
    "Sheared",
    "StandardNormal",
    "Standardised",
    "Stretched",
    "TwoNetGaussian",
    "Uniform",
    "Warped",
    "authors_init",
    "he_init",
    "small_init",
]
