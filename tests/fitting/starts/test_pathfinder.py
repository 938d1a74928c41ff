"""Pathfinder on the host: the Gaussians along a path, against what is known in closed form."""

import jax.numpy as jnp
import numpy as np
import pytest

from uivi.fitting.starts.newton import laplace
from uivi.fitting.starts.pathfinder import Gaussian, best_gaussians
from uivi.targets.probe import Probe

MATRIX = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]
PRECISION = MATRIX @ np.diag([0.1, 1.0, 1.0, 4.0, 30.0]) @ MATRIX.T
MEAN = np.array([1.0, -2.0, 0.5, 3.0, 0.0])


def gaussian(z):
    offset = z - jnp.asarray(MEAN, z.dtype)
    return -0.5 * offset @ jnp.asarray(PRECISION, z.dtype) @ offset


@pytest.fixture
def made():
    """A Gaussian with two directions of its own."""
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.normal(size=(4, 2)))[0]
    return Gaussian(
        rng.normal(size=4), np.array([1.0, 2.0, 0.5, 3.0]), basis, np.array([[2.0, 0.0], [0.7, 0.4]])
    )


def test_draws_have_the_covariance(made):
    draws = made.from_normal(np.random.default_rng(2).normal(size=(200_000, 4)))
    np.testing.assert_allclose(draws.mean(0), made.mean, atol=0.03)
    np.testing.assert_allclose(np.cov(draws.T), made.covariance(), atol=0.1)
    np.testing.assert_allclose(made.variance(), np.diag(made.covariance()), rtol=1e-12)


def test_the_entropy_is_that_of_the_covariance(made):
    expected = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * made.covariance())[1]
    np.testing.assert_allclose(made.entropy(), expected, rtol=1e-12)


def test_a_gaussian_posterior_is_found():
    """Its log normaliser is the ELBO of the exact Gaussian; the best on a path comes close."""
    points = np.random.default_rng(3).uniform(-2, 2, (4, 5))
    found = best_gaussians(np.random.default_rng(4), Probe(gaussian, 64), points)
    assert len(found) == 4
    log_normaliser = 0.5 * np.linalg.slogdet(2 * np.pi * np.linalg.inv(PRECISION))[1]
    best = max(found, key=lambda g: g.elbo)
    assert log_normaliser - 1.0 < best.elbo < log_normaliser + 0.6, "an estimate from 128 draws"
    np.testing.assert_allclose(best.mean, MEAN, atol=0.3)


def test_a_path_that_gets_nowhere_has_no_gaussian():
    rng = np.random.default_rng(0)
    assert best_gaussians(rng, Probe(lambda z: jnp.nan * jnp.sum(z), 64), np.ones((2, 3))) == []


def test_newton_finds_mode_and_curvature():
    mode, factor = laplace(Probe(gaussian, 64), np.zeros(5))
    np.testing.assert_allclose(mode, MEAN, atol=1e-2)
    np.testing.assert_allclose(factor @ factor.T, np.linalg.inv(PRECISION), rtol=1e-2, atol=1e-3)
    np.testing.assert_array_equal(factor, np.tril(factor))


def test_newton_gives_up_without_derivatives():
    assert laplace(Probe(lambda z: jnp.nan * jnp.sum(z**2), 64), np.zeros(2)) is None
