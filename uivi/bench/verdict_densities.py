"""Log densities with exact samplers, for the cases of the part `verdict`."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from uivi._types import Key, Latent, Scalar

Density = Callable[[Latent], Scalar]
Draw = Callable[[Key], Latent]


def normal(loc: float | np.ndarray = 0.0, scale: float | np.ndarray = 1.0) -> Density:
    """Returns independent normal variables."""
    loc, scale = np.asarray(loc, np.float32), np.asarray(scale, np.float32)
    return lambda z: -0.5 * jnp.sum(((z - loc) / scale) ** 2)


def normal_draw(dim: int, loc: float | np.ndarray = 0.0, scale: float | np.ndarray = 1.0) -> Draw:
    """Returns their sampler."""
    loc, scale = np.asarray(loc, np.float32), np.asarray(scale, np.float32)
    return lambda key: jnp.asarray(loc) + scale * jax.random.normal(key, (dim,))


def correlated(dim: int, correlation: float) -> tuple[Density, Draw]:
    """Returns standard normal variables, each pair of neighbours with this correlation."""
    rest = math.sqrt(1 - correlation**2)

    def log_density(z: Latent) -> Scalar:
        return -0.5 * (z[0] ** 2 + jnp.sum(((z[1:] - correlation * z[:-1]) / rest) ** 2))

    def draw(key: Key) -> Latent:
        noise = jax.random.normal(key, (dim,))
        values = [noise[0]]
        for each in noise[1:]:
            values.append(correlation * values[-1] + rest * each)
        return jnp.stack(values)

    return log_density, draw


def mixture(locs: np.ndarray, scale: float, shares: np.ndarray) -> tuple[Density, Draw]:
    """Returns a mixture of round Gaussians of one scale."""
    locs, logs = np.asarray(locs, np.float32), np.log(np.asarray(shares, np.float32))

    def log_density(z: Latent) -> Scalar:
        return jax.nn.logsumexp(logs - 0.5 * jnp.sum(((z - locs) / scale) ** 2, 1))

    def draw(key: Key) -> Latent:
        place_key, noise_key = jax.random.split(key)
        place = jax.random.categorical(place_key, jnp.asarray(logs))
        return jnp.asarray(locs)[place] + scale * jax.random.normal(noise_key, (locs.shape[1],))

    return log_density, draw


def student(dim: int, freedom: float) -> tuple[Density, Draw]:
    """Returns a round Student t."""

    def draw(key: Key) -> Latent:
        normal_key, scale_key = jax.random.split(key)
        scale = jnp.sqrt(jax.random.chisquare(scale_key, freedom) / freedom)
        return jax.random.normal(normal_key, (dim,)) / scale

    return lambda z: -0.5 * (freedom + dim) * jnp.log1p(jnp.sum(z**2) / freedom), draw


def funnel(dim: int, sd: float) -> tuple[Density, Draw]:
    """Returns Neal's funnel: z₀ ~ N(0, sd²), the others N(0, exp(z₀))."""

    def log_density(z: Latent) -> Scalar:
        rest = jnp.sum(z[1:] ** 2) * jnp.exp(-z[0]) + (dim - 1) * z[0]
        return -0.5 * ((z[0] / sd) ** 2 + rest)

    def draw(key: Key) -> Latent:
        noise = jax.random.normal(key, (dim,))
        return jnp.concatenate([sd * noise[:1], jnp.exp(0.5 * sd * noise[0]) * noise[1:]])

    return log_density, draw


def parabola(sd: float, bend: float) -> tuple[Density, Draw]:
    """Returns z₀ ~ N(0, sd²) and z₁ ~ N(bend z₀², 1)."""

    def draw(key: Key) -> Latent:
        noise = jax.random.normal(key, (2,))
        return jnp.stack([sd * noise[0], bend * (sd * noise[0]) ** 2 + noise[1]])

    return lambda z: -0.5 * ((z[0] / sd) ** 2 + (z[1] - bend * z[0] ** 2) ** 2), draw


def ring(radius: float, width: float) -> tuple[Density, Draw]:
    """Returns a ring of normal thickness."""
    grid = np.linspace(max(radius - 8 * width, 0.0), radius + 8 * width, 4_001, dtype=np.float32)
    # The radius r has the density r exp(-(r - radius)² / (2 width²)).
    below = np.cumsum(grid * np.exp(-0.5 * ((grid - radius) / width) ** 2))
    below = below / below[-1]

    def draw(key: Key) -> Latent:
        angle, share = jax.random.uniform(key, (2,))
        length = jnp.interp(share, below, grid)
        return length * jnp.stack([jnp.cos(2 * jnp.pi * angle), jnp.sin(2 * jnp.pi * angle)])

    return lambda z: -0.5 * ((jnp.sqrt(jnp.sum(z**2) + 1e-12) - radius) / width) ** 2, draw


def log_gamma(shape: float) -> tuple[Density, Draw]:
    """Returns the logs of two gamma variables."""

    def draw(key: Key) -> Latent:
        # A boosted shape: the log of a small gamma variable would underflow.
        gamma_key, uniform_key = jax.random.split(key)
        boosted = jnp.log(jax.random.gamma(gamma_key, shape + 1, (2,)))
        return boosted + jnp.log(jax.random.uniform(uniform_key, (2,), minval=1e-30)) / shape

    return lambda z: jnp.sum(shape * z - jnp.exp(z)), draw


def logit_beta(one: float, other: float) -> tuple[Density, Draw]:
    """Returns the logits of two beta variables."""

    def draw(key: Key) -> Latent:
        one_key, other_key = jax.random.split(key)
        return log_gamma(one)[1](one_key) - log_gamma(other)[1](other_key)

    def log_density(z: Latent) -> Scalar:
        return jnp.sum(one * jax.nn.log_sigmoid(z) + other * jax.nn.log_sigmoid(-z))

    return log_density, draw


def skew_normal(shape: float) -> tuple[Density, Draw]:
    """Returns two skew normal variables."""
    share = shape / math.sqrt(1 + shape**2)

    def draw(key: Key) -> Latent:
        half, noise = jax.random.normal(key, (2, 2))
        return share * jnp.abs(half) + math.sqrt(1 - share**2) * noise

    return lambda z: jnp.sum(-0.5 * z**2 + jax.scipy.stats.norm.logcdf(shape * z)), draw


def regression(intercept: float, noise: float, rows: int = 100) -> tuple[Density, Draw]:
    """Returns a linear regression with three features and a flat prior, whose posterior is Gaussian."""
    rng = np.random.default_rng(3)
    x = np.concatenate([np.ones((rows, 1)), rng.standard_normal((rows, 3))], 1)
    y = x @ np.array([intercept, 1.0, -2.0, 0.5]) + noise * rng.standard_normal(rows)
    mean = np.linalg.lstsq(x, y, rcond=None)[0].astype(np.float32)
    factor = (noise * np.linalg.inv(np.linalg.cholesky(x.T @ x)).T).astype(np.float32)
    x, y = x.astype(np.float32), y.astype(np.float32)

    def log_density(z: Latent) -> Scalar:
        return -0.5 * jnp.sum(((y - jnp.asarray(x) @ z) / noise) ** 2)

    return log_density, lambda key: jnp.asarray(mean) + jnp.asarray(factor) @ jax.random.normal(key, (4,))


def logistic(rows: int, features: int) -> Density:
    """Returns a logistic regression with standard normal weights."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((rows, features))
    signs = np.where(rng.random(rows) < 1 / (1 + np.exp(-x @ rng.standard_normal(features))), 1.0, -1.0)
    signed = (signs[:, None] * x).astype(np.float32)
    return lambda z: jnp.sum(jax.nn.log_sigmoid(jnp.asarray(signed) @ z)) - 0.5 * jnp.sum(z**2)


def poisson(rows: int, features: int) -> Density:
    """Returns a Poisson regression with normal weights."""
    rng = np.random.default_rng(6)
    x = (0.5 * rng.standard_normal((rows, features))).astype(np.float32)
    counts = rng.poisson(np.exp(1 + x @ rng.standard_normal(features))).astype(np.float32)

    def log_density(z: Latent) -> Scalar:
        logs = 1 + jnp.asarray(x) @ z
        return jnp.sum(counts * logs - jnp.exp(logs)) - 0.5 * jnp.sum(z**2)

    return log_density


def schools(z: Latent) -> Scalar:
    """Eight schools, non-centred."""
    effects = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], np.float32)
    errors = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], np.float32)
    mu, log_tau, eta = z[0], z[1], z[2:]
    prior = -0.5 * (mu / 5) ** 2 - jnp.log1p(jnp.exp(2 * log_tau) / 25) + log_tau - 0.5 * jnp.sum(eta**2)
    return prior - 0.5 * jnp.sum(((effects - mu - jnp.exp(log_tau) * eta) / errors) ** 2)


def shifted(log_density: Density, constant: float) -> Density:
    """Returns the density with a constant in its log."""
    return lambda z: log_density(z) + constant


def quadrants(z: Latent) -> Scalar:
    """Has a jump: two opposite quadrants of a normal distribution have almost all mass."""
    return jnp.where(z[0] * z[1] > 0, 0.0, -10.0) - 0.5 * jnp.sum(z**2)


def quadrants_draw(key: Key) -> Latent:
    """Draws from `quadrants`, up to a share of 5e-5."""
    sign_key, normal_key = jax.random.split(key)
    sign = jnp.where(jax.random.bernoulli(sign_key), 1.0, -1.0)
    return sign * jnp.abs(jax.random.normal(normal_key, (2,)))


def half_normal(outside: float) -> Density:
    """Returns half of a normal distribution, with a constant outside."""
    return lambda z: jnp.where(z[0] > 0, -0.5 * jnp.sum(z**2), outside)


def half_normal_draw(key: Key) -> Latent:
    """Draws from it."""
    noise = jax.random.normal(key, (2,))
    return noise.at[0].set(jnp.abs(noise[0]))


def nan_beyond(limit: float) -> Density:
    """Returns a normal distribution that is NaN beyond a limit."""
    return lambda z: jnp.where(z[0] > limit, jnp.nan, -0.5 * jnp.sum(z**2))


def stopped(z: Latent) -> Scalar:
    """Hides half of its gradient: z₀ is near 3 z₁."""
    return -0.5 * (z[1] ** 2 + (z[0] - jax.lax.stop_gradient(3 * z[1])) ** 2)


def stopped_draw(key: Key) -> Latent:
    """Draws from it."""
    noise = jax.random.normal(key, (2,))
    return jnp.stack([3 * noise[1] + noise[0], noise[1]])


@jax.custom_jvp
def _square(x: jax.Array) -> jax.Array:
    return x**2


_square.defjvp(lambda x, t: (x[0] ** 2, 1.2 * x[0] * t[0]))  # the derivative is 2 x


def steps(z: Latent) -> Scalar:
    """Has a gradient that does not know its steps."""
    # The gradient of the rounded part is zero: only the first part pulls.
    return -0.05 * jnp.sum(z**2) - 2.0 * jnp.sum(jnp.round(jnp.abs(z)))


def wrong_derivative(z: Latent) -> Scalar:
    """Returns a standard normal density whose derivative a user has written down wrongly."""
    return -0.5 * jnp.sum(_square(z))
