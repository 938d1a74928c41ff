"""The probe: log densities from the host, in batches of one size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uivi.targets.probe import ROWS_AT_ONCE, Probe


def log_density(z):
    return -0.25 * jnp.sum(z**4) + z[0] * z[1]


@pytest.mark.parametrize("number", [1, 4, 5, 11])
def test_values_and_gradients_of_any_number_of_points(number):
    points = np.random.default_rng(0).normal(size=(number, 3))
    values, gradients = Probe(log_density, 4)(points)
    wide = jnp.asarray(points, jnp.float32)
    np.testing.assert_allclose(values, jax.vmap(log_density)(wide), rtol=1e-5)
    np.testing.assert_allclose(gradients, jax.vmap(jax.grad(log_density))(wide), rtol=1e-5, atol=1e-6)
    assert values.dtype == gradients.dtype == np.float64


def test_the_hessian():
    point = np.array([1.0, 2.0, -1.0])
    expected = np.diag(-3 * point**2) + np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0.0]])
    np.testing.assert_allclose(Probe(log_density, 4).hessian(point), expected, rtol=1e-5)


def test_a_large_hessian_comes_in_pieces():
    dim = ROWS_AT_ONCE + 40
    coupled = lambda z: -jnp.sum(jnp.cosh(z)) + jnp.sum(z[1:] * z[:-1] ** 2)
    point = np.random.default_rng(0).normal(size=dim).astype(np.float32)
    found = Probe(coupled, 4).hessian(point.astype(float))
    np.testing.assert_allclose(found, jax.hessian(coupled)(jnp.asarray(point)), rtol=1e-5, atol=1e-6)
