"""Distributions over rows: an encoder's Gaussians at data, or at trained pseudo-inputs."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from uivi._types import Context, Key, Latent, Noise, Scalar
from uivi.families.conditionals.base import AbstractSimpleConditional
from uivi.families.explicit import AbstractExplicitGaussian
from uivi.targets.rows import Rows


class AbstractOfRows(eqx.Module):
    """An encoder and the rows at which it is taken.

    Attributes:
        encoder: a Gaussian with a network of its context.
        rows: trained rows of shape (K, C), or rows of data.
    """

    encoder: eqx.AbstractVar[AbstractExplicitGaussian]
    rows: eqx.AbstractVar[Float[Array, "K C"] | Rows]

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
    def num_rows(self) -> int | Int[Array, ""]:
        """Number of rows, K, without padding."""
        return self.rows.count if isinstance(self.rows, Rows) else self.rows.shape[0]

    def row(self, number: Array) -> Float[Array, "C"]:
        """Returns one row, as floats."""
        return _floats(self._stored()[number])

    def components(self) -> tuple[Float[Array, "K D"], Float[Array, "K D"], Float[Array, "K"]]:
        """Returns locations, log scales and log weights of the Gaussians at all rows. Padding has no weight."""
        loc, log_scale = jax.vmap(self.encoder.parameters)(_floats(self._stored()))
        is_row = jnp.arange(len(loc), dtype=jnp.int32) < self.num_rows
        log_weight = -jnp.log(jnp.asarray(self.num_rows, loc.dtype))
        return loc, log_scale, jnp.where(is_row, log_weight, -jnp.inf)

    def _stored(self) -> Array:
        return self.rows.stored() if isinstance(self.rows, Rows) else self.rows


class RowConditional(AbstractOfRows, AbstractSimpleConditional):
    """p(z|ζ) = r(z|row number ⌊Kζ⌋), whose marginal under ζ ~ `Uniform(1)` is the equal mixture of all rows.

    With rows of data this is the aggregated posterior of an encoder as prior (Molchanov et al. 2019): its
    density takes all rows, a draw takes one. `VampPrior` is the same prior with the density computed.

    Attributes:
        encoder: a Gaussian with a network of its context, trained with the prior.
        rows: rows of data; or pseudo-inputs, trained.
    """

    encoder: AbstractExplicitGaussian
    rows: Float[Array, "K C"] | Rows

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
        number = jnp.floor(eps[0] * jnp.asarray(self.num_rows, eps.dtype)).astype(jnp.int32)
        return self.row(jnp.clip(number, 0, self.num_rows - 1))


def _floats(rows: Array) -> Array:
    return rows if eqx.is_inexact_array(rows) else rows.astype(float)
