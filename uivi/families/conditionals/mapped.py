"""Maps of z behind any conditional."""

import abc
from collections.abc import Callable

import jax
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
    def whiten(self, z: Latent) -> Latent:
        """Returns w = m⁻¹(z)."""

    @abc.abstractmethod
    def log_det(self, z: Latent) -> Scalar:
        """Returns log |∂z/∂w| at z."""

    @abc.abstractmethod
    def pull(self, z: Latent, score: Latent) -> Latent:
        """Returns the score in z, given the inner score in w."""

    def sample(self, key: Key, eps: Noise, context: Context = None) -> Latent:
        """Maps a draw of the inner conditional."""
        return self.move(self.inner.sample(key, eps, context))

    def log_prob(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Returns the log density by the change of variables."""
        return self.inner.log_prob(self.whiten(z), eps, context) - self.log_det(z)

    def log_prob_of(self, z: Latent, context: Context = None) -> Callable[[Noise], Scalar]:
        """Returns the function ε -> log q(z|ε); the map is inverted once."""
        inner, log_det = self.inner.log_prob_of(self.whiten(z), context), self.log_det(z)
        return lambda eps: inner(eps) - log_det

    def log_prob_near(self, z: Latent, near: Noise, context: Context = None) -> Callable[[Noise], Scalar]:
        """Returns the inner conditional's `log_prob_near`, mapped; the map is inverted once."""
        inner, log_det = self.inner.log_prob_near(self.whiten(z), near, context), self.log_det(z)
        return lambda eps: inner(eps) - log_det

    def mean_score(
        self, z: Latent, eps: Float[Array, "M E"], weights: Float[Array, "M"], context: Context = None
    ) -> Latent:
        """Pulls the mean inner score back once instead of once for each ε; the weights sum to one."""
        return self.pull(z, self.inner.mean_score(self.whiten(z), eps, weights, context))

    def log_prob_pairs(
        self, z: Float[Array, "S D"], eps: Float[Array, "M E"], context: Context = None
    ) -> Float[Array, "M S"]:
        """Returns the inner conditional's pairs, mapped; the map is inverted once for each z."""
        inner = self.inner.log_prob_pairs(jax.vmap(self.whiten)(z), eps, context)
        return inner - jax.vmap(self.log_det)(z)[None]
