"""One row per prior."""

import jax
import jax.numpy as jnp
import numpy as np

from uivi.families import MLP, ExplicitGaussian, SemiImplicit, Uniform
from uivi.priors import FixedImplicit, GaussianMixture, Implicit, Normal, RowConditional, VampPrior
from uivi.targets import Rows
from uivi.testing import make_linear_prior


def gaussian_mixture() -> GaussianMixture:
    return GaussianMixture(
        jnp.array([[1.0, -0.5], [-0.8, 0.7], [0.2, 1.5]]),
        jnp.log(jnp.array([[0.5, 0.8], [0.6, 0.4], [0.9, 0.7]])),
        jnp.array([0.3, -0.4, 0.1]),
    )


def encoder() -> ExplicitGaussian:
    return ExplicitGaussian(MLP.create(jax.random.key(5), 3, 4, width=6))


def vamp() -> VampPrior:
    return VampPrior(encoder(), jax.random.normal(jax.random.key(6), (5, 3)))


def rows() -> SemiImplicit:
    """`vamp` as an implicit prior: ζ picks a row."""
    prior = vamp()
    return SemiImplicit(Uniform(1), RowConditional(prior.encoder, prior.rows))


def vamp_at_data() -> VampPrior:
    pixels = (np.random.default_rng(0).random((7, 3)) < 0.4).astype(np.uint8)
    return VampPrior(encoder(), Rows.create(pixels, pad_to=9))


KNOWN = {
    "normal": lambda: Normal(2),
    "gaussian-mixture": gaussian_mixture,
    "vamp": vamp,
    "vamp-at-data": vamp_at_data,
}
IMPLICIT = {
    "implicit": lambda: Implicit(make_linear_prior()),
    "implicit-rows": lambda: Implicit(rows()),
    "fixed": lambda: FixedImplicit.create(make_linear_prior()),
}
PRIORS = KNOWN | IMPLICIT
