"""Two time series as in posteriordb (arK and garch11), on simulated series of 200 points."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from benchmarks.models.model import Model

LENGTH = 200
ORDER = 5
BURN_IN = 100


def autoregression(y) -> None:
    """y_t ~ N(alpha + sum_k beta_k y_{t-k}, sigma). The sites are alpha, beta and sigma."""
    alpha = numpyro.sample("alpha", dist.Normal(0, 10))
    beta = numpyro.sample("beta", dist.Normal(0, 10).expand([ORDER]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    lags = jnp.stack([y[ORDER - k : -k] for k in range(1, ORDER + 1)], -1)
    numpyro.sample("y", dist.Normal(alpha + lags @ beta, sigma).to_event(1), obs=y[ORDER:])


def garch(y, sigma1) -> None:
    """GARCH(1,1): variance_t = alpha0 + alpha1 (y_{t-1} - mu)² + beta1 variance_{t-1}.

    The site `weights` is (alpha1, beta1, 1 - alpha1 - beta1). Its Dirichlet(1, 1, 1) prior is flat on the
    triangle alpha1, beta1 > 0, alpha1 + beta1 < 1, as in posteriordb, but its support is fixed. Wide proper
    priors replace posteriordb's flat priors of mu and alpha0.
    """
    mu = numpyro.sample("mu", dist.Normal(0, 100))
    alpha0 = numpyro.sample("alpha0", dist.HalfNormal(100))
    alpha1, beta1, _ = jnp.asarray(numpyro.sample("weights", dist.Dirichlet(jnp.ones(3))))

    def step(variance, shock):
        variance = alpha0 + alpha1 * shock + beta1 * variance
        return variance, variance

    first = jnp.full_like(alpha0, sigma1**2)
    _, later = jax.lax.scan(step, first, (y[:-1] - mu) ** 2)
    scale = jnp.sqrt(jnp.concatenate([first[None], later]))
    numpyro.sample("y", dist.Normal(mu, scale).to_event(1), obs=y)


def _autoregressive_series() -> np.ndarray:
    rng = np.random.default_rng(301)
    beta = np.array([0.5, -0.3, 0.25, -0.1, 0.3])
    y = np.zeros(LENGTH + BURN_IN)
    for t in range(beta.size, y.size):
        y[t] = 0.3 + beta @ y[t - beta.size : t][::-1] + 0.8 * rng.standard_normal()
    return y[BURN_IN:].round(3)


def _garch_series() -> np.ndarray:
    rng = np.random.default_rng(302)
    mu, alpha0, alpha1, beta1 = 5.0, 1.5, 0.35, 0.45
    y = np.zeros(LENGTH + BURN_IN)
    variance = alpha0 / (1 - alpha1 - beta1)
    for t in range(y.size):
        y[t] = mu + np.sqrt(variance) * rng.standard_normal()
        variance = alpha0 + alpha1 * (y[t] - mu) ** 2 + beta1 * variance
    return y[BURN_IN:].round(3)


TIME_SERIES = (
    Model("ar5", "AR(5) on 200 points", autoregression, {"y": _autoregressive_series()}),
    Model("garch11", "GARCH(1,1) on 200 points", garch, {"y": _garch_series(), "sigma1": np.array(2.5)}),
)
