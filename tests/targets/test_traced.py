"""Functions that are traced once: programs are equal if they compute the same, and data are their arguments."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uivi.targets import Density
from uivi.targets.rows import split_data
from uivi.targets.toys import Banana
from uivi.targets.traced import TracedFunction, TracedTarget, traced

VECTOR = jax.ShapeDtypeStruct((3,), jnp.float32)


def density_of(data):
    return lambda z: -jnp.sum((z - data) ** 2)


def program(function, owner="same"):
    return TracedFunction.create(function, VECTOR, owner).program


def test_it_computes_what_the_function_computes(getkey):
    scale = jnp.array([1.0, 2.0, 3.0])
    function = lambda z: {"a": jnp.sum(scale * z), "b": (jnp.logaddexp(z[0], z[1]), z)}
    made = TracedFunction.create(function, VECTOR)
    z = jax.random.normal(getkey(), (3,))
    jax.tree.map(np.testing.assert_allclose, made(z), function(z))
    slope = lambda f: jax.grad(lambda z: f(z)["a"] + f(z)["b"][0])(z)
    np.testing.assert_allclose(slope(made), slope(function), rtol=1e-6)


def test_other_data_of_the_same_shape_give_the_same_program():
    first, second = jnp.zeros(3), jnp.ones(3)
    one, two = (TracedFunction.create(density_of(data), VECTOR, "same") for data in (first, second))
    assert one.program == two.program
    assert hash(one.program) == hash(two.program)
    np.testing.assert_array_equal(two.constants[0](), second)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda z: -jnp.sum(z**4), id="another power"),
        pytest.param(lambda z: -2.0 * jnp.sum(z**2), id="another number"),
        pytest.param(lambda z: -jnp.sum(z**2)[None], id="another shape"),
        pytest.param(lambda z: (-jnp.sum(z**2),), id="another structure"),
    ],
)
def test_another_computation_is_another_program(other):
    assert program(lambda z: -jnp.sum(z**2)) == program(lambda z: -jnp.sum(z**2))
    assert program(lambda z: -jnp.sum(z**2)) != program(other)


def test_functions_of_other_owners_are_not_the_same():
    """Their text may hide a difference, such as another derivative rule of the same name."""
    assert program(jnp.sum, "one") != program(jnp.sum, "other")


def test_constants_of_nested_calls_are_compared():
    def with_inner(data):
        inner = jax.jit(lambda z: jnp.sum(z * data))
        return lambda z: inner(z) + 1.0

    first, second = jnp.zeros(3), jnp.ones(3)
    assert program(with_inner(first)) != program(with_inner(second))


def test_a_changed_global_is_seen():
    """A compiled function would keep the old value."""
    state = {"scale": 1.0}
    function = lambda z: -state["scale"] * jnp.sum(z**2)
    target = Density(function, 3)
    before = traced(target).log_density(jnp.ones(3))
    state["scale"] = 2.0
    assert traced(target).log_density(jnp.ones(3)) == 2 * before


def test_a_target_is_traced_if_it_is_one_density():
    assert isinstance(traced(Density(jnp.sum, 3)), TracedTarget)
    toy = Banana()
    assert traced(toy) is toy
    made = traced(Density(jnp.sum, 3))
    assert traced(made) is made


def test_its_data_are_not_part_of_a_checkpoint():
    made = traced(Density(density_of(jnp.arange(3.0)), 3))
    fitted, data = split_data(made)
    assert not jax.tree.leaves(eqx.filter(fitted, eqx.is_array))
    assert len(jax.tree.leaves(eqx.filter(data, eqx.is_array))) == 1
