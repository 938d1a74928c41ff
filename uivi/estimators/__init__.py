"""Estimators of the ELBO's gradient."""

from uivi._types import Estimate, Info
from uivi.estimators.base import AbstractEstimator, RepeatedSites, grad_of_trained, info_without_chain
from uivi.estimators.explicit import Explicit, StickingTheLanding
from uivi.estimators.iwhvi import IWHVI
from uivi.estimators.kernels import (
    AbstractBandwidth,
    AbstractKernel,
    FixedBandwidth,
    GaussianKernel,
    InverseMultiquadric,
    MedianBandwidth,
)
from uivi.estimators.ksivi import KSIVI, AbstractPairs, TwoBatches, WithinBatch
from uivi.estimators.marginal_score import score
from uivi.estimators.prior_score import PriorScore
from uivi.estimators.pvi import PVI
from uivi.estimators.shared_encoder import SharedEncoder, lend
from uivi.estimators.sivi import SIVI
from uivi.estimators.sivism import SIVISM
from uivi.estimators.uivi import UIVI, need_semi_implicit

__all__ = [
    "IWHVI",
    "KSIVI",
    "PVI",
    "SIVI",
    "SIVISM",
    "UIVI",
    "AbstractBandwidth",
    "AbstractEstimator",
    "AbstractKernel",
    "AbstractPairs",
    "Estimate",
    "Explicit",
    "FixedBandwidth",
    "GaussianKernel",
    "Info",
    "InverseMultiquadric",
    "MedianBandwidth",
    "PriorScore",
    "RepeatedSites",
    "SharedEncoder",
    "StickingTheLanding",
    "TwoBatches",
    "WithinBatch",
    "grad_of_trained",
    "info_without_chain",
    "lend",
    "need_semi_implicit",
    "score",
]
