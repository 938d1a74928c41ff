"""Unbiased implicit variational inference (Titsias & Ruiz 2019) in JAX."""

from uivi import datasets, presets, targets
from uivi._types import Draw, Info, ReverseDraws, Status
from uivi.estimators import SIVI, UIVI, AbstractEstimator, Explicit, StickingTheLanding
from uivi.estimators.marginal_score import score
from uivi.evaluation import bounds, importance, metrics, reverse_mixing
from uivi.evaluation.annealing import AIS
from uivi.evaluation.classification import predict
from uivi.evaluation.likelihood import Likelihood
from uivi.evaluation.verdict import Check, Verdict
from uivi.families import (
    MLP,
    AbstractConditional,
    AbstractFamily,
    AbstractMixing,
    Affine,
    ExplicitGaussian,
    Exponential,
    Gamma,
    Gaussian,
    Laplace,
    LinearGaussian,
    LogScale,
    NetGaussian,
    RawScale,
    Reparameterised,
    SemiImplicit,
    Standardised,
    StandardNormal,
    TwoNetGaussian,
    Uniform,
    Warped,
    authors_init,
    he_init,
    small_init,
)
from uivi.fitting.fit import fit
from uivi.fitting.posterior import Posterior, load
from uivi.integrations.blackjax import as_vi_algorithm
from uivi.reverse import (
    HMC,
    ISIR,
    AbstractReverseSampler,
    AdaptBetween,
    AuthorsRule,
    BlackJAX,
    Compose,
    Exact,
    FixedStep,
    FromMixing,
    Importance,
    Learned,
)
from uivi.storage.archive import ArchiveError
from uivi.training import optimisers
from uivi.training.rounds import Rounds

__version__ = "0.1.0"

__all__ = [
    "AIS",
    "HMC",
    "ISIR",
    "MLP",
    "SIVI",
    "UIVI",
    "AbstractConditional",
    "AbstractEstimator",
    "AbstractFamily",
    "AbstractMixing",
    "AbstractReverseSampler",
    "AdaptBetween",
    "Affine",
    "ArchiveError",
    "AuthorsRule",
    "BlackJAX",
    "Compose",
    "Check",
    "Draw",
    "Exact",
    "Explicit",
    "ExplicitGaussian",
    "Exponential",
    "FixedStep",
    "FromMixing",
    "Gamma",
    "Gaussian",
    "Importance",
    "Info",
    "Laplace",
    "Learned",
    "Likelihood",
    "LinearGaussian",
    "LogScale",
    "NetGaussian",
    "Posterior",
    "RawScale",
    "Reparameterised",
    "ReverseDraws",
    "Rounds",
    "SemiImplicit",
    "StandardNormal",
    "Standardised",
    "Status",
    "StickingTheLanding",
    "TwoNetGaussian",
    "Uniform",
    "Warped",
    "Verdict",
    "as_vi_algorithm",
    "authors_init",
    "bounds",
    "datasets",
    "importance",
    "reverse_mixing",
    "fit",
    "he_init",
    "load",
    "metrics",
    "optimisers",
    "predict",
    "presets",
    "score",
    "small_init",
    "targets",
]
