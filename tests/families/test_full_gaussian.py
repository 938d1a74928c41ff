"""The Gaussian with a full covariance: density, draws and gradients against SciPy and the closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from tests.families.table import full_gaussian
from uivi.estimators import Explicit, StickingTheLanding
from uivi.families import FullGaussian
from uivi.testing import (
    assert_mean,
    assert_not_mean,
    draw_pairs,
    expected_log_density,
    flat,
    gradient_samples,
    make_oracle,
)


def test_full_gaussian(x64, getkey):
    family, z = full_gaussian(), jnp.array([0.1, 0.9])
    # By hand: A = diag(e^-0.5, e^0.2) [[1, 0], [-0.8, 1]].
    matrix = np.array([[np.exp(-0.5), 0.0], [-0.8 * np.exp(0.2), np.exp(0.2)]])
    exact = scipy.stats.multivariate_normal([0.4, -0.3], matrix @ matrix.T)
    np.testing.assert_allclose(family.log_prob(z), exact.logpdf(z), rtol=1e-12)
    draws = draw_pairs(getkey(), family, 20_000).z
    centred = draws - jnp.array([[0.4, -0.3]])
    assert_mean(draws, [0.4, -0.3], max_stderr=0.02)
    products = centred[:, :, None] * centred[:, None, :]
    assert_mean(products, matrix @ matrix.T, max_stderr=0.03)
    assert_not_mean(products, matrix.T @ matrix)


def test_refusals(unchecked):
    with pytest.raises(ValueError, match="expected `lower` of shape"):
        FullGaussian(jnp.zeros(2), jnp.zeros(2), jnp.zeros((2, 3)))
    with pytest.raises(ValueError, match="`scale`"):
        FullGaussian.create(2, 0.0)


def test_gradient_of_a_full_gaussian(x64, getkey):
    """Against the closed form of the ELBO of a Gaussian on a Gaussian target."""
    family = full_gaussian()

    def negative_elbo(family):
        density = family.at()
        entropy = jnp.sum(family.log_diagonal) + jnp.log(2 * jnp.pi * jnp.e)
        return -expected_log_density(family.loc, density.matrix @ density.matrix.T) - entropy

    exact = flat(jax.grad(negative_elbo)(family))
    for estimator in (Explicit(4), StickingTheLanding(4)):
        found = gradient_samples(getkey(), estimator, (family, make_oracle().target), 12_000)
        assert_mean(found, exact, max_stderr=0.05)
        assert_not_mean(-found, exact)
