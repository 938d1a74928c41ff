"""Three posteriors that are not toys, and reference draws of them.

`python -m tests.posteriors` (from the root of the repository) makes the references again: long NUTS runs of
NumPyro for the first two, exact draws for the funnel (on which NUTS itself is biased), all in float64 and
thinned to 20,000 draws kept as float16 offsets from the mean, in units of the standard deviation.
"""

import pathlib
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

REFERENCES = pathlib.Path(__file__).parent / "references"
NUM_REFERENCE = 20_000


class Posterior(NamedTuple):
    """A log density on R^dim with its name."""

    name: str
    dim: int
    log_density: Callable


def correlated_logistic() -> Posterior:
    """22-d logistic regression, 400 rows, AR(1) features with correlation 0.9, N(0, 10²) prior."""
    rng = np.random.default_rng(2019)
    rows, features = 400, 21
    x = rng.standard_normal((rows, features))
    for j in range(1, features):
        x[:, j] = 0.9 * x[:, j - 1] + np.sqrt(1 - 0.81) * x[:, j]
    x = np.concatenate([np.ones((rows, 1)), x], 1)
    weights = rng.standard_normal(features + 1)
    y = rng.random(rows) < 1 / (1 + np.exp(-x @ weights))
    signed = np.where(y[:, None], x, -x)

    def log_density(z):
        logits = jnp.asarray(signed, z.dtype) @ z
        return jnp.sum(jax.nn.log_sigmoid(logits)) - 0.005 * jnp.sum(z**2)

    return Posterior("correlated_logistic", features + 1, log_density)


def eight_schools() -> Posterior:
    """Eight schools, non-centred: z = (μ, log τ, η_1..8), μ ~ N(0, 5²), τ ~ half-Cauchy(5)."""
    effects = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    errors = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])

    def log_density(z):
        mu, log_tau, eta = z[0], z[1], z[2:]
        theta = mu + jnp.exp(log_tau) * eta
        prior = -0.5 * (mu / 5) ** 2 - jnp.log1p(jnp.exp(2 * log_tau) / 25) + log_tau
        residual = (jnp.asarray(effects, z.dtype) - theta) / jnp.asarray(errors, z.dtype)
        return prior - 0.5 * jnp.sum(eta**2) - 0.5 * jnp.sum(residual**2)

    return Posterior("eight_schools", 10, log_density)


def funnel() -> Posterior:
    """Neal's funnel in 10 dimensions: v ~ N(0, 3²), x_1..9 | v ~ N(0, exp(v))."""

    def log_density(z):
        v, x = z[0], z[1:]
        return -0.5 * (v / 3) ** 2 - 0.5 * jnp.sum(x**2) * jnp.exp(-v) - 0.5 * x.shape[0] * v

    return Posterior("funnel", 10, log_density)


POSTERIORS = (correlated_logistic, eight_schools, funnel)


def reference(posterior: Posterior) -> np.ndarray:
    """Reference draws, shape (NUM_REFERENCE, dim)."""
    with np.load(REFERENCES / f"{posterior.name}.npz") as file:
        return (file["mean"] + file["scale"] * file["draws"]).astype(np.float32)


def _nuts(posterior: Posterior) -> tuple[np.ndarray, float]:
    from numpyro.diagnostics import gelman_rubin
    from numpyro.infer import MCMC, NUTS

    kernel = NUTS(potential_fn=lambda z: -posterior.log_density(z), dense_mass=True, target_accept_prob=0.95)
    chains, draws = 8, 25_000
    mcmc = MCMC(kernel, num_warmup=2_000, num_samples=draws, num_chains=chains,
                chain_method="vectorized", progress_bar=False)  # fmt: skip
    start = 0.1 * jax.random.normal(jax.random.key(1), (chains, posterior.dim))
    mcmc.run(jax.random.key(2), init_params=start)
    samples = np.asarray(mcmc.get_samples(group_by_chain=True))
    return samples[:, :: chains * draws // NUM_REFERENCE].reshape(-1, posterior.dim), float(
        np.max(gelman_rubin(samples))
    )


def _exact_funnel() -> tuple[np.ndarray, float]:
    rng = np.random.default_rng(3)
    v = 3 * rng.standard_normal((NUM_REFERENCE, 1))
    x = np.exp(v / 2) * rng.standard_normal((NUM_REFERENCE, 9))
    return np.concatenate([v, x], 1), 1.0


def main() -> None:
    """Make all references."""
    jax.config.update("jax_enable_x64", True)
    REFERENCES.mkdir(exist_ok=True)
    for make in POSTERIORS:
        posterior = make()
        draws, rhat = _exact_funnel() if make is funnel else _nuts(posterior)
        draws = np.random.default_rng(4).permutation(draws)
        mean, scale = draws.mean(0), draws.std(0)
        np.savez_compressed(
            REFERENCES / f"{posterior.name}.npz",
            draws=((draws - mean) / scale).astype(np.float16), mean=mean, scale=scale, rhat=rhat,
        )  # fmt: skip
        print(posterior.name, draws.shape, "R-hat", round(rhat, 4), mean.round(2), scale.round(2))


if __name__ == "__main__":
    main()
