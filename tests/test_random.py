"""Random numbers with their rounds written out are JAX's own, under every transformation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uivi._random import normal, written_out

DRAWS = {
    "split": lambda key: jax.random.key_data(jax.random.split(key, 5)),
    "split in two axes": lambda key: jax.random.key_data(jax.random.split(key, (2, 3))),
    "fold_in": lambda key: jax.random.key_data(jax.random.fold_in(key, np.int32(-7))),
    "normal": lambda key: jax.random.normal(key, (3, 5)),
    "gumbel": lambda key: jax.random.gumbel(key, (7,)),
    "bits": lambda key: jax.random.bits(key, (5,), jnp.uint8),
    "integers": lambda key: jax.random.randint(key, (5,), 0, 1_000),
    "permutation": lambda key: jax.random.permutation(key, 10),
    "gamma": lambda key: jax.random.gamma(key, 2.3, (5,)),
    "many keys": lambda key: jax.vmap(lambda k: jax.random.normal(k, (3,)))(jax.random.split(key, 4)),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_they_are_those_of_jax(draw):
    key = jax.random.key(3)
    np.testing.assert_array_equal(draw(written_out(key)), draw(key))
    np.testing.assert_array_equal(jax.jit(lambda k: draw(written_out(k)))(key), draw(key))
    other = jax.random.key(4)
    assert not np.array_equal(draw(written_out(other)), draw(key)), "the control: another key"


def test_they_are_those_of_jax_in_float64(x64):
    key = jax.random.key(3)
    np.testing.assert_array_equal(jax.random.normal(written_out(key), (3,)), jax.random.normal(key, (3,)))


@pytest.mark.parametrize("change", [written_out, lambda key: key], ids=["written out", "plain"])
def test_normal_numbers_computed_once_are_the_same(change):
    key = jax.random.key(3)
    np.testing.assert_allclose(normal(change(key), (3, 5)), jax.random.normal(key, (3, 5)), rtol=1e-6)
    keys = jax.random.split(key, 4)
    many = jax.jit(jax.vmap(lambda k: normal(change(k), (3,))))(keys)
    np.testing.assert_allclose(many, jax.vmap(lambda k: jax.random.normal(k, (3,)))(keys), rtol=1e-6)


def test_a_derivative_passes_by_normal_numbers():
    key = written_out(jax.random.key(3))
    grad = jax.grad(lambda scale: jnp.sum(scale * normal(key, (3,))))(2.0)
    np.testing.assert_allclose(grad, jnp.sum(normal(key, (3,))), rtol=1e-6)


def test_another_generator_is_left_alone():
    key = jax.random.key(3, impl="rbg")
    assert written_out(key) is key
