"""The variational autoencoder with a Bernoulli decoder (paper, Section 4.3)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi._types import Key, Latent, Scalar
from uivi.networks import MLP
from uivi.targets.minibatches import check_batch_size, minibatch
from uivi.targets.priors import AbstractPrior, AbstractPriorTarget, Normal
from uivi.targets.rows import Rows

Image = Float[Array, "P"]


class BernoulliVAE(AbstractPriorTarget):
    """The model p(z) p_φ(x|z) with independent pixels. A site is one image.

    Args:
        decoder: the network φ, trained with the family.
        images: rows of zeros and ones.
        batch_size: number of images in an update, shuffled without replacement.
        prior: p(z), trained too; N(0, I) by default. Wrap a model with an implicit prior in
            `uivi.priors.Bounded`.
    """

    decoder: MLP
    images: Rows
    batch_size: int = eqx.field(static=True)
    prior: AbstractPrior

    def __init__(self, decoder: MLP, images: Rows, batch_size: int = 100, prior: AbstractPrior | None = None):
        self.decoder, self.images, self.batch_size = decoder, images, batch_size
        self.prior = Normal(decoder.noise_dim) if prior is None else prior

    def __check_init__(self):
        check_batch_size(self.batch_size, self.images)
        pixels = self.images.shape[-1]
        if self.decoder.out_dim != pixels:
            raise ValueError(
                f"expected a decoder with {pixels} outputs (the pixels of an image), got {self.decoder.out_dim}"
            )

    @property
    def dim(self) -> int:
        """Size of the latent vector z, D."""
        return self.decoder.noise_dim

    @property
    def num_sites(self) -> int:
        """Number of images in one update."""
        return self.batch_size

    def sites(self, key: Key, step: Array) -> Float[Array, "B P"]:
        """Returns the images of this update."""
        return self.images[minibatch(key, step, self.images.count, self.batch_size)].astype(float)

    def context(self, site: Image) -> Image:
        """Returns the image itself."""
        return site

    def log_likelihood(self, z: Latent, site: Image) -> Scalar:
        """Returns log p(x|z) of one image."""
        logits = self.decoder(z)
        return jnp.sum(site * logits - jax.nn.softplus(logits))

    def decode(self, z: Latent) -> Image:
        """Returns the mean of p(x|z)."""
        return jax.nn.sigmoid(self.decoder(z))
