"""SIVI against the exact gradient of its own bound, which is not that of the ELBO."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import assert_mean, assert_not_mean, flat, gradient_samples
from uivi.estimators import SIVI
from uivi.families import LinearGaussian, SemiImplicit, StandardNormal
from uivi.targets import Density

NUM_NODES = 16
NUM_ESTIMATES = 6_000


def log_density(z):
    return -0.5 * ((z[0] - 0.8) / 1.5) ** 2


def make_family() -> SemiImplicit:
    conditional = LinearGaussian(jnp.array([[1.2]]), jnp.array([0.1]), jnp.array([0.7]))
    return SemiImplicit(StandardNormal(1), conditional)


def negative_bound(conditional: LinearGaussian, num_mixing: int):
    """The SIVI bound by Gauss-Hermite quadrature over u, ε and the fresh draws of ε."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NUM_NODES)
    axes = 2 + num_mixing
    grid = jnp.asarray(np.stack(np.meshgrid(*[nodes] * axes), -1).reshape(-1, axes))
    weights = np.stack(np.meshgrid(*[weights / weights.sum()] * axes), -1).reshape(-1, axes)

    def integrand(point):
        u, eps = point[0], point[1:]
        z = conditional.weight @ eps[:1] + conditional.bias + conditional.scale * u
        log_q = jax.vmap(lambda e: conditional.log_prob(z, e[None]))(eps)
        return log_density(z) - jax.nn.logsumexp(log_q) + jnp.log(1.0 + num_mixing)

    return -jnp.sum(jnp.asarray(weights.prod(1)) * jax.vmap(integrand)(grid))


def bound_gradient(num_mixing: int):
    return flat(jax.grad(negative_bound)(make_family().conditional, num_mixing))


def elbo_gradient():
    def negative_elbo(conditional):
        mean, covariance = conditional.marginal()
        expected = log_density(mean) - 0.5 * covariance[0, 0] / 1.5**2
        return -expected - 0.5 * jnp.log(2 * jnp.pi * jnp.e * covariance[0, 0])

    return flat(jax.grad(negative_elbo)(make_family().conditional))


def samples_of(key, estimator, step=0):
    params = (make_family(), Density(log_density, 1))
    return gradient_samples(key, estimator, params, NUM_ESTIMATES, step=step)


@pytest.mark.parametrize("num_mixing", [1, 2])
def test_gradient_of_the_bound(num_mixing, x64, getkey):
    """Biased for the ELBO, by a declared and visible amount, when L is small."""
    samples = samples_of(getkey(), SIVI(4, num_mixing))
    assert_mean(samples, bound_gradient(num_mixing), max_stderr=0.015)
    assert_not_mean(samples, elbo_gradient())


def test_bias_falls_with_the_number_of_mixing_draws(x64, getkey):
    samples = samples_of(getkey(), SIVI(4, 100))
    assert_mean(samples, elbo_gradient(), max_stderr=0.015, bias=0.02)


def test_masked_draws_do_not_count(x64, getkey):
    """Before the schedule's second stage the bound is that of its first."""
    estimator = SIVI(4, 2, schedule=((0, 1), (10, 2)))
    assert_mean(samples_of(getkey(), estimator, 9), bound_gradient(1), max_stderr=0.015)
    samples = samples_of(getkey(), estimator, 10)
    assert_mean(samples, bound_gradient(2), max_stderr=0.015)
    assert_not_mean(samples, bound_gradient(1))


def active_sizes(estimator, steps):
    return [int(jnp.sum(estimator._active(jnp.asarray(step)) == 0)) for step in steps]


def test_schedule_by_step():
    estimator = SIVI(num_mixing=50, schedule=((0, 5), (100, 20), (200, 50)))
    assert active_sizes(estimator, (0, 99, 100, 199, 200, 10_000)) == [5, 5, 20, 20, 50, 50]
    assert active_sizes(SIVI(num_mixing=7), (0, 1_000)) == [7, 7]


@pytest.mark.parametrize(
    "schedule",
    [
        ((0, 20), (10, 5), (20, 50)),
        ((0, 60),),
        ((10, 5), (0, 50)),
        ((0, 0), (10, 50)),
        ((10, 5), (20, 50)),
        ((0, 5), (10, 20)),
    ],
    ids=["decreasing", "above num_mixing", "steps out of order", "no draws", "late start", "ends below"],
)
def test_bad_schedules(schedule):
    with pytest.raises(ValueError, match="never decreasing and ending at num_mixing=50, got"):
        SIVI(num_mixing=50, schedule=schedule)


def test_bad_counts():
    with pytest.raises(ValueError, match="`num_mixing` to be a positive whole number, got 0"):
        SIVI(num_mixing=0)
