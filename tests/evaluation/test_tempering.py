"""Particles against densities whose integral and modes are known."""

import functools

import jax
import jax.numpy as jnp
import pytest

from uivi.evaluation.tempering import temper
from uivi.testing import assert_unbiased

NUM_RUNS, NUM_PARTICLES = 200, 64
LOG_Z = 3.0


def two_modes(share, z):
    """N((8, 0), I) with this share, and N((-4, 0), I) with the rest, times e³."""
    modes = jnp.array([[8.0, 0.0], [-4.0, 0.0]])
    logs = jax.vmap(lambda mode: jnp.sum(jax.scipy.stats.norm.logpdf(z - mode)))(modes)
    return LOG_Z + jax.nn.logsumexp(logs + jnp.log(jnp.array([share, 1 - share])))


@pytest.fixture(scope="module")
def runs():
    @jax.jit
    def run(share):
        keys = jax.random.split(jax.random.key(3), NUM_RUNS)
        density = functools.partial(two_modes, share)
        return jax.vmap(lambda key: temper(key, density, jnp.zeros(2), jnp.full(2, 10.0), NUM_PARTICLES))(keys)

    return run(0.3), run(0.7)


def test_modes_get_their_shares(runs):
    right, wrong = (jnp.mean(found.points[..., 0] > 2, 1) for found in runs)
    # The temperatures are chosen by the same particles, which costs a bias of the order of 1 / N.
    assert_unbiased(right, 0.3, control=wrong, max_stderr=0.01, bias=0.02)


def test_the_integral(runs):
    relative = jnp.exp(runs[0].log_z - LOG_Z)
    assert_unbiased(relative, 1.0, control=1.3 * relative, max_stderr=0.05, bias=0.05)


def test_every_run_arrives(runs):
    assert jnp.all(runs[0].beta == 1)
    assert jnp.mean(runs[0].acceptance) > 0.5


def test_a_density_that_is_never_finite_ends_at_once():
    found = jax.jit(lambda key: temper(key, lambda z: jnp.nan * z[0], jnp.zeros(2), jnp.full(2, 3.0), 8))(
        jax.random.key(0)
    )
    assert found.stages == 0
    assert not jnp.any(jnp.isfinite(found.log_p))
