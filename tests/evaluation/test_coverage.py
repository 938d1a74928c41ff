"""Whether q covers the regions that a search has met."""

import numpy as np
import pytest

from uivi.evaluation.coverage import Region, coverage

NUM_DRAWS = 2_000


def region(place, share, radius=3.0, stderr=0.01):
    """Returns a round region around (place, 0) with this share of a posterior of mass one."""
    mean = np.array([place, 0.0])
    return Region(mean, lambda z: np.linalg.norm(z - mean, axis=1), radius, np.log(share), stderr)


def draws(*places):
    """Returns draws in equal parts around these places."""
    noise = np.random.default_rng(0).standard_normal((NUM_DRAWS, 2))
    return noise + np.array([[places[i % len(places)], 0.0] for i in range(NUM_DRAWS)])


def test_a_mode_that_q_misses():
    found = coverage([region(-6, 0.68), region(6, 0.32)], draws(-6), np.log(0.68))
    assert found.num_regions == 2
    assert found.distance == pytest.approx(12)
    assert found.missed == pytest.approx(0.32, abs=0.02)


def test_modes_that_q_has():
    found = coverage([region(-6, 0.5), region(6, 0.5)], draws(-6, 6), 0.0)
    assert (found.num_regions, found.missed) == (2, 0.0)


def test_two_paths_into_one_mode():
    found = coverage([region(0, 1.0), region(0.5, 0.99)], draws(0), 0.0)
    assert (found.num_paths, found.num_regions, found.distance, found.missed) == (2, 1, 0.0, 0.0)


@pytest.mark.parametrize(("paths", "unseen"), [((60, 60), 0.0), ((119, 1), 1 / 120), ((98, 1), 0.0)])
def test_modes_that_one_path_has_met(paths, unseen):
    """They tell how likely the next path meets a new one, if there are enough paths."""
    modes = [region(place, 0.5)._replace(num_paths=n) for place, n in zip((-6, 6), paths, strict=True)]
    assert coverage(modes, draws(-6, 6), 0.0).unseen == pytest.approx(unseen)


def test_a_tiny_mode_does_not_count():
    found = coverage([region(-6, 1.0), region(6, 1e-4)], draws(-6), 0.0)
    assert (found.num_regions, found.missed) == (1, 0.0)


def test_a_mass_that_is_hardly_known_proves_nothing():
    assert coverage([region(-6, 0.68), region(6, 0.32, stderr=1.0)], draws(-6), np.log(0.68)).missed == 0


@pytest.mark.parametrize(("stderr", "missed"), [(1.0, 0.0), (0.7, 1.0)])
def test_a_mass_from_one_draw_is_not_a_mass(stderr, missed):
    """However large it is: a lucky weight has made a region of a right fit pass for all of the posterior."""
    found = coverage([region(-6, 0.68), region(6, 1e5, stderr=stderr)], draws(-6), np.log(0.68))
    assert found.missed == pytest.approx(missed, abs=0.01)
