"""Neal's funnel: a scale that the other variables share."""

import equinox as eqx
import jax
import jax.numpy as jnp

from uivi import _checks
from uivi._types import Key, Latent, Scalar
from uivi.targets.base import AbstractGlobalTarget, AbstractSamplable
from uivi.targets.priors import standard_normal_log_prob


class Funnel(AbstractGlobalTarget, AbstractSamplable):
    """z₁ ~ N(0, s²), and z₂, …, z_D ~ N(0, exp(z₁)) (Neal, 2003).

    Attributes:
        size: number of variables, D.
        sd: s.
    """

    size: int = eqx.field(static=True, default=10)
    sd: float = eqx.field(static=True, default=3.0)

    def __check_init__(self):
        _checks.positive_int("size", self.size)
        _checks.positive_float("sd", self.sd)
        if self.size < 2:
            raise ValueError(
                f"expected `size` to be at least 2, got {self.size}: the first variable is a scale"
            )

    @property
    def dim(self) -> int:
        """Number of variables, D."""
        return self.size

    def log_joint(self, z: Latent, site: tuple = ()) -> Scalar:
        """Returns the normalised log density."""
        del site
        scaled = jnp.concatenate([z[:1] / self.sd, z[1:] * jnp.exp(-0.5 * z[0])])
        return standard_normal_log_prob(scaled) - jnp.log(self.sd) - 0.5 * (self.size - 1) * z[0]

    def sample(self, key: Key) -> Latent:
        """Returns an exact draw."""
        noise = jax.random.normal(key, (self.size,))
        first = self.sd * noise[:1]
        return jnp.concatenate([first, jnp.exp(0.5 * first) * noise[1:]])
