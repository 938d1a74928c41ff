"""A covariance of low rank plus a diagonal: exact where the posterior has one, dropped if it fails."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from uivi.families.conditionals.stretched import Stretch
from uivi.fitting.starts import effort
from uivi.fitting.starts.effort import Curvature
from uivi.fitting.starts.search import find_start, recentred
from uivi.targets.probe import Probe

DIM, OBSERVED, RANK = 300, 6, 20
RNG = np.random.default_rng(0)
X = RNG.standard_normal((OBSERVED, DIM)).astype(np.float32)
Y = RNG.standard_normal(OBSERVED).astype(np.float32)
PRECISION = np.eye(DIM) + 4 * X.T.astype(float) @ X
MEAN = np.linalg.solve(PRECISION, 4 * X.T.astype(float) @ Y)


def regression(z):
    """More coefficients than observations, whose noise has the standard deviation 1/2."""
    return -0.5 * jnp.sum(z**2) - 2 * jnp.sum((Y - X @ z) ** 2)


def search(key, **options):
    points = np.random.default_rng(1).uniform(-2.0, 2.0, (4, DIM))
    return find_start(key, Probe(regression, 64), points, full_up_to=200, **options)


def matrix(start):
    """F of the start, as a matrix."""
    return (start.from_normal(np.eye(DIM)) - start.loc).T


def divergence(start):
    """KL of the start from the posterior."""
    factor, shift = matrix(start), start.loc - MEAN
    log_det = np.linalg.slogdet(PRECISION)[1] + 2 * np.linalg.slogdet(factor)[1]
    return 0.5 * (np.sum(factor * (PRECISION @ factor)) + shift @ PRECISION @ shift - DIM - log_det)


def test_low_rank_plus_a_diagonal_is_exact(getkey):
    start = search(getkey(), curvature=Curvature(directions=RANK))
    assert start.name == "lanczos"
    assert start.stretch.basis.shape == (DIM, RANK)
    assert abs(divergence(start)) < 0.3
    # What there was before.
    assert divergence(search(getkey())) > 10


def test_a_stretch_is_the_dense_matrix(getkey):
    basis = np.linalg.qr(RNG.standard_normal((7, 3)))[0]
    stretch = Stretch(basis, np.array([0.1, 2.0, 5.0]))
    dense = np.eye(7) + basis @ np.diag(stretch.factors - 1) @ basis.T
    rows = RNG.standard_normal((4, 7))
    np.testing.assert_allclose(stretch.times(rows), rows @ dense.T, atol=1e-12)
    np.testing.assert_allclose(stretch.inverse().times(rows[0]), np.linalg.solve(dense, rows[0]), atol=1e-12)
    np.testing.assert_allclose(np.log(stretch.factors).sum(), np.linalg.slogdet(dense)[1], atol=1e-12)


def test_a_start_with_a_stretch_moves_by_its_covariance(getkey):
    start = search(getkey(), curvature=Curvature(directions=RANK))
    off = start._replace(loc=start.loc + 3 * matrix(start) @ RNG.standard_normal(DIM))
    assert divergence(off) > 100
    assert abs(divergence(recentred(off, Probe(regression, 64)))) < 0.3


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_without_second_derivatives_nothing_is_stretched(value, getkey, monkeypatch):
    monkeypatch.setattr(Probe, "curvature_along", lambda probe, points, direction: np.full(DIM, value))
    start = search(getkey(), curvature=Curvature(directions=RANK))
    assert start.name == "pathfinder"
    np.testing.assert_array_equal(start.stretch.factors, np.ones(RANK))
    np.testing.assert_allclose(matrix(start), np.diag(start.factor), atol=1e-9)


def test_a_fit_keeps_the_stretch_and_saves_it(tmp_path, monkeypatch):
    monkeypatch.setattr(effort, "LARGEST_FULL", 0)
    settings = {"num_steps": 20, "check": False, "progress": False}
    posterior = uivi.fit(regression, DIM, key=jax.random.key(0), **settings)
    draws = np.asarray(posterior.sample(jax.random.key(1), 4_000))
    white = np.linalg.cholesky(PRECISION).T @ (draws - MEAN).T
    # The singular values of as many standard normal vectors lie between 1 ± 0.27.
    assert 0.6 < np.linalg.norm(white, -2) / 4_000**0.5 < np.linalg.norm(white, 2) / 4_000**0.5 < 1.4
    posterior.save(tmp_path / "fit")
    again = uivi.load(tmp_path / "fit")
    np.testing.assert_array_equal(again.sample(jax.random.key(1), 4_000), draws)
