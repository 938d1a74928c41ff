"""Bring your own distribution."""

from collections.abc import Callable

import equinox as eqx
from jaxtyping import Array

from uivi._types import Context, Key, Latent, Noise, Scalar
from uivi.families.conditionals.base import AbstractAutodiffConditional, AbstractNetConditional
from uivi.networks import MLP


class Reparameterised(AbstractNetConditional, AbstractAutodiffConditional):
    """A conditional made of two functions of the network's output.

    Args:
        net: returns the parameters `p = net(eps, context)`.
        size: size of the latent vector, D.
        sample_fn: `(key, p) -> z`, differentiable in `p`.
        log_prob_fn: `(z, p) -> scalar`, normalised.

    Examples:
        A logistic distribution with unit scale:

        >>> net = MLP.create(jax.random.key(0), noise_dim=3, out_dim=2)
        >>> logistic = Reparameterised(
        ...     net,
        ...     2,
        ...     sample_fn=lambda key, p: p + jax.random.logistic(key, p.shape),
        ...     log_prob_fn=lambda z, p: jax.scipy.stats.logistic.logpdf(z - p).sum(),
        ... )
    """

    net: MLP
    size: int = eqx.field(static=True)
    sample_fn: Callable[[Key, Array], Latent] = eqx.field(static=True)
    log_prob_fn: Callable[[Latent, Array], Scalar] = eqx.field(static=True)

    @property
    def dim(self) -> int:
        """Size of the latent vector z, D."""
        return self.size

    def sample(self, key: Key, eps: Noise, context: Context = None) -> Latent:
        """Calls `sample_fn` at net(ε)."""
        return self.sample_fn(key, self.net(eps, context))

    def log_prob(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Calls `log_prob_fn` at net(ε)."""
        return self.log_prob_fn(z, self.net(eps, context))
