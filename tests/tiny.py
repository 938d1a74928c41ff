"""The smallest fits that still pass through every layer; importable, so that they can be saved."""

from typing import Any

import jax
import jax.numpy as jnp

import uivi


def log_density(z):
    """N((1, -1), diag(1, 1/4)) without its constant."""
    return -0.5 * ((z[0] - 1) ** 2 + 4 * (z[1] + 1) ** 2)


def explicit_settings(num_steps: int = 20) -> dict[str, Any]:
    """A fit that compiles in a second."""
    return {
        "family": uivi.ExplicitGaussian.create(2),
        "estimator": uivi.Explicit(num_draws=4),
        "num_steps": num_steps,
        "check": False,
        "progress": False,
    }


def implicit_family() -> uivi.SemiImplicit:
    """A small network of two noise variables."""
    net = uivi.families.MLP.create(jax.random.key(5), 2, 2, width=8, depth=1)
    return uivi.SemiImplicit(
        uivi.families.StandardNormal(2), uivi.families.Gaussian(net, uivi.families.LogScale.create(2))
    )


def implicit_settings(num_steps: int = 20) -> dict[str, Any]:
    """UIVI with one round of plain i-SIR."""
    sampler = uivi.ISIR(num_proposals=4, num_rounds=1, proposal=uivi.reverse.FromMixing())
    return {
        "family": implicit_family(),
        "estimator": uivi.UIVI(num_draws=4, sampler=sampler),
        "num_steps": num_steps,
        "check": False,
        "progress": False,
    }


class BananaShaped(uivi.families.AbstractSimpleConditional):
    """A user's conditional at the top level of a module: z = (ε + u/2, -ε² + u/2)."""

    offset: jax.Array

    @property
    def dim(self) -> int:
        return 2

    @property
    def noise_dim(self) -> int:
        return 1

    def _location(self, eps):
        return jnp.concatenate([eps, -(eps**2)]) + self.offset

    def sample(self, key, eps, context=None):
        return self._location(eps) + 0.5 * jax.random.normal(key, (2,))

    def log_prob(self, z, eps, context=None):
        return jnp.sum(jax.scipy.stats.norm.logpdf(z, self._location(eps), 0.5))
