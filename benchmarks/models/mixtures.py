"""Two models that sum over hidden labels, as in posteriordb (low_dim_gauss_mix and hmm_example).

Their ordered means have a normal prior restricted to increasing vectors. NumPyro has no such distribution, so
it is written as a flat one on ordered vectors times a factor.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from benchmarks.models.model import Model


def _ordered_normal(name: str, loc, scale) -> jax.Array:
    """Samples a site whose entries are N(loc, scale), restricted to increasing order."""
    loc = jnp.asarray(loc, float)
    flat = dist.ImproperUniform(dist.constraints.ordered_vector, (), loc.shape)
    value = jnp.asarray(numpyro.sample(name, flat))
    numpyro.factor(f"{name}_prior", dist.Normal(loc, scale).log_prob(value).sum())
    return value


def gaussian_mixture(y) -> None:
    """Two normals. The sites are mu (ordered), sigma and theta, the weight of the lower normal."""
    mu = _ordered_normal("mu", [0, 0], 2)
    sigma = numpyro.sample("sigma", dist.HalfNormal(2).expand([2]).to_event(1))
    theta = numpyro.sample("theta", dist.Beta(5, 5))
    labels = dist.Categorical(probs=jnp.stack([theta, 1 - theta]))
    with numpyro.plate("rows", y.shape[0]):
        numpyro.sample("y", dist.MixtureSameFamily(labels, dist.Normal(mu, sigma)), obs=y)


def hidden_markov(y) -> None:
    """Two states with unit noise. The sites are theta1, theta2 (rows of the transition matrix) and ordered mu.

    The first state has no prior. As in posteriordb, both states start with weight one.
    """
    theta1 = numpyro.sample("theta1", dist.Dirichlet(jnp.ones(2)))
    theta2 = numpyro.sample("theta2", dist.Dirichlet(jnp.ones(2)))
    mu = _ordered_normal("mu", [3, 10], 1)
    transition = jnp.log(jnp.stack([theta1, theta2]))
    emission = dist.Normal(mu, 1).log_prob(y[:, None])

    def step(forward, emitted):
        return jax.nn.logsumexp(forward[:, None] + transition, 0) + emitted, None

    forward, _ = jax.lax.scan(step, emission[0], emission[1:])
    numpyro.factor("y", jax.nn.logsumexp(forward))


def _mixture_sample() -> np.ndarray:
    rng = np.random.default_rng(303)
    lower = rng.random(1_000) < 0.4
    return np.where(lower, rng.normal(-2.0, 1.1, 1_000), rng.normal(2.2, 0.9, 1_000)).round(3)


def _markov_series() -> np.ndarray:
    rng = np.random.default_rng(304)
    stay = np.array([0.75, 0.8])
    y, state = np.zeros(100), 0
    for t in range(y.size):
        y[t] = rng.normal((3.0, 10.0)[state], 1.0)
        state = state if rng.random() < stay[state] else 1 - state
    return y.round(3)


MIXTURES = (
    Model("gauss_mix", "Mixture of two Gaussians", gaussian_mixture, {"y": _mixture_sample()}),
    Model("hmm", "Hidden Markov model, two states", hidden_markov, {"y": _markov_series()}),
)
