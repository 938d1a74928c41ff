"""Tests distances on cases whose value is known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uivi.evaluation import metrics
from uivi.families import (
    ExplicitGaussian,
    LinearGaussian,
    SemiImplicit,
    StandardNormal,
    Uniform,
)
from uivi.targets.toys import AbstractToy

MEAN = np.array([0.4, -0.7])
COVARIANCE = np.array([[1.2, 0.5], [0.5, 0.9]])


class Normal(AbstractToy):
    """N(MEAN, COVARIANCE), normalised; asymmetric, so that swapped axes show."""

    def log_joint(self, z, site=()):
        del site
        mean, covariance = jnp.asarray(MEAN, z.dtype), jnp.asarray(COVARIANCE, z.dtype)
        return jax.scipy.stats.multivariate_normal.logpdf(z, mean, covariance)

    def sample(self, key):
        return jax.random.multivariate_normal(key, jnp.asarray(MEAN), jnp.asarray(COVARIANCE))


def exact_kl(mean, covariance):
    """KL(N(mean, covariance) ‖ N(MEAN, COVARIANCE))."""
    mean, covariance = np.asarray(mean, np.float64), np.asarray(covariance, np.float64)
    precision = np.linalg.inv(COVARIANCE)
    log_ratio = np.linalg.slogdet(COVARIANCE)[1] - np.linalg.slogdet(covariance)[1]
    shift = MEAN - mean
    return 0.5 * (np.trace(precision @ covariance) + shift @ precision @ shift - 2 + log_ratio)


def linear_gaussian() -> LinearGaussian:
    weight = jnp.array([[0.8, 0.2], [-0.3, 0.5]])
    return LinearGaussian(weight, jnp.array([-0.1, 0.2]), jnp.array([0.6, 0.7]))


def test_kl_of_an_explicit_gaussian():
    family = ExplicitGaussian(jnp.array([0.9, -0.2, np.log(0.7), np.log(1.1)]))
    loc, log_scale = family.parameters()
    result = metrics.kl_quadrature(family, Normal())
    assert result.mass == pytest.approx(1, abs=1e-3)
    assert result.kl == pytest.approx(exact_kl(loc, np.diag(np.exp(2 * log_scale))), abs=1e-3)


def test_kl_of_a_semi_implicit_family():
    conditional = linear_gaussian()
    family = SemiImplicit(StandardNormal(2), conditional)
    result = metrics.kl_quadrature(family, Normal(), log2_mixing=11)
    exact = exact_kl(*conditional.marginal())
    assert result.mass == pytest.approx(1, abs=1e-3)
    assert result.kl == pytest.approx(exact, abs=1e-3)
    # Control: the test would notice a transposed covariance of q.
    mean, covariance = conditional.marginal()
    assert abs(exact_kl(mean[::-1], covariance[::-1, ::-1]) - exact) > 0.05


def test_kl_of_a_narrow_q_is_found_on_a_finer_grid():
    scales = np.array([0.05, 0.9])
    family = ExplicitGaussian(jnp.array([0.33, -0.6, *np.log(scales)]))
    result = metrics.kl_quadrature(family, Normal(), spacing=0.25)
    assert result.mass == pytest.approx(1, abs=1e-3)
    assert result.kl == pytest.approx(exact_kl([0.33, -0.6], np.diag(scales**2)), abs=1e-3)


def test_kl_needs_a_known_family():
    with pytest.raises(TypeError, match="expected an explicit or semi-implicit family, got Other"):
        metrics._log_marginal.__wrapped__(type("Other", (eqx.Module,), {})(), 4)


@pytest.mark.parametrize(("mixing", "mean"), [(StandardNormal(2), 0.0), (Uniform(2), 0.5)])
def test_sobol_points_have_the_moments_of_the_mixing(mixing, mean):
    points = np.asarray(metrics.sobol_mixing(mixing, 10))
    assert points.shape == (1024, 2)
    np.testing.assert_allclose(points.mean(0), mean, atol=2e-3)
    np.testing.assert_allclose(np.cov(points.T), mixing.variance() * np.eye(2), atol=1e-2)


def test_sliced_wasserstein_of_a_shift_in_one_dimension_is_the_shift(getkey):
    a = jax.random.normal(getkey(), (500, 1))
    assert metrics.sliced_wasserstein(getkey(), a, a[::-1] + 0.75) == pytest.approx(0.75, rel=1e-4)


def test_sliced_wasserstein_of_a_shift(getkey):
    """The mean of (θ·c)² over directions is |c|²/D."""
    a = jax.random.normal(getkey(), (300, 4))
    shift = jnp.array([[1.0, -2.0, 0.5, 0.0]])
    found = metrics.sliced_wasserstein(getkey(), a, a + shift, num_directions=5_000)
    assert found == pytest.approx(float(jnp.linalg.norm(shift)) / 2, rel=0.04)


def test_sliced_wasserstein_of_a_scaling(getkey):
    """In one dimension W2 of N(0, 1) and N(0, s²) is |s - 1|; on a sample, times its own spread."""
    a = jax.random.normal(getkey(), (500, 1))
    spread = float(jnp.sqrt(jnp.mean(a**2)))
    found = metrics.sliced_wasserstein(getkey(), a, 3 * a)
    assert found == pytest.approx(2 * spread, rel=1e-4)


def test_sliced_wasserstein_of_the_same_sample_is_zero(getkey):
    a = jax.random.normal(getkey(), (300, 4))
    assert metrics.sliced_wasserstein(getkey(), a, a[::-1], num_directions=5_000) == 0
