"""A start at a point that the user gives, also where the log density has no slope."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from uivi.fitting.problem import problem_of
from uivi.fitting.starts.checked import checked_start
from uivi.targets.traced import traced

WIDE = 210
"""More dimensions than Newton's method is used for: only paths find the scale."""


def banana(z):
    return -0.5 * (z[0] ** 2 + (z[1] + z[0] ** 2 + 1) ** 2)


def start_of(log_density, init, key):
    problem = problem_of(log_density, key, init=init)
    return checked_start(key, problem, traced(problem.target))


@pytest.mark.parametrize(
    ("log_density", "init"),
    [
        (lambda z: -0.5 * jnp.sum(z**2), np.zeros(2)),
        (banana, np.zeros(2)),
        (banana, np.array([0.0, -1.0])),
        (lambda z: -0.5 * jnp.sum((z - 1e3) ** 2), np.full(2, 1e3)),
    ],
    ids=["normal", "banana", "its mode", "far off"],
)
def test_points_without_a_slope(log_density, init, getkey):
    start = start_of(log_density, init, getkey())
    assert np.isfinite(start.elbo)
    np.testing.assert_allclose(start.loc - init, 0, atol=2.5)


def test_the_scale_is_found_from_a_mode(getkey):
    """No path leads off a mode, so paths begin beside it."""
    start = start_of(lambda z: -0.5 * jnp.sum((z / 0.01) ** 2), np.zeros(WIDE), getkey())
    np.testing.assert_allclose(start.factor, 0.01, rtol=0.5)


def test_a_saddle_is_left(getkey):
    start = start_of(lambda z: -jnp.sum((z**2 - 1) ** 2), np.zeros(WIDE), getkey())
    assert start.name == "pathfinder"


@pytest.mark.parametrize("init", [{"a": np.zeros(()), "b": np.zeros(1)}, [np.float32(0.0), np.float32(-1.0)]])
def test_a_fit_from_a_point_without_a_slope(init, getkey):
    posterior = uivi.fit(
        lambda tree: banana(jnp.stack([jnp.ravel(x)[0] for x in jax.tree.leaves(tree)])),
        init=init,
        key=getkey(),
        num_steps=20,
        check=False,
        progress=False,
    )
    draws = posterior.sample(getkey(), 10)
    assert jax.tree.structure(draws) == jax.tree.structure(init)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(draws))
