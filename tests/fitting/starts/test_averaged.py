"""The covariance of a large z: exact for a Gaussian, the best Gaussian for others, dropped if useless."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from uivi.fitting.starts.averaged import averaged_newton
from uivi.fitting.starts.effort import Curvature
from uivi.fitting.starts.newton import laplace
from uivi.fitting.starts.search import Start, find_start
from uivi.targets.probe import Probe

DIM = 260
HESSIANS = Curvature(hessians=64)
SCALE = np.exp(np.linspace(-3, 3, DIM))
DISTANCE = np.abs(np.subtract.outer(np.arange(DIM), np.arange(DIM)))
COVARIANCE = np.outer(SCALE, SCALE) * 0.9**DISTANCE
MEAN = 5 * SCALE
WHITEN = np.linalg.inv(np.linalg.cholesky(COVARIANCE)).astype(np.float32)
SHAPE = np.geomspace(1.0, 5.0, DIM)


def correlated(z):
    """An autoregression with scales up to 400 apart."""
    return -0.5 * jnp.sum((WHITEN @ (z - MEAN.astype(np.float32))) ** 2)


def skewed(z):
    """Logarithms of independent gamma variables."""
    return jnp.sum(SHAPE.astype(np.float32) * z - jnp.exp(z))


def search(key, density, **options):
    points = np.random.default_rng(1).uniform(-2.0, 2.0, (4, DIM))
    return find_start(key, Probe(density, 64), points, full_up_to=DIM - 1, **options)


def divergence(start, mean, covariance):
    """KL of the start from a Gaussian."""
    factor = start.factor if start.factor.ndim == 2 else np.diag(start.factor)
    root = np.linalg.cholesky(covariance)
    white, shift = np.linalg.solve(root, factor), np.linalg.solve(root, start.loc - mean)
    return 0.5 * (np.sum(white**2) + shift @ shift - DIM) - np.linalg.slogdet(white)[1]


def test_the_covariance_of_a_gaussian_is_exact(getkey):
    start = search(getkey(), correlated, curvature=HESSIANS)
    assert start.name == "averaged newton"
    assert abs(divergence(start, MEAN, COVARIANCE)) < 0.01
    sd = np.sqrt(np.diag(COVARIANCE))
    np.testing.assert_allclose(start.factor @ start.factor.T / np.outer(sd, sd), 0.9**DISTANCE, atol=1e-3)
    # No coordinate is turned more than another, whatever their order.
    np.testing.assert_allclose((scaled := start.factor / sd[:, None]), scaled.T, atol=1e-3)
    # Standard deviations alone are what there was before.
    diagonal = search(getkey(), correlated)
    assert diagonal.factor.shape == (DIM,)
    assert divergence(diagonal, MEAN, COVARIANCE) > 100


def test_the_best_gaussian_rather_than_the_mode(getkey):
    """In closed form the best Gaussian has variance 1/a and mean log a - 1/(2a), the mode is log a."""
    covariance = np.diag(1 / SHAPE)
    best = np.log(SHAPE) - 0.5 / SHAPE
    start = search(getkey(), skewed, curvature=Curvature(hessians=160))
    # Eight Hessians a step leave some noise: a quarter of the squared relative errors.
    assert divergence(start, best, covariance) < 0.6
    mode, factor = laplace(Probe(skewed, 64), np.zeros(DIM))
    assert divergence(start._replace(loc=mode, factor=factor), best, covariance) > 10


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_without_second_derivatives_the_start_is_that_of_the_path(value, getkey, monkeypatch):
    monkeypatch.setattr(Probe, "hessian", lambda probe, point: np.full((DIM, DIM), value))
    start = search(getkey(), correlated, curvature=HESSIANS)
    assert start.name == "pathfinder"
    assert start.factor.shape == (DIM, DIM)
    assert np.all(np.isfinite(start.factor))


def test_a_wrong_hessian_does_no_harm(monkeypatch):
    """All of it would cost thousands of nats. What is left gains as much by the chance of the draws."""
    monkeypatch.setattr(Probe, "hessian", lambda probe, point: -1e-8 * np.eye(DIM))
    exact, rng = np.linalg.cholesky(COVARIANCE), np.random.default_rng(0)
    found = averaged_newton(rng, Probe(correlated, 64), MEAN, exact, 64)
    start = Start(MEAN, exact) if found is None else Start(*found)
    assert divergence(start, MEAN, COVARIANCE) < 0.2


def test_saddles_on_the_way_do_no_harm(getkey):
    """Between its two modes every coordinate curves upwards."""
    saddles = lambda z: jnp.sum(jnp.logaddexp(-0.5 * (z - 1.5) ** 2, -0.5 * (z + 1.5) ** 2))
    start, before = search(getkey(), saddles, curvature=HESSIANS), search(getkey(), saddles)
    assert np.all(np.isfinite(start.factor))
    assert start.elbo > before.elbo - 5


def test_a_fit_keeps_the_covariance_and_saves_it(tmp_path):
    settings = {"num_steps": 20, "check": False, "progress": False}
    posterior = uivi.fit(correlated, DIM, key=jax.random.key(0), **settings)
    draws = np.asarray(posterior.sample(jax.random.key(1), 4_000))
    white = np.linalg.solve(np.linalg.cholesky(COVARIANCE), (draws - MEAN).T)
    # The singular values of as many standard normal vectors lie between 1 ± 0.26.
    assert 0.6 < np.linalg.norm(white, -2) / 4_000**0.5 < np.linalg.norm(white, 2) / 4_000**0.5 < 1.4
    posterior.save(tmp_path / "fit")
    again = uivi.load(tmp_path / "fit")
    np.testing.assert_array_equal(again.sample(jax.random.key(1), 4_000), draws)
