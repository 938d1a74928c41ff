"""Families with a density: the role, and Gaussians that are mean-field or the encoder of a standard VAE."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Context, Draw, Key, Latent, Scalar
from uivi.families.base import AbstractFamily
from uivi.families.conditionals.location_scale import normal_log_prob, normal_sample
from uivi.networks import MLP


class AbstractDensityAt(eqx.Module):
    """q(z) at one context: draws and their density."""

    @abc.abstractmethod
    def sample(self, key: Key) -> Latent:
        """Returns one reparameterised draw."""

    @abc.abstractmethod
    def log_prob(self, z: Latent) -> Scalar:
        """Returns the normalised log density."""


class AbstractExplicit(AbstractFamily):
    """A family whose density is known. A subclass writes `at`, its sizes, and nothing else."""

    @abc.abstractmethod
    def at(self, context: Context = None) -> AbstractDensityAt:
        """Returns q(z) at one context."""

    def sample(self, key: Key, context: Context = None) -> Draw:
        """Draws z. The draw has an empty ε."""
        z = self.at(context).sample(key)
        return Draw(z, jnp.zeros((0,), z.dtype))

    def log_prob(self, z: Latent, context: Context = None) -> Scalar:
        """Returns log q(z) in closed form."""
        return self.at(context).log_prob(z)


class DiagonalAt(AbstractDensityAt):
    """N(loc, diag(scale²))."""

    loc: Float[Array, "D"]
    log_scale: Float[Array, "D"]

    def sample(self, key: Key) -> Latent:
        """Returns loc + scale u."""
        return normal_sample(key, self.loc, self.log_scale)

    def log_prob(self, z: Latent) -> Scalar:
        """Returns the normalised log density."""
        return normal_log_prob(z, self.loc, self.log_scale)


class AbstractExplicitGaussian(AbstractExplicit):
    """A Gaussian q(z) = N(loc, diag(scale²)), free or amortised."""

    @abc.abstractmethod
    def parameters(self, context: Context = None) -> tuple[Latent, Latent]:
        """Returns location and log scale."""

    def at(self, context: Context = None) -> DiagonalAt:
        """Returns the Gaussian at one context."""
        return DiagonalAt(*self.parameters(context))


class ExplicitGaussian(AbstractExplicitGaussian):
    """A Gaussian whose location and log scale are free, or come from one network.

    Attributes:
        encoder: a network of the context with 2D outputs (locations, then log scales), or the free vector of
            these outputs.
    """

    encoder: MLP | Float[Array, "P"]

    def __check_init__(self):
        outputs = self.encoder.out_dim if isinstance(self.encoder, MLP) else self.encoder.shape[0]
        if outputs % 2:
            raise ValueError(f"expected an even number of outputs, locations and log scales, got {outputs}")

    @classmethod
    def create(cls, dim: int, scale: float = 1.0) -> "ExplicitGaussian":
        """Creates a mean-field Gaussian at the origin."""
        dim = _checks.positive_int("dim", dim)
        return cls(jnp.concatenate([jnp.zeros(dim), jnp.full((dim,), jnp.log(scale))]))

    @property
    def dim(self) -> int:
        """Size of the latent vector z, D."""
        outputs = self.encoder.out_dim if isinstance(self.encoder, MLP) else self.encoder.shape[0]
        return outputs // 2

    @property
    def context_dim(self) -> int:
        """Size of the context, C."""
        return self.encoder.noise_dim if isinstance(self.encoder, MLP) else 0

    def parameters(self, context: Context = None) -> tuple[Latent, Latent]:
        """Returns location and log scale."""
        outputs = self.encoder
        if isinstance(outputs, MLP):
            outputs = outputs(_need_context(context, self.context_dim))
        loc, log_scale = jnp.split(outputs, 2)
        return loc, log_scale


class TwoNetGaussian(AbstractExplicitGaussian):
    """The paper's standard VAE, N(μ(x), diag(softplus(s(x))²)) with separate networks (Section 4.3)."""

    loc_net: MLP
    scale_net: MLP

    def __check_init__(self):
        sizes = [(n.noise_dim, n.out_dim) for n in (self.loc_net, self.scale_net)]
        if sizes[0] != sizes[1]:
            raise ValueError(f"expected two networks with the same inputs and outputs, got {sizes}")

    @property
    def dim(self) -> int:
        """Size of the latent vector z, D."""
        return self.loc_net.out_dim

    @property
    def context_dim(self) -> int:
        """Size of the context, C."""
        return self.loc_net.noise_dim

    def parameters(self, context: Context = None) -> tuple[Latent, Latent]:
        """Returns location and log scale."""
        x = _need_context(context, self.context_dim)
        return self.loc_net(x), jnp.log(jax.nn.softplus(self.scale_net(x)))


def _need_context(context: Context, size: int) -> Float[Array, "C"]:
    if context is None:
        raise ValueError(f"expected a context of shape ({size},), got None")
    return context
