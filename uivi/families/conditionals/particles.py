"""A conditional at one of finitely many particles: the mixing distribution is a trained cloud."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Context, Key, Latent, Noise, Scalar
from uivi.families.conditionals.base import AbstractConditional, AbstractMappingConditional


class AtParticles(AbstractMappingConditional):
    """q(z|ε) = inner(z|ψ_m), where ε in [0, 1] falls into the m-th of M equal cells.

    With q(ε) = `Uniform(1)`, q(z) is the mean of the inner conditional over the particles ψ, so log q(z) is
    known. The particles are trained. This is the family of particle variational inference (Lim & Johansen
    2024, Section 3.3); ε stays a continuous variable, so that every sampler and bound is valid for it.
    """

    cloud: Float[Array, "M I"]
    inner: AbstractConditional

    def __check_init__(self):
        if jnp.ndim(self.cloud) != 2 or self.cloud.shape[0] < 1:
            raise ValueError(f"expected `cloud` of shape (particles, noise), got {jnp.shape(self.cloud)}")
        size = self.inner.noise_dim
        advice = "a particle is an ε of the inner conditional"
        _checks.shape("`cloud`", self.cloud, (self.cloud.shape[0], size), advice)

    @classmethod
    def create(cls, key: Key, num_particles: int, inner: AbstractConditional) -> "AtParticles":
        """Draws the particles from N(0, I)."""
        shape = (_checks.positive_int("num_particles", num_particles), inner.noise_dim)
        return cls(jax.random.normal(key, shape), inner)

    @property
    def dim(self) -> int:
        """Size of the latent vector z, D."""
        return self.inner.dim

    @property
    def noise_dim(self) -> int:
        """Always 1."""
        return 1

    @property
    def context_dim(self) -> int:
        """Size of the context, C."""
        return self.inner.context_dim

    @property
    def num_particles(self) -> int:
        """Number of particles, M."""
        return self.cloud.shape[0]

    def centres(self) -> Float[Array, "M 1"]:
        """Returns the centre of every cell, an ε for each particle."""
        number = jnp.arange(self.num_particles).astype(self.cloud.dtype)
        return ((number + 0.5) / self.num_particles)[:, None]

    def particle(self, eps: Noise) -> Float[Array, "I"]:
        """Returns the particle in whose cell ε is, the nearest for an ε outside of [0, 1]."""
        number = jnp.floor(eps[0] * self.num_particles)
        # As a number between 0 and M - 1 before it is whole: a huge ε must not wrap around.
        return self.cloud[jnp.clip(number, 0, self.num_particles - 1).astype(jnp.int32)]

    def sample(self, key: Key, eps: Noise, context: Context = None) -> Latent:
        """Draws from the inner conditional at the particle."""
        return self.inner.sample(key, self.particle(eps), context)

    def log_prob(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Returns the inner log density at the particle."""
        return self.inner.log_prob(z, self.particle(eps), context)

    def log_prob_of(self, z: Latent, context: Context = None) -> Callable[[Noise], Scalar]:
        """Returns the function ε -> log q(z|ε)."""
        log_prob = self.inner.log_prob_of(z, context)
        return lambda eps: log_prob(self.particle(eps))

    def mean_score(
        self, z: Latent, eps: Float[Array, "M 1"], weights: Float[Array, "M"], context: Context = None
    ) -> Latent:
        """Averages the inner scores at the particles."""
        return self.inner.mean_score(z, jax.vmap(self.particle)(eps), weights, context)

    def log_probs(self, z: Latent, context: Context = None) -> Float[Array, "M"]:
        """Returns the inner log density at every particle."""
        return jax.vmap(self.inner.log_prob_of(z, context))(self.cloud)

    def marginal_log_prob(self, z: Latent, context: Context = None) -> Scalar:
        """Returns the exact log q(z) under q(ε) = `Uniform(1)`."""
        return jax.nn.logsumexp(self.log_probs(z, context)) - jnp.log(1.0 * self.num_particles)
