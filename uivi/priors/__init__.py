"""Priors p(z): with a density, or known by their draws."""

from uivi.priors.bounded import Bounded, NoisySite
from uivi.priors.implicit import AbstractImplicit, FixedImplicit, Implicit
from uivi.priors.mixtures import GaussianMixture, VampPrior
from uivi.priors.rows import RowConditional
from uivi.targets.priors import AbstractKnownPrior, AbstractPrior, Normal

__all__ = [
    "AbstractImplicit",
    "AbstractKnownPrior",
    "AbstractPrior",
    "Bounded",
    "FixedImplicit",
    "GaussianMixture",
    "Implicit",
    "NoisySite",
    "Normal",
    "RowConditional",
    "VampPrior",
]
