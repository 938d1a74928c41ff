"""The two recipes: `default`, the best we can prove, and `paper`, faithful to its constants.

Each kind of problem has a module: any density, logistic regression, variational autoencoders, their priors.
`methods` has the settings of other methods.
"""

from uivi.presets import methods, regression, vae, vae_prior
from uivi.presets.density import (
    DEFAULT_RATE,
    DEFAULT_STEPS,
    FULL_COVARIANCE_UP_TO,
    default_estimator,
    default_estimators,
    default_family,
    default_optimizer,
    default_sivi,
    default_uivi,
    paper_family,
    paper_optimizer,
    paper_sivi,
    paper_uivi,
)

__all__ = [
    "DEFAULT_RATE",
    "DEFAULT_STEPS",
    "FULL_COVARIANCE_UP_TO",
    "default_estimator",
    "default_estimators",
    "default_family",
    "default_optimizer",
    "default_sivi",
    "default_uivi",
    "methods",
    "paper_family",
    "paper_optimizer",
    "paper_sivi",
    "paper_uivi",
    "regression",
    "vae",
    "vae_prior",
]
