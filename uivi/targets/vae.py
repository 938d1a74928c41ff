"""The variational autoencoder with a Bernoulli decoder (paper, Section 4.3)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi._types import Key, Latent, Scalar
from uivi.networks import MLP
from uivi.targets.base import AbstractTarget
from uivi.targets.regression import standard_normal_log_prob
from uivi.targets.rows import Rows, check_batch_size, minibatch

Image = Float[Array, "P"]


class BernoulliVAE(AbstractTarget):
    """p(z) p_φ(x|z) with z ~ N(0, I) and independent pixels: a site is one image, the decoder is trained.

    `images` hold 0 and 1; an update takes `batch_size` of them, shuffled without replacement.
    """

    decoder: MLP
    images: Rows
    batch_size: int = eqx.field(static=True, default=100)

    def __check_init__(self):
        check_batch_size(self.batch_size, self.images)
        pixels = self.images.shape[-1]
        if self.decoder.out_dim != pixels:
            raise ValueError(
                f"expected a decoder with {pixels} outputs (the pixels of an image), got {self.decoder.out_dim}"
            )

    @property
    def dim(self) -> int:
        """D."""
        return self.decoder.noise_dim

    @property
    def num_sites(self) -> int:
        """Images of one update."""
        return self.batch_size

    def sites(self, key: Key, step: Array) -> Float[Array, "B P"]:
        """The images of this update."""
        return self.images[minibatch(key, step, self.images.count, self.batch_size)].astype(float)

    def context(self, site: Image) -> Image:
        """The image."""
        return site

    def log_likelihood(self, z: Latent, site: Image) -> Scalar:
        """Log p(x|z) of one image."""
        logits = self.decoder(z)
        return jnp.sum(site * logits - jax.nn.softplus(logits))

    def log_joint(self, z: Latent, site: Image) -> Scalar:
        """Log p(x, z) of one image."""
        return self.log_likelihood(z, site) + standard_normal_log_prob(z)

    def decode(self, z: Latent) -> Image:
        """The mean of p(x|z)."""
        return jax.nn.sigmoid(self.decoder(z))
