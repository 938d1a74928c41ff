"""Mixture priors, whose density is known."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Draw, Key, Latent, Scalar
from uivi.families.conditionals.location_scale import normal_log_prob, normal_sample
from uivi.families.explicit import AbstractExplicitGaussian
from uivi.priors.rows import AbstractOfRows
from uivi.targets.priors import AbstractKnownPrior
from uivi.targets.rows import Rows


class GaussianMixture(AbstractKnownPrior):
    """A mixture of Gaussians with diagonal covariances; all of it is trained.

    Attributes:
        loc: means of the components.
        log_scale: logarithms of their standard deviations.
        logits: unnormalised logarithms of their weights.
    """

    loc: Float[Array, "K D"]
    log_scale: Float[Array, "K D"]
    logits: Float[Array, "K"]

    def __check_init__(self):
        if self.loc.ndim != 2 or not self.loc.shape[0]:
            raise ValueError(f"expected `loc` with at least one row, of shape (K, D), got {self.loc.shape}")
        _checks.shape("`log_scale`", self.log_scale, self.loc.shape, "it must match `loc`")
        _checks.shape("`logits`", self.logits, self.loc.shape[:1], "it must match the rows of `loc`")

    @classmethod
    def of_rows(cls, rows: AbstractOfRows) -> "GaussianMixture":
        """Returns the mixture that a prior of rows is. It calls the encoder once, not at each z."""
        return cls(*rows.components())

    @property
    def dim(self) -> int:
        """Size of the latent vector z, D."""
        return self.loc.shape[1]

    def sample(self, key: Key) -> Draw:
        """Picks a component, then draws from it. ζ is empty."""
        pick_key, z_key = jax.random.split(key)
        number = jax.random.categorical(pick_key, self.logits)
        z = normal_sample(z_key, self.loc[number], self.log_scale[number])
        return Draw(z, jnp.zeros((0,), z.dtype))

    def log_prob(self, z: Latent) -> Scalar:
        """Returns the log of the weighted sum of all densities."""
        each = jax.vmap(lambda loc, log_scale: normal_log_prob(z, loc, log_scale))(self.loc, self.log_scale)
        return jax.nn.logsumexp(each + jax.nn.log_softmax(self.logits))


class VampPrior(AbstractOfRows, AbstractKnownPrior):
    """The equal mixture (1/K) Σ_k r(z|u_k) of an encoder's Gaussians (Tomczak & Welling 2018).

    The encoder belongs to the prior and is trained with it.

    Attributes:
        encoder: a Gaussian with a network of its context.
        rows: the pseudo-inputs u_k, trained; or rows of data.
    """

    encoder: AbstractExplicitGaussian
    rows: Float[Array, "K C"] | Rows

    def sample(self, key: Key) -> Draw:
        """Picks a row, then draws from its Gaussian. ζ is empty."""
        pick_key, z_key = jax.random.split(key)
        return self.encoder.sample(z_key, self.row(jax.random.randint(pick_key, (), 0, self.num_rows)))

    def log_prob(self, z: Latent) -> Scalar:
        """Returns the log of the mean density over all rows."""
        loc, log_scale, log_weights = self.components()
        each = jax.vmap(lambda loc, log_scale: normal_log_prob(z, loc, log_scale))(loc, log_scale)
        return jax.nn.logsumexp(each + log_weights)
