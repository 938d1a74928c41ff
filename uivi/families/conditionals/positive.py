"""Exponential-family conditionals on the positive half line (paper, Section 2.2, second example)."""

import jax
import jax.numpy as jnp

from uivi._types import Context, Key, Latent, Noise, Scalar
from uivi.families.conditionals.base import AbstractAutodiffConditional, AbstractNetConditional
from uivi.networks import MLP


class Exponential(AbstractNetConditional, AbstractAutodiffConditional):
    """Independent exponential coordinates. The network returns the log rates."""

    net: MLP

    @property
    def dim(self) -> int:
        """Size of the latent vector z, D."""
        return self.net.out_dim

    def sample(self, key: Key, eps: Noise, context: Context = None) -> Latent:
        """Draws z = u / rate(ε) with u standard exponential."""
        return jax.random.exponential(key, (self.dim,)) * jnp.exp(-self.net(eps, context))

    def log_prob(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Returns the log density, minus infinity outside the support."""
        log_rate = self.net(eps, context)
        value = jnp.sum(log_rate - jnp.exp(log_rate) * z)
        return jnp.where(jnp.all(z >= 0), value, -jnp.inf)


class Gamma(AbstractNetConditional, AbstractAutodiffConditional):
    """Independent gamma coordinates. The network returns the log concentrations, then the log rates.

    JAX differentiates its gamma sampler implicitly, so draws are reparameterised.
    """

    net: MLP

    def __check_init__(self):
        if self.net.out_dim % 2:
            raise ValueError(
                f"expected an even number of outputs, got {self.net.out_dim}: a Gamma takes a "
                "network with 2 * dim outputs (log concentrations, then log rates)"
            )

    @property
    def dim(self) -> int:
        """Size of the latent vector z, D."""
        return self.net.out_dim // 2

    def sample(self, key: Key, eps: Noise, context: Context = None) -> Latent:
        """Draws z = u / rate(ε) with u ~ Gamma(concentration(ε), 1)."""
        log_concentration, log_rate = jnp.split(self.net(eps, context), 2)
        return jax.random.gamma(key, jnp.exp(log_concentration)) * jnp.exp(-log_rate)

    def log_prob(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Returns the log density, minus infinity outside the support."""
        log_concentration, log_rate = jnp.split(self.net(eps, context), 2)
        a = jnp.exp(log_concentration)
        # log(0) would make the gradient NaN even where the outer `where` discards the value.
        safe = jnp.where(z > 0, z, 1.0)
        terms = a * log_rate + (a - 1) * jnp.log(safe) - jnp.exp(log_rate) * safe
        value = jnp.sum(terms - jax.scipy.special.gammaln(a))
        return jnp.where(jnp.all(z > 0), value, -jnp.inf)
