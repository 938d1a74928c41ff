"""Cases that had no part in the rules of the verdict: written down afterwards, and run once.

Exact draws say which of these fits are right. All are made with the defaults.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from uivi._types import Key, Latent, Scalar
from uivi.bench import verdict_densities as known
from uivi.bench.verdict_cases import Case
from uivi.bench.verdict_densities import Density, Draw


def spike_and_slab(dim: int, share: float, narrow: float) -> tuple[Density, Draw]:
    """Returns a normal distribution, with a share of its mass in a narrow one at its centre."""
    logs, scales = np.log([1 - share, share]), np.array([1.0, narrow])
    logs, scales = (logs - dim * np.log(scales)).astype(np.float32), scales.astype(np.float32)

    def log_density(z: Latent) -> Scalar:
        return jax.nn.logsumexp(logs - 0.5 * jnp.sum(z**2) / scales**2)

    def draw(key: Key) -> Latent:
        place_key, noise_key = jax.random.split(key)
        scale = jnp.where(jax.random.bernoulli(place_key, share), narrow, 1.0)
        return scale * jax.random.normal(noise_key, (dim,))

    return log_density, draw


def wave(sd: float, width: float) -> tuple[Density, Draw]:
    """Returns z₀ ~ N(0, sd²) and z₁ around a sine of it."""

    def draw(key: Key) -> Latent:
        noise = jax.random.normal(key, (2,))
        return jnp.stack([sd * noise[0], jnp.sin(2 * sd * noise[0]) + width * noise[1]])

    return lambda z: -0.5 * ((z[0] / sd) ** 2 + ((z[1] - jnp.sin(2 * z[0])) / width) ** 2), draw


def bananas(pairs: int) -> tuple[Density, Draw]:
    """Returns independent bananas."""

    def log_density(z: Latent) -> Scalar:
        z = z.reshape(pairs, 2)
        return -0.5 * jnp.sum(z[:, 0] ** 2 + (z[:, 1] - z[:, 0] ** 2) ** 2 / 0.25)

    def draw(key: Key) -> Latent:
        noise = jax.random.normal(key, (pairs, 2))
        return jnp.stack([noise[:, 0], noise[:, 0] ** 2 + 0.5 * noise[:, 1]], 1).ravel()

    return log_density, draw


def by_inverse(log_density: Density, inverse: Density, dim: int) -> tuple[Density, Draw]:
    """Returns independent variables of one density, with draws by the inverse of its distribution function."""
    uniform = lambda key: jax.random.uniform(key, (dim,), minval=1e-7, maxval=1 - 1e-7)
    return lambda z: jnp.sum(log_density(z)), lambda key: inverse(uniform(key))


def flat_top(power: int, dim: int) -> tuple[Density, Draw]:
    """Returns exp(-|z|ᵖ) in each coordinate, a box with soft edges."""
    grid = np.linspace(-1.6, 1.6, 8_001, dtype=np.float32)
    below = np.cumsum(np.exp(-(grid**power)))
    inverse = lambda share: jnp.interp(share, below / below[-1], grid)
    return by_inverse(lambda z: -(z**power), inverse, dim)


def walk(dim: int) -> tuple[Density, Draw]:
    """Returns a Gaussian random walk that begins at a standard normal number."""

    def log_density(z: Latent) -> Scalar:
        return -0.5 * (z[0] ** 2 + jnp.sum(jnp.diff(z) ** 2))

    return log_density, lambda key: jnp.cumsum(jax.random.normal(key, (dim,)))


def sinh_arcsinh(skew: float, tail: float, dim: int) -> tuple[Density, Draw]:
    """Returns sinh((arcsinh(x) + skew) / tail) of normal numbers x (Jones & Pewsey 2009)."""

    def log_density(z: Latent) -> Scalar:
        inner = tail * jnp.arcsinh(z) - skew
        jacobian = jnp.log(jnp.cosh(inner)) - 0.5 * jnp.log1p(z**2)
        return jnp.sum(jacobian - 0.5 * jnp.sinh(inner) ** 2)

    return log_density, lambda key: jnp.sinh((jnp.arcsinh(jax.random.normal(key, (dim,))) + skew) / tail)


def scale_and_effect(sd: float) -> tuple[Density, Draw]:
    """Returns a log scale t with a normal prior, an effect N(0, exp(2 t)), and both seen with error.

    Only the log scale's tail is long: its draws are those of the prior.
    """

    def draw(key: Key) -> Latent:
        noise = jax.random.normal(key, (3,))
        t = sd * noise[0]
        return jnp.stack([t, jnp.exp(t) * noise[1], t + 0.3 * noise[2]])

    def log_density(z: Latent) -> Scalar:
        t, effect, seen = z
        return -0.5 * ((t / sd) ** 2 + (effect * jnp.exp(-t)) ** 2 + ((seen - t) / 0.3) ** 2) - t

    return log_density, draw


_LINE = np.array([[-1.5], [1.5]])
_THREE = 3 * np.eye(5)[:3]

UNSEEN: tuple[Case, ...] = (
    Case("Student, 2.5 degrees", 2, *known.student(2, 2.5), sd=math.sqrt(5)),
    Case("Student, 4 degrees, 10-d", 10, *known.student(10, 4.0)),
    Case("spike and slab", 2, *spike_and_slab(2, 0.1, 0.05)),
    Case("spike and slab, 1 in 2", 3, *spike_and_slab(3, 0.5, 0.1)),
    Case("two scales", 2, *spike_and_slab(2, 0.5, 10.0)),
    Case("wave", 2, *wave(1.5, 0.3)),
    Case("narrow wave", 2, *wave(1.5, 0.05)),
    Case("two bananas", 4, *bananas(2)),
    Case("ten bananas", 20, *bananas(10)),
    Case("ring, radius 3, width .1", 2, *known.ring(3.0, 0.1)),
    Case("ring, radius 3, width .5", 2, *known.ring(3.0, 0.5)),
    Case("two modes at 1.5, 80:20, 3-d", 3, *known.mixture(_LINE * np.ones((1, 3)), 0.5, np.array([0.8, 0.2]))),
    Case("three modes at 3, 5-d", 5, *known.mixture(_THREE, 0.5, np.array([0.5, 0.3, 0.2]))),
    Case("two modes at 1.2, 40-d", 40, *known.mixture(np.array([[-1.2], [1.2]]) * np.eye(40)[:1], 0.6,
                                                     np.array([0.5, 0.5]))),
    Case("Laplace, 3-d", 3, *by_inverse(lambda z: -jnp.abs(z),
                                       lambda u: -jnp.sign(u - 0.5) * jnp.log1p(-2 * jnp.abs(u - 0.5)), 3)),
    Case("logistic, 20-d", 20, *by_inverse(lambda z: jax.nn.log_sigmoid(z) + jax.nn.log_sigmoid(-z),
                                          lambda u: jnp.log(u) - jnp.log1p(-u), 20)),
    Case("Gumbel, 5-d", 5, *by_inverse(lambda z: -z - jnp.exp(-z), lambda u: -jnp.log(-jnp.log(u)), 5)),
    Case("box with soft edges", 2, *flat_top(20, 2)),
    Case("log of a gamma of shape .3", 2, *known.log_gamma(0.3)),
    Case("logit of a beta (.5, .5)", 2, *known.logit_beta(0.5, 0.5)),
    Case("correlation .9995", 2, *known.correlated(2, 0.9995)),
    Case("walk of 150 steps", 150, *walk(150)),
    Case("sinh-arcsinh, skew 1, tail .8, 3-d", 3, *sinh_arcsinh(1.0, 0.8, 3)),
    Case("funnel, sd 2, 4-d", 4, *known.funnel(4, 2.0)),
    Case("log scale and effect", 3, *scale_and_effect(0.7)),
    Case("log scale with sd 1.5 and effect", 3, *scale_and_effect(1.5)),
    Case("skew normal, shape 20", 2, *known.skew_normal(20.0)),
    Case("parabola, sd 4", 2, *known.parabola(4.0, 0.25)),
    Case("normal, shifted by 300 sds", 6, known.normal(300.0, np.geomspace(1, 1e-2, 6)),
         known.normal_draw(6, 300.0, np.geomspace(1, 1e-2, 6))),
    Case("regression, 1e4 rows", 4, *known.regression(3.0, 2.0, 10_000)),
)  # fmt: skip
