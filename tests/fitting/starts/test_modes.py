"""The modes of a mixture are found, with their shares; a posterior without separate modes is left alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uivi.fitting.starts.modes import find_modes, places_of
from uivi.fitting.starts.pathfinder import radius_of
from uivi.fitting.starts.search import NUM_FAR, TOGETHER, Start, explored
from uivi.targets import eight_gaussians, forty_gaussians
from uivi.targets.probe import Probe
from uivi.testing import assert_unbiased

WEIGHTS = np.array([0.6, 0.3, 0.1])
PLACES = np.array([[0.0, 0.0, 0.0], [9.0, 0.0, 3.0], [-6.0, 8.0, 0.0]])
SCALES = np.array([1.0, 0.5, 2.0])
NUM_KEYS = 6


def three_modes(z):
    """Gaussians of different widths, normalised."""
    offsets = (z[None] - jnp.asarray(PLACES, z.dtype)) / jnp.asarray(SCALES, z.dtype)[:, None]
    logs = jnp.sum(jax.scipy.stats.norm.logpdf(offsets), 1) - 3 * jnp.log(jnp.asarray(SCALES, z.dtype))
    return jax.nn.logsumexp(logs + jnp.log(jnp.asarray(WEIGHTS, z.dtype)))


def ring(z):
    """A ridge of equal height: every point of it is a maximum, and none is a mode of its own."""
    return -0.5 * ((jnp.linalg.norm(z) - 3.0) / 0.5) ** 2


def touching(z):
    """Two modes between which log p hardly falls."""
    left, right = (jax.scipy.stats.norm.logpdf(z, m, 1.0).sum() for m in (-1.2, 1.2))
    return jnp.logaddexp(left, right)


def found_by(key, log_density, dim):
    """Begins as a fit does, at a mode."""
    start = Start(np.zeros(dim), np.eye(dim))
    return explored(key, Probe(log_density, 64), start, np.zeros(dim))


def shares(start):
    """The shares in the order of the modes of `three_modes`."""
    locs, weights = np.asarray(start.places.frames.loc), np.exp(np.asarray(start.places.log_weights))
    order = [int(np.argmin(np.linalg.norm(locs - place, axis=1))) for place in PLACES]
    return weights[order]


def test_places_and_scales():
    start = found_by(jax.random.key(0), three_modes, 3)
    frames = start.places.frames
    assert len(frames.loc) == 3
    order = [int(np.argmin(np.linalg.norm(np.asarray(frames.loc) - place, axis=1))) for place in PLACES]
    np.testing.assert_allclose(np.asarray(frames.loc)[order], PLACES, atol=0.01)
    expected = SCALES[:, None, None] * np.eye(3)
    np.testing.assert_allclose(np.asarray(frames.factor)[order], expected, atol=0.01)
    assert sum(region.num_paths for region in start.regions) > 100


def test_shares():
    """The control takes all modes for equally large."""
    found = [shares(found_by(key, three_modes, 3)) for key in jax.random.split(jax.random.key(1), NUM_KEYS)]
    assert_unbiased(
        found, WEIGHTS, control=np.full((NUM_KEYS, 3), 1 / 3) + 0 * np.stack(found), max_stderr=0.015
    )


@pytest.mark.parametrize(("target", "number"), [(eight_gaussians(), 8), (forty_gaussians(10), 40)])
def test_all_of_many_modes(target, number):
    start = found_by(jax.random.key(2), lambda z: target.log_density(z), target.dim)
    weights = np.exp(np.asarray(start.places.log_weights))
    assert len(weights) == number
    np.testing.assert_allclose(number * weights, 1, atol=0.25)


@pytest.mark.parametrize("dim", [60, 300])
def test_a_mode_inside_the_ellipsoid_of_another_is_found(dim):
    """Ten standard deviations are less than the radius of 200 dimensions: a valley tells the two apart."""
    shift = jnp.zeros(dim).at[0].set(5.0 if dim > 200 else 4.0)
    log_density = lambda z: jnp.logaddexp(
        jnp.log(0.3) - 0.5 * jnp.sum((z - shift) ** 2), jnp.log(0.7) - 0.5 * jnp.sum((z + shift) ** 2)
    )
    assert 2 * float(shift[0]) < radius_of(dim)
    start = found_by(jax.random.key(0), log_density, dim)
    locs, weights = np.asarray(start.places.frames.loc), np.exp(np.asarray(start.places.log_weights))
    np.testing.assert_allclose(locs[:, 0], [-shift[0], shift[0]], atol=0.01)
    np.testing.assert_allclose(weights, [0.7, 0.3], atol=0.03)


def bent(z):
    """A banana in 60 dimensions: lines between its arms leave it, but it has one mode."""
    return -0.5 * (z[0] ** 2 + (z[1] + 2 * z[0] ** 2) ** 2 + jnp.sum(z[2:] ** 2))


def test_a_bent_posterior_has_one_mode():
    start = found_by(jax.random.key(3), bent, 60)
    assert sum(region.num_paths for region in start.regions) > NUM_FAR
    assert start.places is None


@pytest.mark.parametrize("log_density", [ring, touching, lambda z: -0.5 * z @ z])
def test_without_separate_modes_there_are_none(log_density):
    start = found_by(jax.random.key(3), log_density, 2)
    assert start.places is None
    assert len(start.regions) <= NUM_FAR + TOGETHER


def test_one_region_or_a_spent_probe_costs_no_evaluation(monkeypatch):
    regions = found_by(jax.random.key(0), three_modes, 3).regions
    monkeypatch.delattr(Probe, "__call__")
    assert find_modes(jax.random.key(0), Probe(three_modes, 64), regions[:1]) == []
    assert find_modes(jax.random.key(0), Probe(three_modes, 64, 0.0), regions) == []


def test_places_are_normalised():
    start = found_by(jax.random.key(0), three_modes, 3)
    modes = find_modes(jax.random.key(5), Probe(three_modes, 64), start.regions)
    assert np.sum(np.exp(np.asarray(places_of(modes).log_weights))) == pytest.approx(1)
