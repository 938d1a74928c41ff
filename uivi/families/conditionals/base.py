"""The role of a conditional q(z|ε): reparameterisable, with a log density."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi._types import Context, Key, Latent, Noise, Scalar
from uivi.networks import MLP


class AbstractConditional(eqx.Module):
    """The conditional q(z|ε) (Titsias & Ruiz 2019, Section 2.1). All methods take one z and one context.

    To write your own, subclass `AbstractSimpleConditional` (no context) or `AbstractAutodiffConditional`: they
    derive everything else from `sample` and `log_prob`.
    """

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """Size of the latent vector z, D."""

    @property
    @abc.abstractmethod
    def noise_dim(self) -> int:
        """Size of the noise ε, E."""

    @property
    @abc.abstractmethod
    def context_dim(self) -> int:
        """Size of the context, C; 0 for a conditional that is not amortised."""

    @abc.abstractmethod
    def sample(self, key: Key, eps: Noise, context: Context = None) -> Latent:
        """Draws z = h(u; ε) with u ~ q(u), differentiable in the parameters (eq. 4)."""

    @abc.abstractmethod
    def log_prob(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Returns the normalised log q(z|ε)."""

    @abc.abstractmethod
    def log_prob_of(self, z: Latent, context: Context = None) -> Callable[[Noise], Scalar]:
        """Returns the function ε -> log q(z|ε). Whatever does not depend on ε is computed right away."""

    @abc.abstractmethod
    def log_prob_near(self, z: Latent, near: Noise, context: Context = None) -> Callable[[Noise], Scalar]:
        """Returns `log_prob_of` for the many evaluations of a reverse chain that starts at `near`.

        Do not differentiate it in the parameters: an implementation may move work from each evaluation to this
        call.
        """

    @abc.abstractmethod
    def mean_score(
        self, z: Latent, eps: Float[Array, "M E"], weights: Float[Array, "M"], context: Context = None
    ) -> Latent:
        """Returns Σ_m w_m ∇_z log q(z|ε_m), for weights that sum to one."""

    @abc.abstractmethod
    def log_prob_pairs(
        self, z: Float[Array, "S D"], eps: Float[Array, "M E"], context: Context = None
    ) -> Float[Array, "M S"]:
        """Returns log q(z_s|ε_m) for all pairs. Whatever depends on ε alone is computed once for each ε."""


class AbstractAround(AbstractConditional):
    """A conditional around another one, of the same sizes."""

    inner: eqx.AbstractVar[AbstractConditional]

    @property
    def dim(self) -> int:
        """Size of the latent vector z, D."""
        return self.inner.dim

    @property
    def noise_dim(self) -> int:
        """Size of the noise ε, E."""
        return self.inner.noise_dim

    @property
    def context_dim(self) -> int:
        """Size of the context, C."""
        return self.inner.context_dim


class AbstractMappingConditional(AbstractConditional):
    """A conditional that evaluates many ε or z by mapping its `log_prob` over them."""

    def log_prob_near(self, z: Latent, near: Noise, context: Context = None) -> Callable[[Noise], Scalar]:
        """Returns `log_prob_of`: the start of the chain makes no difference."""
        del near
        return self.log_prob_of(z, context)

    def log_prob_pairs(
        self, z: Float[Array, "S D"], eps: Float[Array, "M E"], context: Context = None
    ) -> Float[Array, "M S"]:
        """Maps `log_prob` over both axes."""
        one = lambda z, eps: self.log_prob(z, eps, context)
        return jax.vmap(jax.vmap(one, (0, None)), (None, 0))(z, eps)


class AbstractAutodiffConditional(AbstractMappingConditional):
    """A conditional whose score comes from its `log_prob` by autodiff."""

    def mean_score(
        self, z: Latent, eps: Float[Array, "M E"], weights: Float[Array, "M"], context: Context = None
    ) -> Latent:
        """Averages the gradients at all ε."""
        slope = jax.grad(self.log_prob)
        return weighted_sum(weights, jax.vmap(lambda e: slope(z, e, context))(eps))


class AbstractSimpleConditional(AbstractAutodiffConditional):
    """A conditional without context: a subclass writes `dim`, `noise_dim`, `sample` and `log_prob`."""

    @property
    def context_dim(self) -> int:
        """Always 0."""
        return 0

    def log_prob_of(self, z: Latent, context: Context = None) -> Callable[[Noise], Scalar]:
        """Returns the function ε -> log q(z|ε)."""
        return lambda eps: self.log_prob(z, eps, context)


class AbstractNetConditional(AbstractConditional):
    """A conditional whose parameters are the outputs of one network of ε and the context."""

    net: eqx.AbstractVar[MLP]

    @property
    def noise_dim(self) -> int:
        """Size of the noise ε, E."""
        return self.net.noise_dim

    @property
    def context_dim(self) -> int:
        """Size of the context, C."""
        return self.net.context_dim

    def log_prob_of(self, z: Latent, context: Context = None) -> Callable[[Noise], Scalar]:
        """Returns the function ε -> log q(z|ε), with the context folded into the first layer's bias."""
        bound = eqx.tree_at(lambda conditional: conditional.net, self, self.net.bind(context))
        return lambda eps: bound.log_prob(z, eps)


def weighted_sum(weights: Float[Array, "M"], values: Float[Array, "M F"]) -> Float[Array, "F"]:
    """Returns Σ_m w_m v_m, ignoring draws of weight zero."""
    # Such a draw may have an infinite value, and 0 * inf would turn the sum into NaN.
    return jnp.sum(jnp.where(weights[:, None] != 0, weights[:, None] * values, 0.0), 0)
