"""The cost of a log density, counted in its program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uivi.targets import Density
from uivi.targets.cost import UNKNOWN_TURNS, operations, operations_side_by_side
from uivi.targets.traced import traced

ROWS = 1_000
X = np.ones((ROWS, 3), np.float32)


def cost(function, dim=3):
    return operations(traced(Density(function, dim)))


def test_a_matrix_product_costs_a_multiplication_for_each_entry():
    assert 3 * ROWS <= cost(lambda z: jnp.sum(X @ z)) <= 6 * ROWS


@pytest.mark.parametrize("factor", [2, 5])
def test_the_cost_grows_with_the_rows(factor):
    density = lambda rows: lambda z: -jnp.sum(jnp.logaddexp(0.0, jnp.tile(X, (rows, 1)) @ z))
    ratio = cost(density(factor)) / cost(density(1))
    assert 0.9 * factor < ratio < 1.1 * factor


def test_slow_functions_count_more():
    def with_terms(function):
        return cost(lambda z: jnp.sum(function(X @ z)))

    plain = with_terms(jnp.exp)
    assert with_terms(jax.scipy.special.gammaln) > 5 * plain
    assert with_terms(lambda x: jax.scipy.special.betainc(x, x, x)) > 50 * plain


def test_loops_count_their_turns():
    def scanned(length):
        return lambda z: jax.lax.scan(lambda c, _: (c + jnp.sum(X @ z), None), 0.0, None, length)[0]

    once = cost(scanned(1))
    assert cost(scanned(50)) > 40 * once
    unknown = lambda z: jax.lax.while_loop(lambda c: c < 10, lambda c: c + jnp.sum(X @ z), 0.0)
    assert cost(unknown) > 0.8 * UNKNOWN_TURNS * once


def test_nested_functions_and_conditions_count():
    inside = lambda z: jnp.sum(X @ z)
    assert cost(jax.jit(inside)) >= 3 * ROWS
    assert cost(lambda z: jax.lax.cond(z[0] > 0, inside, inside, z)) >= 3 * ROWS


def test_matrices_cost_their_cube():
    side = 50
    factored = lambda z: jnp.sum(jnp.linalg.cholesky(jnp.eye(side) * jnp.exp(z[0])))
    assert cost(factored) >= side**3


def test_an_untraced_target_has_no_cost():
    assert operations(Density(lambda z: jnp.sum(z), 2)) == 0


def test_side_by_side_products_cost_little():
    density = lambda z: jnp.sum(X @ z)
    assert operations_side_by_side(density, 3) < 0.5 * cost(density)
    elementwise = lambda z: jnp.sum(jnp.exp(z))
    assert 0.9 < operations_side_by_side(elementwise, 3) / cost(elementwise) < 1.1
    # What does not depend on z is computed once for all.
    assert operations_side_by_side(lambda z: jnp.sum(z) * jnp.sum(jnp.exp(X)), 3) < 0.1 * X.size
