"""Variational families."""

from uivi.families.base import AbstractFamily
from uivi.families.conditionals import (
    AbstractConditional,
    AbstractScale,
    Affine,
    Exponential,
    Gamma,
    Gaussian,
    Laplace,
    LogScale,
    NetGaussian,
    RawScale,
    Reparameterised,
)
from uivi.families.explicit import ExplicitGaussian
from uivi.families.linear_gaussian import LinearGaussian
from uivi.families.mixing import AbstractMixing, StandardNormal, Uniform
from uivi.families.networks import MLP, authors_init, he_init, small_init
from uivi.families.semi_implicit import SemiImplicit

__all__ = [
    "MLP",
    "AbstractConditional",
    "AbstractFamily",
    "AbstractMixing",
    "AbstractScale",
    "Affine",
    "ExplicitGaussian",
    "Exponential",
    "Gamma",
    "Gaussian",
    "Laplace",
    "LinearGaussian",
    "LogScale",
    "NetGaussian",
    "RawScale",
    "Reparameterised",
    "SemiImplicit",
    "StandardNormal",
    "Uniform",
    "authors_init",
    "he_init",
    "small_init",
]
