"""Unbiased implicit variational inference (Titsias & Ruiz 2019) in JAX.

What a user types is here; everything else is found by its role: `uivi.families.Gamma`, `uivi.reverse.Learned`.
"""

from uivi import (
    datasets,
    estimators,
    evaluation,
    families,
    integrations,
    presets,
    priors,
    reverse,
    targets,
    training,
)
from uivi._types import Status
from uivi.estimators import SIVI, UIVI, Explicit, StickingTheLanding
from uivi.evaluation import Verdict
from uivi.families import ExplicitGaussian, SemiImplicit
from uivi.fitting.fit import fit
from uivi.fitting.posterior import Posterior, load
from uivi.reverse import HMC, ISIR, BlackJAX, Compose, Exact, Importance
from uivi.training import Rounds

__version__ = "0.1.0"

__all__ = [
    "HMC",
    "ISIR",
    "SIVI",
    "UIVI",
    "BlackJAX",
    "Compose",
    "Exact",
    "Explicit",
    "ExplicitGaussian",
    "Importance",
    "Posterior",
    "Rounds",
    "SemiImplicit",
    "Status",
    "StickingTheLanding",
    "Verdict",
    "datasets",
    "estimators",
    "evaluation",
    "families",
    "fit",
    "integrations",
    "load",
    "presets",
    "priors",
    "reverse",
    "targets",
    "training",
]
