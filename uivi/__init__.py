"""Unbiased implicit variational inference (Titsias & Ruiz 2019) in JAX."""

from uivi import datasets, presets, targets
from uivi._types import Draw, Info, ReverseDraws, Status
from uivi.estimators import SIVI, UIVI, AbstractEstimator, Explicit, StickingTheLanding, score
from uivi.evaluation import bounds, diagnostics, metrics
from uivi.evaluation.ais import AIS
from uivi.evaluation.diagnosis import Diagnosis, Verdict
from uivi.evaluation.likelihood import Likelihood
from uivi.evaluation.predictive import predict
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
from uivi.training import optim
from uivi.training.stopping import Rounds

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
    "Diagnosis",
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
    "diagnostics",
    "fit",
    "he_init",
    "load",
    "metrics",
    "optim",
    "predict",
    "presets",
    "score",
    "small_init",
    "targets",
]
