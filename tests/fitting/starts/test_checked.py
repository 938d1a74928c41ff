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


ENDLESS = {
    "flat from afar": (
        lambda z: jnp.sum(jax.nn.log_sigmoid(z[1] * jnp.arange(1.0, 4.0))) - 0.5 * z[0] ** 2,
        "1",
    ),
    "too heavy a tail": (lambda z: -0.5 * z[0] ** 2 - 0.4 * jnp.log1p(z[1] ** 2), "1"),
    "on a line": (lambda z: -0.5 * jnp.log1p(z[0] ** 2) - 0.5 * z[1] ** 2, "0"),
    "on one side": (lambda z: -0.5 * z[0] ** 2 - jnp.logaddexp(0.0, -z[1]), "1"),
    "growing": (lambda z: -0.5 * z[0] ** 2 + z[1], "1"),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_density_without_an_integral_is_refused(name):
    density, place = ENDLESS[name]
    with pytest.raises(
        ValueError, match=rf"finite integral, but it falls too slowly along 'z\[{place}\]'.* prior"
    ):
        start_of(density, np.zeros(2), jax.random.key(0))


WIDE_TAILS = {
    "Cauchy": lambda z: -jnp.sum(jnp.log1p(z**2)),
    "Student, 0.3 degrees": lambda z: -0.65 * jnp.sum(jnp.log1p(z**2 / 0.3)),
    "Student, 2.5 degrees": lambda z: -1.75 * jnp.sum(jnp.log1p(z**2 / 2.5)),
    "wide": lambda z: -0.5 * jnp.sum((z / 1e6) ** 2),
    "spike in a slab": lambda z: (
        -0.5 * z[0] ** 2 + jnp.logaddexp(-0.5 * z[1] ** 2, -0.5 * (z[1] / 1e4) ** 2 - 11.0)
    ),
    "funnel": lambda z: -0.5 * (z[0] / 3) ** 2 - 0.5 * (z[1] ** 2 * jnp.exp(-z[0]) + z[0]),
    "cut off": lambda z: jnp.maximum(-0.5 * jnp.sum(z**2), -1e3),
    "infinite from afar": lambda z: -0.5 * z[0] ** 2 - jnp.cosh(z[1]),
}


@pytest.mark.parametrize("name", WIDE_TAILS)
def test_wide_densities_are_not(name):
    assert np.isfinite(start_of(WIDE_TAILS[name], np.zeros(2), jax.random.key(0)).elbo)
