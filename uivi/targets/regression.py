"""Bayesian multinomial logistic regression (paper, Section 4.2)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from uivi import _checks
from uivi._types import Key, Latent, Scalar
from uivi.targets.base import AbstractSingleSiteTarget
from uivi.targets.minibatches import check_batch_size, minibatch
from uivi.targets.priors import standard_normal_log_prob
from uivi.targets.rows import Rows

LabelledRows = tuple[Float[Array, "R F"], Int[Array, "R"]]


class SoftmaxRegression(AbstractSingleSiteTarget):
    """The posterior p(z) Π_n p(y_n|x_n, z) with p(y=k|x, z) ∝ exp(x·z_k + z_0k) and z ~ N(0, I).

    z is the (F + 1) × K matrix of weights, row by row, with the biases last. The only site is the minibatch,
    whose likelihood is scaled by N/B. Integer features (pixels) are divided by `divisor` when they are used.
    """

    features: Rows
    labels: Rows
    num_classes: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    divisor: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        check_batch_size(self.batch_size, self.features)
        _checks.positive_float("divisor", self.divisor)

    @classmethod
    def create(
        cls,
        features: np.ndarray,
        labels: np.ndarray,
        *,
        num_classes: int,
        batch_size: int,
        divisor: float = 1.0,
    ) -> "SoftmaxRegression":
        """Checks the data and keeps it.

        Args:
            features: shape (N, F), float or uint8.
            labels: shape (N,), whole numbers from 0 to num_classes - 1.
            num_classes: number of classes, K.
            batch_size: number of rows in an update, B.
            divisor: divides the features; 255 for pixels.
        """
        features, labels = np.asarray(features), np.asarray(labels)
        if features.ndim != 2 or labels.shape != features.shape[:1]:
            raise ValueError(
                f"expected features of shape (N, F) and labels of shape (N,), got {features.shape} and "
                f"{labels.shape}: give one label per row"
            )
        _checks.positive_int("num_classes", num_classes)
        if not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0 or labels.max() >= num_classes:
            raise ValueError(
                f"expected whole labels from 0 to {num_classes - 1}, got {labels.dtype} from {labels.min()} to "
                f"{labels.max()}: subtract the smallest, or raise num_classes"
            )
        rows = Rows.create(features), Rows.create(labels.astype(np.int32))
        return cls(*rows, num_classes=num_classes, batch_size=batch_size, divisor=divisor)

    @property
    def dim(self) -> int:
        """Size of the latent vector, (F + 1) K."""
        return (self.features.shape[-1] + 1) * self.num_classes

    @property
    def num_sites(self) -> int:
        """Always 1: one posterior."""
        return 1

    def rows(self, index) -> LabelledRows:
        """Returns features as floats, and labels."""
        x = self.features[index]
        return x.astype(jnp.float32) / self.divisor, self.labels[index]

    def sites(self, key: Key, step: Array) -> tuple[Float[Array, "1 B F"], Int[Array, "1 B"]]:
        """Returns the minibatch of this update."""
        x, y = self.rows(minibatch(key, step, self.features.count, self.batch_size))
        return x[None], y[None]

    def context(self, site: LabelledRows) -> None:
        """Returns None: there is no context."""
        del site

    def logits(self, z: Latent, x: Float[Array, "R F"]) -> Float[Array, "R K"]:
        """Returns the unnormalised log probabilities of the classes."""
        weights = z.reshape(-1, self.num_classes).astype(x.dtype)
        # Without the barrier a GPU may sum the gradient of each bias over the rows in a single thread.
        weights, biases = jax.lax.optimization_barrier((weights[:-1], weights[-1]))
        return x @ weights + biases[None]

    def log_likelihoods(self, z: Latent, batch: LabelledRows) -> Float[Array, "R"]:
        """Returns log p(y|x, z) of each row."""
        x, y = batch
        log_p = jax.nn.log_softmax(self.logits(z, x))
        return jnp.take_along_axis(log_p, y[:, None], 1)[:, 0].astype(z.dtype)

    def log_joint(self, z: Latent, site: LabelledRows) -> Scalar:
        """Returns (N/B) Σ_batch log p(y|x, z) + log p(z)."""
        scale = self.features.count.astype(z.dtype) / self.batch_size
        return scale * jnp.sum(self.log_likelihoods(z, site)) + standard_normal_log_prob(z)

    def log_density(self, z: Latent) -> Scalar:
        """Returns log p(y, z|x) on all rows, streamed in pieces of one batch size."""
        total = self.features.shape[0]

        def add(piece, value):
            index = piece * self.batch_size + jnp.arange(self.batch_size, dtype=jnp.int32)
            log_p = self.log_likelihoods(z, self.rows(jnp.minimum(index, total - 1)))
            return value + jnp.sum(jnp.where(index < self.features.count, log_p, 0.0))

        pieces = -(-total // self.batch_size)
        return jax.lax.fori_loop(0, pieces, add, standard_normal_log_prob(z))
