"""Location-scale conditionals whose location (and scale) come from a network."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi import _checks
from uivi._random import normal
from uivi._types import Context, Key, Latent, Noise, Scalar
from uivi.families.conditionals.base import (
    AbstractAutodiffConditional,
    AbstractMappingConditional,
    AbstractNetConditional,
    weighted_sum,
)
from uivi.families.conditionals.scales import AbstractScale
from uivi.networks import MLP

COLLAPSE_FROM = 4
"""Ratio of outputs to features from which a chain works with a quadratic form in the features."""


def normal_log_prob(z: Latent, loc: Latent, log_scale: Latent) -> Scalar:
    """Returns the log density of N(loc, diag(exp(log_scale)²)) at z."""
    standard = (z - loc) * jnp.exp(-log_scale)
    return -jnp.sum(0.5 * standard**2 + log_scale) - 0.5 * z.shape[0] * jnp.log(2 * jnp.pi)


def normal_sample(key: Key, loc: Latent, log_scale: Latent) -> Latent:
    """Draws from N(loc, diag(exp(log_scale)²)), differentiably in both parameters."""
    return loc + jnp.exp(log_scale) * normal(key, loc.shape)


class AbstractGlobalScale(AbstractNetConditional):
    """A conditional with a location from the network and a scale that depends on neither ε nor context."""

    net: MLP
    scale: AbstractScale

    def __check_init__(self):
        size = self.net.out_dim
        advice = f"the network has {size} outputs: give a scale of that size, or change out_dim"
        _checks.shape("`scale`", jax.eval_shape(lambda: self.scale()), (size,), advice)

    @property
    def dim(self) -> int:
        """Size of the latent vector z, D."""
        return self.net.out_dim


class Collapsed(eqx.Module):
    """Log q(z|ε) as a quadratic function of the features φ(ε), at a cost that does not depend on D.

    Let μ = A φ + b be the location, standardised by σ, and δ = φ - origin. The log density is its value at the
    origin plus (Aᵀr)·δ - δ·(AᵀA)δ/2, where r is the residual at the origin. This is exact for any origin; one
    near the features of the ε that made z keeps r small, so that nothing cancels in float32.

    Attributes:
        origin: the features around which the form is expanded.
        slope: Aᵀr.
        gram: AᵀA, shared by all z of an update.
        value: the log density at the origin.
    """

    origin: Float[Array, "F"]
    slope: Float[Array, "F"]
    gram: Float[Array, "F F"]
    value: Scalar

    def __call__(self, features: Float[Array, "F"]) -> Scalar:
        """Returns the log density at these features."""
        change = features - self.origin
        return self.value + self.slope @ change - 0.5 * change @ (self.gram @ change)


class Gaussian(AbstractGlobalScale):
    """The paper's conditional, N(μ(ε), diag(σ²)) with a global σ (Sections 2.1 and 4.1)."""

    def sample(self, key: Key, eps: Noise, context: Context = None) -> Latent:
        """Draws z = μ(ε) + σ u."""
        return self.net(eps, context) + self.scale() * normal(key, (self.dim,))

    def log_prob(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Returns the log density of the Gaussian."""
        return normal_log_prob(z, self.net(eps, context), jnp.log(self.scale()))

    def log_prob_near(self, z: Latent, near: Noise, context: Context = None) -> Callable[[Noise], Scalar]:
        """Collapses the density where z is large: an evaluation then costs O(F²) for F features, whatever D."""
        if not self.is_collapsed:
            return self.log_prob_of(z, context)
        features = self.net.bind(context).features
        density = self.collapsed(z, features(near))
        return lambda eps: density(features(eps))

    @property
    def is_collapsed(self) -> bool:
        """Whether z is so large that chains work with the quadratic form in the features."""
        return self.dim >= COLLAPSE_FROM * self.net.readout.weight.shape[1]

    def collapsed(self, z: Latent, origin: Float[Array, "F"]) -> Collapsed:
        """Returns the quadratic form of log q(z|ε) around the features `origin`."""
        readout, scale = self.net.readout, self.scale()
        matrix = readout.weight / scale[:, None]
        # Full precision also on a GPU: an error in the Gram matrix is a bias of every chain of the update.
        gram = jnp.matmul(matrix.T, matrix, precision=jax.lax.Precision.HIGHEST)
        loc = readout(origin)
        slope = ((z - loc) / scale) @ matrix
        return Collapsed(origin, slope, gram, normal_log_prob(z, loc, jnp.log(scale)))

    def mean_score(
        self, z: Latent, eps: Float[Array, "M E"], weights: Float[Array, "M"], context: Context = None
    ) -> Latent:
        """Averages the features and reads them out once, since the score is affine in them."""
        features = jax.vmap(self.net.bind(context).features)(eps)
        return (self.net.readout(weighted_sum(weights, features)) - z) / self.scale() ** 2

    def log_prob_pairs(
        self, z: Float[Array, "S D"], eps: Float[Array, "M E"], context: Context = None
    ) -> Float[Array, "M S"]:
        """Computes all pairs by one matrix product: with a common σ the squared distance is a² + b² - 2ab.

        Both sides are centred first, against cancellation.
        """
        scale, centre = self.scale(), jnp.mean(z, 0)
        net = self.net.bind(context)
        loc = (jax.vmap(net)(eps) - centre[None]) / scale[None]
        standard = (z - centre[None]) / scale[None]
        product = jnp.matmul(loc, standard.T, precision=jax.lax.Precision.HIGHEST)
        # Rounding can make a squared distance slightly negative, hence the maximum below.
        squares = jnp.sum(loc**2, 1)[:, None] + jnp.sum(standard**2, 1)[None] - 2 * product
        constant = jnp.sum(jnp.log(scale)) + 0.5 * self.dim * jnp.log(2 * jnp.pi)
        return -0.5 * jnp.maximum(squares, 0.0) - constant


class NetGaussian(AbstractNetConditional, AbstractMappingConditional):
    """N(μ(ε), diag(σ(ε)²)). The network has 2D outputs, the location and the log scale.

    The log scale is `offset + raw / sqrt(1 + (raw/bound)²)`. Without the bound, a scale can run away on heavy
    tails and end in NaN.
    """

    net: MLP
    offset: Float[Array, "D"]
    bound: float = eqx.field(static=True, default=8.0)

    def __check_init__(self):
        _checks.positive_float("bound", self.bound)
        advice = "a NetGaussian takes a network with 2 * dim outputs and an offset of size dim"
        if self.net.out_dim % 2:
            raise ValueError(f"expected an even number of outputs, got {self.net.out_dim}: {advice}")
        _checks.shape("`offset`", self.offset, (self.net.out_dim // 2,), advice)

    @property
    def dim(self) -> int:
        """Size of the latent vector z, D."""
        return self.net.out_dim // 2

    def parameters(self, eps: Noise, context: Context = None) -> tuple[Latent, Latent]:
        """Returns location and log scale at one ε."""
        loc, raw = jnp.split(self.net(eps, context), 2)
        return loc, self.offset + raw * jax.lax.rsqrt(1 + (raw / self.bound) ** 2)

    def sample(self, key: Key, eps: Noise, context: Context = None) -> Latent:
        """Draws z = μ(ε) + σ(ε) u."""
        return normal_sample(key, *self.parameters(eps, context))

    def log_prob(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Returns the log density of the Gaussian."""
        return normal_log_prob(z, *self.parameters(eps, context))

    def mean_score(
        self, z: Latent, eps: Float[Array, "M E"], weights: Float[Array, "M"], context: Context = None
    ) -> Latent:
        """Averages (μ(ε) - z)/σ(ε)², the gradient of the log density."""
        loc, log_scale = jax.vmap(lambda e: self.parameters(e, context))(eps)
        # As in the log density, so that XLA computes it once for both.
        inverse = jnp.exp(-log_scale)
        return weights @ (inverse * (inverse * (loc - z[None])))


class Laplace(AbstractGlobalScale, AbstractAutodiffConditional):
    """Independent Laplace coordinates with location μ(ε) and a global scale b."""

    def sample(self, key: Key, eps: Noise, context: Context = None) -> Latent:
        """Draws z = μ(ε) + b u with u standard Laplace."""
        return self.net(eps, context) + self.scale() * jax.random.laplace(key, (self.dim,))

    def log_prob(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Returns the log density of the Laplace distribution."""
        scale = self.scale()
        return -jnp.sum(jnp.abs(z - self.net(eps, context)) / scale + jnp.log(2 * scale))
