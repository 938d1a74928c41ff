"""A search with an expensive log density is a short one; with a cheap one it is what it always was."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uivi.fitting.problem import problem_of
from uivi.fitting.starts import effort
from uivi.fitting.starts.checked import checked_start
from uivi.fitting.starts.search import FARTHEST, NUM_FAR, NUM_LIGHT
from uivi.targets import Density
from uivi.targets.probe import Probe
from uivi.targets.traced import traced

DIM = 5
SCALE = np.exp(np.linspace(-3.0, 3.0, DIM)).astype(np.float32)


def density(z):
    """Skewed and badly scaled, so that a path needs many steps."""
    x = z / SCALE
    return -0.5 * jnp.sum(x**2) - jnp.sum(jnp.exp(0.5 * x)) - 0.1 * (x[0] - x[1] ** 2) ** 2


@pytest.fixture
def evaluations(monkeypatch):
    """The number of points in each call of a probe."""
    sizes, call = [], Probe._batches

    def counted(probe, points):
        for batch in call(probe, points):
            sizes.append(probe.size)
            yield batch

    monkeypatch.setattr(Probe, "_batches", counted)
    return sizes


def search(key):
    problem = problem_of(density, key, dim=DIM)
    return checked_start(key, problem, traced(problem.target))


def test_a_cheap_density_has_the_full_search(getkey, evaluations):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start = search(getkey())
    assert set(evaluations) == {effort.MANY_POINTS}
    # Nearly all paths end in the one mode and count there. From furthest out a path may end at once.
    paths = sum(region.num_paths for region in start.regions)
    assert 4 + NUM_FAR - len(FARTHEST) <= paths <= 4 + NUM_FAR + NUM_LIGHT


@pytest.mark.usefixtures("quiet_threads")
def test_an_expensive_density_has_a_short_search_and_a_warning(getkey, evaluations, monkeypatch):
    full = search(getkey())
    number = sum(evaluations)
    evaluations.clear()
    monkeypatch.setattr(effort, "CHEAP", 1)
    with pytest.warns(UserWarning, match=r"about [\d,]+ operations.*numpyro.minibatched\(") as warned:
        short = search(getkey())
    assert len(warned) == 1
    assert set(evaluations) == {effort.SOME_POINTS}
    assert sum(evaluations) < 0.5 * number
    # It is as good a start all the same.
    assert short.elbo > full.elbo - 1.0


@pytest.mark.usefixtures("quiet_threads")
def test_the_number_of_evaluations_is_bounded(getkey, evaluations, monkeypatch):
    """Whatever the density costs, and without a look at the clock."""
    monkeypatch.setattr(effort, "CHEAP", 1)
    monkeypatch.setattr(effort, "MOST_OPERATIONS", 1)
    monkeypatch.setattr(effort, "FEWEST_EVALUATIONS", 40)
    with pytest.warns(UserWarning, match="short one"):
        start = search(getkey())
    assert np.isfinite(start.elbo)
    bounded = sum(evaluations)
    evaluations.clear()
    monkeypatch.setattr(effort, "FEWEST_EVALUATIONS", 10**6)
    with pytest.warns(UserWarning, match="short one"):
        search(getkey())
    assert bounded < 0.7 * sum(evaluations)


@pytest.mark.usefixtures("quiet_threads")
def test_the_search_does_not_look_at_the_clock(getkey, monkeypatch):
    monkeypatch.setattr(effort, "CHEAP", 1)
    with pytest.warns(UserWarning, match="short one"):
        one, other = (search(jax.random.key(3)) for _ in range(2))
    np.testing.assert_array_equal(one.loc, other.loc)
    np.testing.assert_array_equal(one.factor, other.factor)


@pytest.mark.usefixtures("quiet_threads")
@pytest.mark.parametrize(
    ("rows", "columns", "size"),
    [(100_000, 5, effort.MANY_POINTS), (100_000, 50, effort.SOME_POINTS)],
    ids=["slow", "expensive"],
)
def test_a_hundred_thousand_rows_are_hinted_at_minibatches(rows, columns, size):
    with pytest.warns(UserWarning, match=r"every update takes long.*numpyro.minibatched\(") as warned:
        probe = effort.probe_of(regression(rows, columns))
    assert probe.size == size
    assert ("the search for a start is a short one" in str(warned[0].message)) == (size == effort.SOME_POINTS)


def test_ten_thousand_rows_are_not():
    assert effort.probe_of(regression(10_000, 5)).size == effort.MANY_POINTS


def regression(rows, columns):
    """The target of a logistic regression, which nothing evaluates here."""
    x = np.ones((rows, columns), np.float32)
    return traced(Density(lambda z: -jnp.sum(jnp.logaddexp(0.0, x @ z)), columns))


def test_the_covariance_of_a_large_z_has_a_counted_price():
    cheap = lambda z: -0.5 * jnp.sum(z**2)
    assert effort.curvature(cheap, 300) == effort.Curvature(hessians=effort.MOST_HESSIANS)
    larger = effort.LARGEST_FULL + 1
    assert effort.curvature(cheap, larger) == effort.Curvature(directions=effort.MOST_DIRECTIONS)
    huge = effort.NUMBERS_IN_DIRECTIONS // effort.FEWEST_DIRECTIONS + 1
    assert effort.curvature(cheap, huge) == effort.Curvature()
    slow = lambda rows: lambda z: jnp.sum(jax.scipy.special.gammaln(jnp.exp(z[0]) * jnp.ones(rows)))
    assert effort.curvature(slow(10**5), 300) == effort.Curvature(directions=effort.MOST_DIRECTIONS)
    assert effort.curvature(slow(10**7), 300) == effort.Curvature()
