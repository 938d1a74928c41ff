"""A Bayesian neural network for regression, the field's benchmark on UCI's data sets."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Latent, Scalar
from uivi.targets.base import AbstractGlobalTarget
from uivi.targets.priors import standard_normal_log_prob
from uivi.targets.rows import Rows

SHAPE, RATE = 1.0, 0.1
"""The Gamma prior of the noise precision, as in the code of SVGD and of all methods compared since."""


class Weights(NamedTuple):
    """One z, split into the parts of the network.

    Attributes:
        first: weights of the hidden layer.
        bias: biases of the hidden layer.
        last: weights of the output.
        offset: bias of the output.
        log_precision: log precision of the noise.
    """

    first: Float[Array, "F H"]
    bias: Float[Array, "H"]
    last: Float[Array, "H"]
    offset: Float[Array, ""]
    log_precision: Float[Array, ""]


class NetworkRegression(AbstractGlobalTarget):
    """The posterior of a network with one hidden layer of ReLUs: y ~ N(f(x), 1/γ).

    Weights and biases have the prior N(0, 1), the precision γ of the noise has Gamma(1, 0.1), and z holds log γ
    (with its Jacobian). Give features and values with mean 0 and standard deviation 1.

    Attributes:
        features: rows x, shape (N, F).
        values: what is predicted, shape (N,).
        width: number of hidden units, H.
    """

    features: Rows
    values: Rows
    width: int = eqx.field(static=True, default=50)

    def __check_init__(self):
        _checks.positive_int("width", self.width)

    @classmethod
    def create(cls, features: np.ndarray, values: np.ndarray, *, width: int = 50) -> "NetworkRegression":
        """Checks the data and keeps it."""
        features, values = np.asarray(features), np.asarray(values)
        if features.ndim != 2 or values.shape != features.shape[:1]:
            raise ValueError(
                f"expected features of shape (N, F) and values of shape (N,), got {features.shape} and "
                f"{values.shape}: give one value per row"
            )
        return cls(Rows.create(features), Rows.create(values), width)

    @property
    def dim(self) -> int:
        """Size of the latent vector, (F + 2) H + 2."""
        return (self.features.shape[-1] + 2) * self.width + 2

    def weights(self, z: Latent) -> Weights:
        """Splits one z."""
        size = self.features.shape[-1] * self.width
        first, bias, last, rest = jnp.split(z, [size, size + self.width, size + 2 * self.width])
        return Weights(first.reshape(-1, self.width), bias, last, rest[0], rest[1])

    def predict(self, z: Latent, x: Float[Array, "R F"]) -> tuple[Float[Array, "R"], Scalar]:
        """Returns f(x) of each row and the log precision of the noise."""
        w = self.weights(z)
        hidden = jax.nn.relu(x.astype(z.dtype) @ w.first + w.bias[None])
        return hidden @ w.last + w.offset, w.log_precision

    def log_joint(self, z: Latent, site: tuple = ()) -> Scalar:
        """Returns log p(y, z|x)."""
        del site
        mean, log_precision = self.predict(z, self.features.stored())
        residuals = self.values.stored().astype(z.dtype) - mean
        half_log = 0.5 * (log_precision - math.log(2 * math.pi))
        likelihood = residuals.shape[0] * half_log - 0.5 * jnp.exp(log_precision) * jnp.sum(residuals**2)
        # Gamma(1, b) of γ, on the scale of log γ.
        gamma = math.log(RATE) + SHAPE * log_precision - RATE * jnp.exp(log_precision)
        return likelihood + standard_normal_log_prob(z[:-1]) + gamma
