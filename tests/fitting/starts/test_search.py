"""Starts: rough moments are found where posteriors are narrow, correlated, flat or broken."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uivi.fitting.starts.search import NUM_FAR, TOGETHER, Start, explored, find_start, recentred
from uivi.presets.density import is_bent
from uivi.targets import Rosenbrock
from uivi.targets.probe import Probe

COVARIANCE = np.array([[4.0, 1.9e-3], [1.9e-3, 1e-6]])
PRECISION = np.linalg.inv(COVARIANCE)
MEAN = np.array([3.0, -0.01])


def narrow(z):
    """Scales a thousand apart, correlation 0.95."""
    return -0.5 * (z - MEAN) @ PRECISION.astype(np.float32) @ (z - MEAN)


def two_modes(z):
    left, right = (jax.scipy.stats.norm.logpdf(z, m, 1.0).sum() for m in (-2.5, 2.5))
    return jnp.logaddexp(left, right)


def points(dim, num=4):
    return np.random.default_rng(1).uniform(-2.0, 2.0, (num, dim))


def probe(log_density):
    return Probe(log_density, 64)


def covariance(start):
    factor = np.asarray(start.factor)
    return factor @ factor.T if factor.ndim == 2 else np.diag(factor**2)


def test_moments_of_a_narrow_gaussian(getkey):
    start = find_start(getkey(), probe(narrow), points(2), full_up_to=10)
    np.testing.assert_allclose((start.loc - MEAN) / np.sqrt(np.diag(COVARIANCE)), 0, atol=0.2)
    np.testing.assert_allclose(covariance(start), COVARIANCE, rtol=0.1)


def test_a_start_knows_whether_it_is_near(getkey):
    """By its own draws: a Gaussian is the posterior up to rounding, a ridge is a nat away or more."""
    near = find_start(getkey(), probe(narrow), points(2), full_up_to=10)
    assert abs(near.kl) < 0.05
    assert not is_bent(near)
    ridge = find_start(getkey(), probe(Rosenbrock().log_density), points(4), full_up_to=10)
    assert ridge.kl > 1
    assert is_bent(ridge)
    assert not is_bent(ridge._replace(kl=np.nan))


def test_a_start_moves_to_the_mode_and_keeps_its_shape():
    """A covariance that is 10% off takes it there in a few steps."""
    factor = jnp.asarray(np.linalg.cholesky(1.1 * COVARIANCE), jnp.float32)
    off = jnp.asarray(MEAN + 5 * np.sqrt(np.diag(COVARIANCE)), jnp.float32)
    start = recentred(Start(off, factor), probe(narrow))
    np.testing.assert_allclose((start.loc - MEAN) / np.sqrt(np.diag(COVARIANCE)), 0, atol=0.05)
    np.testing.assert_array_equal(start.factor, factor)
    by_sd = recentred(Start(jnp.array([2.0, 1.0]), jnp.full((2,), 0.9)), probe(lambda z: -0.5 * jnp.sum(z**2)))
    np.testing.assert_allclose(by_sd.loc, 0, atol=0.01)


def test_a_start_that_would_go_down_stays():
    far = Start(jnp.ones(2), 100 * jnp.eye(2))
    np.testing.assert_array_equal(recentred(far, probe(lambda z: -0.5 * jnp.sum(z**2))).loc, far.loc)
    to_nan = recentred(far, probe(lambda z: -jnp.sum(jnp.log(2.0 - z))))
    np.testing.assert_array_equal(to_nan.loc, far.loc)


def test_standard_deviations_where_the_covariance_is_too_large(getkey):
    scale = jnp.array([10.0, 0.1, 1.0])
    start = find_start(getkey(), probe(lambda z: -0.5 * jnp.sum((z / scale) ** 2)), points(3), full_up_to=2)
    assert start.factor.shape == (3,)
    np.testing.assert_allclose(start.factor, scale, rtol=0.3)


def test_a_start_covers_modes_of_like_weight(getkey):
    start = find_start(getkey(), probe(two_modes), points(1, 8), full_up_to=10)
    assert abs(start.loc[0]) < 2.0
    assert 1.5 < start.factor[0, 0] < 4.0


def test_a_mode_of_infinite_density_is_not_run_into(getkey):
    """A funnel with its mode at v = -infinity."""
    funnel = lambda z: -0.5 * (z[0] / 3) ** 2 - 0.5 * jnp.sum(z[1:] ** 2) * jnp.exp(-z[0]) - 4.5 * z[0]
    start = find_start(getkey(), probe(funnel), points(10), full_up_to=20)
    assert abs(start.loc[0]) < 10
    assert np.isfinite(start.elbo)


@pytest.mark.parametrize("density", [lambda z: jnp.sum(z), lambda z: jnp.nan * jnp.sum(z)])
def test_without_a_maximum_the_fit_starts_somewhere_finite(density, getkey):
    start = find_start(getkey(), probe(density), points(2), full_up_to=10)
    assert np.all(np.isfinite(start.loc))
    assert np.all(np.isfinite(start.factor))


def far_modes(z):
    left, right = (jax.scipy.stats.norm.logpdf(z, m, 1.0).sum() for m in (-8.0, 8.0))
    return jnp.logaddexp(left, right)


def test_paths_from_far_off_meet_the_other_mode(getkey):
    """A start that has settled in one of two modes does not move. The regions have both."""
    start = Start(np.full(3, -8.0), np.eye(3))
    found = explored(getkey(), probe(far_modes), start, np.full(3, -8.0))
    places = {int(np.sign(region.mean[0])) for region in found.regions if region.log_mass > -3}
    assert places == {-1, 1}
    np.testing.assert_array_equal(found.loc, start.loc)


def test_a_spent_probe_ends_the_exploration(getkey):
    start = Start(np.zeros(2), np.eye(2))
    assert explored(getkey(), Probe(two_modes, 64, 0.0), start, np.zeros(2)).regions == ()
    assert len(explored(getkey(), probe(narrow), start, np.zeros(2)).regions) <= NUM_FAR + TOGETHER
