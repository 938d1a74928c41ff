"""Maps of z behind any conditional."""

import abc
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi._types import Context, Key, Latent, Noise, Scalar
from uivi.families.conditionals.base import AbstractAround


class AbstractMapped(AbstractAround):
    """z = m(w) with w ~ inner(ε) and a bijection m. A subclass writes m; the rest is here.

    The map does not depend on ε, so a reverse chain inverts it once.
    """

    @abc.abstractmethod
    def move(self, w: Latent) -> Latent:
        """Returns z = m(w)."""

    @abc.abstractmethod
    def undo(self, z: Latent) -> tuple[Latent, Scalar]:
        """Returns w = m⁻¹(z) and log |∂z/∂w| there."""

    def sample(self, key: Key, eps: Noise, context: Context = None) -> Latent:
        """Maps a draw of the inner conditional."""
        return self.move(self.inner.sample(key, eps, context))

    def log_prob(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Returns the log density by the change of variables."""
        w, log_det = self.undo(z)
        return self.inner.log_prob(w, eps, context) - log_det

    def log_prob_of(self, z: Latent, context: Context = None) -> Callable[[Noise], Scalar]:
        """Returns the function ε -> log q(z|ε); the map is inverted once."""
        w, log_det = self.undo(z)
        inner = self.inner.log_prob_of(w, context)
        return lambda eps: inner(eps) - log_det

    def log_prob_near(self, z: Latent, near: Noise, context: Context = None) -> Callable[[Noise], Scalar]:
        """Returns the inner conditional's `log_prob_near`, mapped; the map is inverted once."""
        w, log_det = self.undo(z)
        inner = self.inner.log_prob_near(w, near, context)
        return lambda eps: inner(eps) - log_det

    def mean_score(
        self, z: Latent, eps: Float[Array, "M E"], weights: Float[Array, "M"], context: Context = None
    ) -> Latent:
        """Pulls the mean inner score back once instead of once for each ε."""
        (w, log_det), pull_back = jax.vjp(self.undo, z)
        # The log determinant has the same gradient for all ε, and the weights sum to one.
        (pulled,) = pull_back((self.inner.mean_score(w, eps, weights, context), -jnp.ones_like(log_det)))
        return pulled

    def log_prob_pairs(
        self, z: Float[Array, "S D"], eps: Float[Array, "M E"], context: Context = None
    ) -> Float[Array, "M S"]:
        """Returns the inner conditional's pairs, mapped; the map is inverted once for each z."""
        w, log_det = jax.vmap(self.undo)(z)
        return self.inner.log_prob_pairs(w, eps, context) - log_det[None]
