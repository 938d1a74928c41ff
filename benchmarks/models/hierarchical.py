"""A hierarchical posterior in 1,000 dimensions."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from benchmarks.models.model import Model

GROUPS = 998


def poisson_groups(counts) -> None:
    """Poisson counts in many groups with centred log rates. The sites are mean, spread and log_rate."""
    mean = numpyro.sample("mean", dist.Normal(0, 5))
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    with numpyro.plate("groups", counts.shape[0]):
        log_rate = numpyro.sample("log_rate", dist.Normal(mean, spread))
        numpyro.sample("counts", dist.Poisson(jnp.exp(log_rate)[:, None]).to_event(1), obs=counts)


def _counts() -> np.ndarray:
    rng = np.random.default_rng(309)
    rate = np.exp(rng.normal(1.0, 0.6, GROUPS))
    return rng.poisson(rate[:, None], (GROUPS, 3))


HIERARCHICAL = (
    Model("groups_1000", "Poisson counts in 998 groups, 1,000-d", poisson_groups, {"counts": _counts()}),
)
