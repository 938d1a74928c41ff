"""Tests the leapfrog integrator on a harmonic oscillator and by its symmetries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uivi._leapfrog import Point, leapfrog

SCALE = np.array([0.5, 1.0, 2.0])


def evaluate(position):
    """Returns the point of independent normals at a position."""
    log_density = lambda x: -0.5 * jnp.sum((x / jnp.asarray(SCALE, x.dtype)) ** 2)
    value, gradient = jax.value_and_grad(log_density)(position)
    return Point(position, gradient, value)


def start():
    return evaluate(jnp.array([0.3, -1.1, 0.7])), jnp.array([0.9, -0.2, -1.4])


def run(point, momentum, step, num_steps, *, unroll=False):
    return jax.jit(lambda p, m: leapfrog(p, m, jnp.asarray(step), num_steps, evaluate, unroll=unroll))(
        point, momentum
    )


def test_it_follows_the_exact_orbit(x64):
    """Each coordinate turns by the angle time / scale; the error is of second order in the step."""
    (point, momentum), time = start(), 1.5
    angle = time / SCALE
    exact = np.cos(angle) * point.position + np.sin(angle) * SCALE * momentum
    errors = [
        np.max(np.abs(run(point, momentum, time / num, num)[0].position - exact)) for num in (30, 60, 120)
    ]
    assert errors[2] < 1e-3
    np.testing.assert_allclose(np.array(errors[:-1]) / errors[1:], 4.0, rtol=0.05)


def test_it_is_reversible(x64):
    point, momentum = start()
    end, end_momentum = run(point, momentum, 0.3, 7)
    back, back_momentum = run(end, -end_momentum, 0.3, 7)
    np.testing.assert_allclose(back.position, point.position, atol=1e-12)
    np.testing.assert_allclose(-back_momentum, momentum, atol=1e-12)


def test_it_preserves_volume(x64):
    point, momentum = start()

    def flow(state):
        end, end_momentum = leapfrog(evaluate(state[:3]), state[3:], jnp.asarray(0.4), 3, evaluate)
        return jnp.concatenate([end.position, end_momentum])

    jacobian = jax.jacobian(flow)(jnp.concatenate([point.position, momentum]))
    np.testing.assert_allclose(jnp.linalg.det(jacobian), 1.0, atol=1e-12)


def test_the_end_is_evaluated_and_its_value_travels_along():
    end = run(*start(), 0.3, 4)[0]
    for found, expected in zip(end, evaluate(end.position), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("num_steps", [0, 1, 5])
def test_unrolling_and_cutting_a_trajectory_change_nothing(num_steps):
    whole = run(*start(), 0.3, num_steps)
    unrolled = run(*start(), 0.3, num_steps, unroll=True)
    parts = run(*run(*start(), 0.3, num_steps // 2), 0.3, num_steps - num_steps // 2)
    for other in (unrolled, parts):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), whole, other)


def test_no_step_returns_the_start():
    jax.tree.map(np.testing.assert_array_equal, run(*start(), 0.3, 0), start())


def test_each_step_costs_one_evaluation():
    calls = []

    def counted(position):
        jax.debug.callback(lambda: calls.append(1))
        return evaluate(position)

    end = leapfrog(*start(), jnp.asarray(0.1), 6, counted)
    jax.block_until_ready(end)
    jax.effects_barrier()
    assert len(calls) == 6
