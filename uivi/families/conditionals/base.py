"""The role of a conditional q(z|ε): reparameterisable, with a log density."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi._types import Context, Key, Latent, Noise, Scalar
from uivi.networks import MLP


class AbstractConditional(eqx.Module):
    """q(z|ε) (Titsias & Ruiz 2019, Section 2.1). All methods take one ε, one z, one context.

    A new conditional declares the three sizes and writes `sample` and `log_prob`; the defaults of
    `context_dim` and `log_prob_of` are right unless a conditional takes a context or can be faster.
    """

    @property
    def dim(self) -> int:
        """D, the size of z."""
        raise NotImplementedError

    @property
    def noise_dim(self) -> int:
        """E, the size of ε."""
        raise NotImplementedError

    @property
    def context_dim(self) -> int:
        """C, the size of the context; 0 for a conditional that is not amortised."""
        return 0

    def sample(self, key: Key, eps: Noise, context: Context = None) -> Latent:
        """Draw z = h(u; ε) with u ~ q(u), differentiable in the parameters (eq. 4)."""
        raise NotImplementedError

    def log_prob(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Normalised log q(z|ε)."""
        raise NotImplementedError

    def log_prob_of(self, z: Latent, context: Context = None) -> Callable[[Noise], Scalar]:
        """The function ε -> log q(z|ε), with all that does not depend on ε computed now."""
        return lambda eps: self.log_prob(z, eps, context)

    def log_prob_near(self, z: Latent, near: Noise, context: Context = None) -> Callable[[Noise], Scalar]:
        """`log_prob_of` for the many evaluations of a reverse chain, most of them around the ε `near`.

        Not to be differentiated in the parameters: work may be moved from each evaluation to the beginning.
        """
        del near
        return self.log_prob_of(z, context)

    def mean_score(
        self, z: Latent, eps: Float[Array, "M E"], weights: Float[Array, "M"], context: Context = None
    ) -> Latent:
        """Σ_m w_m ∇_z log q(z|ε_m), with weights that sum to one."""
        slope = jax.grad(self.log_prob)
        return weighted_sum(weights, jax.vmap(lambda e: slope(z, e, context))(eps))

    def log_prob_pairs(
        self, z: Float[Array, "S D"], eps: Float[Array, "M E"], context: Context = None
    ) -> Float[Array, "M S"]:
        """Log q(z_s|ε_m) of all pairs; what depends on ε alone is computed once for each ε."""
        one = lambda z, eps: self.log_prob(z, eps, context)  # noqa: E731
        return jax.vmap(jax.vmap(one, (0, None)), (None, 0))(z, eps)


def weighted_sum(weights: Float[Array, "M"], values: Float[Array, "M F"]) -> Float[Array, "F"]:
    """Σ_m w_m v_m. A draw of weight zero may have an infinite value, and 0 * inf would spoil the sum."""
    return jnp.sum(jnp.where(weights[:, None] > 0, weights[:, None] * values, 0.0), 0)


class AbstractNetConditional(AbstractConditional):
    """A conditional whose parameters are the outputs of one network of ε and the context."""

    net: eqx.AbstractVar[MLP]

    @property
    def noise_dim(self) -> int:
        """E."""
        return self.net.noise_dim

    @property
    def context_dim(self) -> int:
        """C."""
        return self.net.context_dim
