"""Maps of z behind any conditional."""

import equinox as eqx
from jaxtyping import Array, Float

from uivi._types import Context, Key, Latent, Noise, Scalar
from uivi.families.conditionals.base import AbstractConditional


class AbstractMapped(AbstractConditional):
    """z = m(w) with w ~ inner(ε) and m one to one: a subclass says what m does, the rest is here.

    The map does not depend on ε, so a chain inverts it once.
    """

    inner: eqx.AbstractVar[AbstractConditional]

    def move(self, w: Latent) -> Latent:
        """The z that an inner draw makes."""
        raise NotImplementedError

    def whiten(self, z: Latent) -> Latent:
        """The inner draw that makes z."""
        raise NotImplementedError

    def log_det(self, z: Latent) -> Scalar:
        """Log |∂z/∂w|, there."""
        raise NotImplementedError

    def pull(self, z: Latent, score: Latent) -> Latent:
        """The score in z from the inner score in w."""
        raise NotImplementedError

    @property
    def dim(self) -> int:
        """D."""
        return self.inner.dim

    @property
    def noise_dim(self) -> int:
        """E."""
        return self.inner.noise_dim

    @property
    def context_dim(self) -> int:
        """C."""
        return self.inner.context_dim

    def sample(self, key: Key, eps: Noise, context: Context = None) -> Latent:
        """The inner draw, moved."""
        return self.move(self.inner.sample(key, eps, context))

    def log_prob(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Log density by the change of variables."""
        return self.inner.log_prob(self.whiten(z), eps, context) - self.log_det(z)

    def log_prob_of(self, z: Latent, context: Context = None):
        """ε -> log q(z|ε): the map is inverted once."""
        inner, log_det = self.inner.log_prob_of(self.whiten(z), context), self.log_det(z)
        return lambda eps: inner(eps) - log_det

    def log_prob_near(self, z: Latent, near: Noise, context: Context = None):
        """The same of the inner conditional."""
        inner, log_det = self.inner.log_prob_near(self.whiten(z), near, context), self.log_det(z)
        return lambda eps: inner(eps) - log_det

    def mean_score(
        self, z: Latent, eps: Float[Array, "M E"], weights: Float[Array, "M"], context: Context = None
    ) -> Latent:
        """The mean inner score, pulled back once, not for each ε; the weights sum to one."""
        return self.pull(z, self.inner.mean_score(self.whiten(z), eps, weights, context))
