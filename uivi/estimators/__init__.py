"""Estimators of the ELBO's gradient."""

from uivi._types import Estimate, Info
from uivi.estimators.base import AbstractEstimator
from uivi.estimators.explicit import Explicit, StickingTheLanding
from uivi.estimators.marginal_score import score
from uivi.estimators.prior_score import PriorScore
from uivi.estimators.shared_encoder import SharedEncoder, lend
from uivi.estimators.sivi import SIVI
from uivi.estimators.uivi import UIVI

__all__ = [
    "SIVI",
    "UIVI",
    "AbstractEstimator",
    "Estimate",
    "Explicit",
    "Info",
    "PriorScore",
    "SharedEncoder",
    "StickingTheLanding",
    "lend",
    "score",
]
