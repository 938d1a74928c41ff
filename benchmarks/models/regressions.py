"""Regressions with strongly correlated coefficients, on simulated rows.

The first two resemble posteriordb's kidscore_interaction and kilpisjarvi. Their predictors are far from zero
and not centred, so the intercept and the slopes are almost collinear.
"""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from benchmarks.models.model import Model


def interaction(score, school, iq) -> None:
    """The sites are beta (intercept, school, iq, school * iq) and sigma. In posteriordb, beta is flat."""
    beta = numpyro.sample("beta", dist.Normal(0, 1_000).expand([4]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    design = jnp.stack([jnp.ones_like(iq), school, iq, school * iq], -1)
    numpyro.sample("score", dist.Normal(design @ beta, sigma).to_event(1), obs=score)


def trend(year, temperature) -> None:
    """The sites are alpha, beta and sigma. The year is not centred. In posteriordb, sigma is flat."""
    alpha = numpyro.sample("alpha", dist.Normal(9.3, 100))
    beta = numpyro.sample("beta", dist.Normal(0, 0.0333))
    sigma = numpyro.sample("sigma", dist.HalfNormal(10))
    numpyro.sample("temperature", dist.Normal(alpha + beta * year, sigma).to_event(1), obs=temperature)


def logistic(x, y) -> None:
    """The only site is weights ~ N(0, 10). The first column of x is one."""
    weights = numpyro.sample("weights", dist.Normal(0, 10).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=jnp.asarray(x) @ weights).to_event(1), obs=y)


def _scores() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(305)
    rows = 434
    school = (rng.random(rows) < 0.79).astype(float)
    iq = rng.normal(100, 15, rows).round(1)
    mean = -11.5 + 51.3 * school + 1.1 * iq - 0.48 * school * iq
    return {"score": rng.normal(mean, 18).round(), "school": school, "iq": iq}


def _temperatures() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(306)
    year = np.arange(1952.0, 2014.0)
    return {"year": year, "temperature": rng.normal(9.3 + 0.02 * (year - year.mean()), 1.1).round(1)}


def _correlated_rows() -> dict[str, np.ndarray]:
    """Returns the rows of `tests.posteriors.correlated_logistic`: AR(1) features with correlation 0.9."""
    rng = np.random.default_rng(2019)
    features = rng.standard_normal((400, 21))
    for j in range(1, features.shape[1]):
        features[:, j] = 0.9 * features[:, j - 1] + np.sqrt(1 - 0.81) * features[:, j]
    x = np.column_stack([np.ones(features.shape[0]), features])
    weights = rng.standard_normal(x.shape[1])
    return {"x": x, "y": (rng.random(x.shape[0]) < 1 / (1 + np.exp(-x @ weights))).astype(float)}


REGRESSIONS = (
    Model("interaction", "Linear regression with an interaction", interaction, _scores()),
    Model("trend", "Linear trend over uncentred years", trend, _temperatures()),
    Model("logistic", "Logistic regression, 22 correlated weights", logistic, _correlated_rows()),
)
