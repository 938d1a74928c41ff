"""Reverse samplers with one fault each, beyond those of `uivi.testing`: the tests must notice every one."""

import equinox as eqx
import jax
import jax.numpy as jnp

from uivi._types import Draw
from uivi.testing import AbstractFaulty


class ExactMean(AbstractFaulty):
    """The mean of q(ε|z). The score is linear in it, so this is no fault: it gives the exact score of q."""

    def move(self, key, family, draw: Draw):
        del key
        return family.conditional.reverse(draw.z)[0]


class HalvesISIR(AbstractFaulty):
    """i-SIR whose proposals come in fixed halves, first from q(ε), then from a poor N(shift, scale²)."""

    half: int = eqx.field(static=True, default=1)
    shift: float = eqx.field(static=True, default=1.5)
    scale: float = eqx.field(static=True, default=0.4)

    def move(self, key, family, draw: Draw):
        normal_key, pick_key = jax.random.split(key)
        u = jax.random.normal(normal_key, (2 * self.half, family.noise_dim))
        proposals = jnp.concatenate([u[: self.half], self.shift + self.scale * u[self.half :]])
        eps = jnp.concatenate([draw.eps[None], proposals])
        log_weights = jax.vmap(lambda e: self._log_weight(family, draw.z, e))(eps)
        return eps[jax.random.categorical(pick_key, log_weights)]

    def _log_weight(self, family, z, eps):
        standard = jax.scipy.stats.norm.logpdf(eps, self.shift, self.scale)
        mixture = jnp.logaddexp(family.mixing.log_prob(eps), jnp.sum(standard)) - jnp.log(2.0)
        return family.reverse_log_density(z, eps)(eps) - mixture


class NeverRejects(AbstractFaulty):
    """HMC with a large step and no accept step."""

    step: float = eqx.field(static=True, default=0.9)

    def move(self, key, family, draw: Draw):
        gradient = jax.grad(family.reverse_log_density(draw.z, draw.eps))
        eps, momentum = draw.eps, jax.random.normal(key, draw.eps.shape)
        for _ in range(2):
            momentum = momentum + 0.5 * self.step * gradient(eps)
            eps = eps + self.step * momentum
            momentum = momentum + 0.5 * self.step * gradient(eps)
        return eps
