"""`uivi.fit` with defaults on posteriors that are not toys, against long runs of NUTS."""

import os
import time

import jax
import jax.numpy as jnp
import pytest

import uivi
from tests.posteriors import POSTERIORS, correlated_logistic, eight_schools, reference
from uivi.evaluation.metrics import sliced_wasserstein

pytestmark = pytest.mark.usefixtures("full_looks")

LIMIT = 1.5
"""Sliced W2 to the reference over the reference's own noise."""
SECONDS = 60.0
"""On two cores. Checked only where the fit has them to itself: `pytest -n 0 tests/fitting/test_accuracy.py`."""


@pytest.fixture(autouse=True)
def optimized():
    """As users have it: the suite compiles with few optimisations."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


def distance_in_noise(posterior, draws) -> float:
    """Distance of the draws from half of the reference over that between its halves."""
    first, second = jnp.split(jnp.asarray(reference(posterior)), 2)
    key = jax.random.key(7)
    noise = sliced_wasserstein(key, first, second)
    return float(sliced_wasserstein(key, draws, first) / noise)


@pytest.mark.parametrize(
    "make",
    [m if m is eight_schools else pytest.param(m, marks=pytest.mark.slow) for m in POSTERIORS],
)
def test_defaults_reach_the_noise_of_the_reference(make):
    posterior = make()
    alone = "PYTEST_XDIST_WORKER" not in os.environ and os.getloadavg()[0] < 1.5
    began = time.monotonic()
    settings = {"num_steps": 2_000, "check": False, "progress": False}  # the suite has no time for more
    fitted = uivi.fit(posterior.log_density, posterior.dim, key=jax.random.key(0), **settings)
    seconds = time.monotonic() - began
    assert fitted.status is uivi.Status.DONE
    draws = fitted.sample(jax.random.key(1), 10_000)
    assert distance_in_noise(posterior, draws) <= LIMIT
    assert seconds < SECONDS or not alone


def test_the_measure_sees_a_mean_field_fit():
    """Must-fail control: a Gaussian without correlations is far from the correlated regression."""
    posterior = correlated_logistic()
    fitted = uivi.fit(
        posterior.log_density,
        posterior.dim,
        key=jax.random.key(0),
        family=uivi.ExplicitGaussian.create(posterior.dim, scale=0.1),
        num_steps=1_000,
        check=False,
        progress=False,
    )
    draws = fitted.sample(jax.random.key(1), 10_000)
    assert distance_in_noise(posterior, draws) > LIMIT


def test_the_measure_is_one_for_the_other_half_of_the_reference():
    posterior = eight_schools()
    draws = jnp.asarray(reference(posterior))[10_000:]
    assert distance_in_noise(posterior, draws) == pytest.approx(1)
