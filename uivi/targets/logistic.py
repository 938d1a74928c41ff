"""Bayesian logistic regression with two classes."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from uivi import _checks
from uivi._types import Latent, Scalar
from uivi.targets.base import AbstractGlobalTarget
from uivi.targets.priors import standard_normal_log_prob
from uivi.targets.rows import Rows


class LogisticRegression(AbstractGlobalTarget):
    """The posterior p(z) Π_n p(y_n|x_n, z) with p(y=1|x, z) = 1/(1 + exp(-x·z)) and z ~ N(0, s² I) or flat.

    An intercept is a column of ones.

    Attributes:
        features: rows x, shape (N, D).
        labels: classes 0 and 1, shape (N,).
        prior_scale: s; None for a flat prior, of density 1 everywhere.
    """

    features: Rows
    labels: Rows
    prior_scale: float | None = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        if self.prior_scale is not None:
            _checks.positive_float("prior_scale", self.prior_scale)

    @classmethod
    def create(
        cls, features: np.ndarray, labels: np.ndarray, *, prior_scale: float | None = 1.0
    ) -> "LogisticRegression":
        """Checks the data and keeps it."""
        features, labels = np.asarray(features), np.asarray(labels)
        if features.ndim != 2 or labels.shape != features.shape[:1]:
            raise ValueError(
                f"expected features of shape (N, D) and labels of shape (N,), got {features.shape} and "
                f"{labels.shape}: give one label per row"
            )
        if not np.isin(labels, (0, 1)).all():
            raise ValueError(
                f"expected labels 0 and 1, got values from {labels.min()} to {labels.max()}: number the two "
                "classes so, or use uivi.targets.SoftmaxRegression for more"
            )
        return cls(Rows.create(features), Rows.create(labels.astype(np.int32)), prior_scale)

    @property
    def dim(self) -> int:
        """Number of features, D."""
        return self.features.shape[-1]

    def log_joint(self, z: Latent, site: tuple = ()) -> Scalar:
        """Returns log p(y, z|x)."""
        del site
        signs = 2 * self.labels.stored().astype(z.dtype) - 1
        logits = self.features.stored().astype(z.dtype) @ z
        return jnp.sum(jax.nn.log_sigmoid(signs * logits)) + self._log_prior(z)

    def _log_prior(self, z: Latent) -> Scalar:
        if self.prior_scale is None:
            return jnp.zeros((), z.dtype)
        return standard_normal_log_prob(z / self.prior_scale) - self.dim * math.log(self.prior_scale)
