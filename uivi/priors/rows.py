"""Distributions over rows: an encoder's Gaussians at data, or at trained pseudo-inputs."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi._types import Context, Key, Latent, Noise, Scalar
from uivi.families.conditionals.base import AbstractSimpleConditional
from uivi.families.explicit import AbstractExplicit
from uivi.trainable import NonTrainable


class AbstractOfRows(eqx.Module):
    """An encoder and the rows at which it is taken.

    Attributes:
        encoder: a Gaussian with a network of its context.
        rows: trained rows of shape (K, C), or rows of data in a `NonTrainable`.
    """

    encoder: eqx.AbstractVar[AbstractExplicit]
    rows: eqx.AbstractVar[Float[Array, "K C"] | NonTrainable]

    def __check_init__(self):
        shape, size = self._stored().shape, self.encoder.context_dim
        if not size:
            raise ValueError(
                f"expected an encoder with a context, got {type(self.encoder).__name__} without one: give it a "
                "network"
            )
        if len(shape) != 2 or not shape[0] or shape[1] != size:
            raise ValueError(
                f"expected at least one row, of shape (K, {size}), got {shape}: the encoder takes contexts of "
                f"size {size}"
            )

    @property
    def dim(self) -> int:
        """Size of the latent vector z, D."""
        return self.encoder.dim

    @property
    def num_rows(self) -> int:
        """Number of rows, K."""
        return self._stored().shape[0]

    def row(self, number: Array) -> Float[Array, "C"]:
        """Returns one row, as floats."""
        return _floats(self._stored()[number])

    def all_rows(self) -> Float[Array, "K C"]:
        """Returns all rows, as floats."""
        return _floats(self._stored())

    def _stored(self) -> Array:
        return self.rows() if isinstance(self.rows, NonTrainable) else self.rows


class RowConditional(AbstractOfRows, AbstractSimpleConditional):
    """p(z|ζ) = r(z|row number ⌊Kζ⌋), whose marginal under ζ ~ `Uniform(1)` is the equal mixture of all rows.

    With rows of data this is the aggregated posterior of an encoder as prior (Molchanov et al. 2019): its
    density takes all rows, a draw takes one. `VampPrior` is the same prior with the density computed.

    Attributes:
        encoder: a Gaussian with a network of its context, trained with the prior.
        rows: rows of data, in a `NonTrainable`; or pseudo-inputs, trained.
    """

    encoder: AbstractExplicit
    rows: Float[Array, "K C"] | NonTrainable

    @property
    def noise_dim(self) -> int:
        """Always 1."""
        return 1

    def sample(self, key: Key, eps: Noise, context: Context = None) -> Latent:
        """Draws from the Gaussian of one row."""
        del context
        return self.encoder.sample(key, self._row_at(eps)).z

    def log_prob(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Returns the log density of one row's Gaussian."""
        del context
        return self.encoder.log_prob(z, self._row_at(eps))

    def _row_at(self, eps: Noise) -> Float[Array, "C"]:
        number = jnp.floor(eps[0] * self.num_rows).astype(jnp.int32)
        return self.row(jnp.clip(number, 0, self.num_rows - 1))


def _floats(rows: Array) -> Array:
    return rows if eqx.is_inexact_array(rows) else rows.astype(float)
