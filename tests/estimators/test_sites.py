"""Many sites: a gradient is the average of what each site would give by itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uivi.estimators import IWHVI, KSIVI, PVI, SIVI, SIVISM, UIVI, FixedBandwidth, GaussianKernel, WithinBatch
from uivi.families import MLP, AtParticles, Gaussian, LogScale, SemiImplicit, StandardNormal, Uniform
from uivi.reverse import ISIR, Amortised, FromMixing
from uivi.targets import AbstractTarget
from uivi.testing import assert_mean, assert_not_mean, gradient_samples
from uivi.trainable import NonTrainable

SITES = np.array([[0.7, -0.4], [-1.1, 0.9]], np.float32)


class Centred(AbstractTarget):
    """z at each site is N(site, I) and something skew."""

    places: NonTrainable

    @property
    def dim(self):
        return 2

    @property
    def num_sites(self):
        return len(self.places.value)

    def sites(self, key, step):
        del key, step
        return self.places()

    def context(self, site):
        return site

    def log_joint(self, z, site):
        return -0.5 * jnp.sum((z - site) ** 2) - jax.nn.softplus(2.0 * z[0] + site[1])


def encoder(noise_dim: int) -> Gaussian:
    net = MLP.create(jax.random.key(3), noise_dim, 2, context_dim=2, width=6, activation=jnp.tanh)
    return Gaussian(net, LogScale.create(2, 0.7))


def semi_implicit() -> SemiImplicit:
    return SemiImplicit(StandardNormal(2), encoder(2))


def particles() -> SemiImplicit:
    return SemiImplicit(Uniform(1), AtParticles.create(jax.random.key(4), 3, encoder(2)))


KERNEL = GaussianKernel(FixedBandwidth(1.0))
METHODS = {
    "uivi": (UIVI(4, ISIR(5, 1, FromMixing())), semi_implicit),
    "sivi": (SIVI(4, 3), semi_implicit),
    "iwhvi": (IWHVI(4, 3, Amortised(width=8)), semi_implicit),
    "ksivi": (KSIVI(6, KERNEL), semi_implicit),
    "ksivi-within": (KSIVI(8, KERNEL, WithinBatch()), semi_implicit),
    "sivi-sm": (SIVISM(8, width=8, learning_rate=1e-12), semi_implicit),
    "pvi": (PVI(2), particles),
}


@pytest.mark.parametrize("name", METHODS)
def test_the_gradient_averages_over_sites(name, getkey):
    """Each site has its own context, its own draws and, for kernels, its own pairs."""
    estimator, make = METHODS[name]
    family, key = make(), getkey()
    target = lambda places: Centred(NonTrainable(jnp.asarray(places)))
    state = estimator.init(key, family, target(SITES))
    run = lambda places: gradient_samples(getkey(), estimator, (family, target(places)), 3_000, state=state)
    both, first, second = run(SITES), run(SITES[:1]), run(SITES[1:])
    scale = float(jnp.max(jnp.std(both, 0)))
    assert_mean((both - 0.5 * (first + second)) / scale, 0.0, max_stderr=0.04)
    assert_not_mean((both - first) / scale, 0.0)
