"""Poisson counts whose log rate is a Gaussian process or a random walk."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from benchmarks.models.model import Model

JITTER = 1e-4


def gaussian_process(x, counts) -> None:
    """posteriordb's gp_pois_regr. The sites are rho (length scale), alpha (amplitude) and f_tilde (noise).

    The jitter on the diagonal is 1e-4 instead of posteriordb's 1e-10, so that float32 can factorise the kernel.
    """
    rho = numpyro.sample("rho", dist.Gamma(25, 4))
    alpha = numpyro.sample("alpha", dist.HalfNormal(2))
    f_tilde = numpyro.sample("f_tilde", dist.Normal(0, 1).expand([x.shape[0]]).to_event(1))
    squared = (x[:, None] - x) ** 2
    kernel = alpha**2 * jnp.exp(-0.5 * squared / rho**2) + JITTER * jnp.eye(x.shape[0])
    log_rate = jnp.linalg.cholesky(kernel) @ f_tilde
    numpyro.sample("counts", dist.Poisson(jnp.exp(log_rate)).to_event(1), obs=counts)


def random_walk(counts) -> None:
    """The log rate starts at `level` and continues as level + walk. The sites are sigma, level and walk."""
    sigma = numpyro.sample("sigma", dist.HalfNormal(0.5))
    level = numpyro.sample("level", dist.Normal(0, 3))
    walk = numpyro.sample("walk", dist.GaussianRandomWalk(sigma, num_steps=counts.shape[0] - 1))
    log_rate = level + jnp.concatenate([jnp.zeros(1), walk])
    numpyro.sample("counts", dist.Poisson(jnp.exp(log_rate)).to_event(1), obs=counts)


def _smooth_counts() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(307)
    x = np.linspace(-10, 10, 11)
    return {"x": x, "counts": rng.poisson(np.exp(2.0 + 1.2 * np.sin(x / 4)))}


def _walking_counts() -> np.ndarray:
    rng = np.random.default_rng(310)
    return rng.poisson(np.exp(1.5 + np.cumsum(0.2 * rng.standard_normal(99))))


PROCESSES = (
    Model("gp_poisson", "Gaussian process with Poisson counts", gaussian_process, _smooth_counts()),
    Model("walk_poisson", "Random walk with Poisson counts, 100-d", random_walk, {"counts": _walking_counts()}),
)
