"""Which arrays are trained: all inexact ones but those that are wrapped, whatever their type."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uivi.trainable import Frozen, NonTrainable, partition_trained, trained


class Holder(eqx.Module):
    weight: jax.Array
    constant: NonTrainable
    count: jax.Array
    name: str = eqx.field(static=True, default="held")


def make(dtype=jnp.float32):
    return Holder(jnp.ones(2), NonTrainable(jnp.arange(3).astype(dtype)), jnp.zeros((), jnp.int32))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.bfloat16, jnp.int8, jnp.bool_, jnp.complex64])
def test_a_wrapped_array_of_any_type_is_not_trained_and_comes_back(dtype):
    holder = make(dtype)
    assert [x.shape for x in jax.tree.leaves(trained(holder))] == [(2,)]
    found = holder.constant()
    assert found.dtype == dtype
    assert np.array_equal(found, jnp.arange(3).astype(dtype))


def test_a_plain_array_is_trained():
    """The control: without the wrapper the same array would be trained."""
    assert len(jax.tree.leaves(trained({"weight": jnp.ones(2), "constant": jnp.ones(3)}))) == 2


def test_the_parts_join_to_the_whole():
    holder = make()
    assert eqx.tree_equal(eqx.combine(*partition_trained(holder)), holder)
    assert not jax.tree.leaves(trained(partition_trained(holder)[1]))


def test_no_gradient_reaches_a_wrapped_array():
    loss = lambda holder: jnp.sum(holder.constant() ** 2) + jnp.sum(holder.weight**2)
    gradient = eqx.filter_grad(loss)(make())
    assert not np.any(gradient.constant.value)
    assert np.all(gradient.weight == 2)


def test_a_frozen_tree_comes_back_whole_and_is_not_trained():
    """What was wrapped in it stays so; random keys and functions are no obstacle."""
    tree = {"holder": make(), "key": jax.random.key(0), "function": jnp.sin}
    frozen = Frozen.create(tree)
    assert not jax.tree.leaves(trained(frozen))
    assert eqx.tree_equal(frozen(), tree)
    again = jax.tree.unflatten(jax.tree.structure(frozen), jax.tree.leaves(frozen))
    assert eqx.tree_equal(again(), tree)


def test_no_gradient_reaches_a_frozen_tree():
    loss = lambda frozen, x: jnp.sum(x * frozen()["weight"] ** 2)
    tree = Frozen.create({"weight": jnp.arange(3.0)})
    assert not np.any(eqx.filter_grad(loss)(tree, 2.0).leaves[0].value)
    assert jax.grad(loss, 1)(tree, 2.0) == 5
