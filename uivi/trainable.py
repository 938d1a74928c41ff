"""Which arrays a fit trains: every inexact array of a tree, except those inside `NonTrainable` or `Frozen`."""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, PyTree, Shaped


class NonTrainable(eqx.Module):
    """An array that no optimiser trains: data, or a constant of a family. Call it to get the array.

    The array stays a leaf of the tree, so it is stacked, moved between devices and saved like any other.

    Examples:
        >>> import jax.numpy as jnp
        >>> from uivi.trainable import NonTrainable
        >>> NonTrainable(jnp.arange(3))()
        Array([0, 1, 2], dtype=int32)
    """

    value: Shaped[Array, "..."]

    def __call__(self) -> Shaped[Array, "..."]:
        """Returns the array, with its gradient stopped."""
        return jax.lax.stop_gradient(self.value)


class Frozen(eqx.Module):
    """A whole tree that no optimiser trains. Call it to get the tree.

    Examples:
        >>> import jax.numpy as jnp
        >>> from uivi.trainable import Frozen
        >>> Frozen.create({"weight": jnp.arange(3)})()["weight"]
        Array([0, 1, 2], dtype=int32)
    """

    leaves: tuple[Any, ...]
    structure: Any = eqx.field(static=True)

    @classmethod
    def create(cls, tree: PyTree) -> "Frozen":
        """Wraps every array of `tree`."""
        leaves, structure = jax.tree.flatten(tree)
        return cls(tuple(NonTrainable(x) if eqx.is_array(x) else x for x in leaves), structure)

    def __call__(self) -> PyTree:
        """Returns the tree, with its gradient stopped."""
        leaves = [x() if isinstance(x, NonTrainable) else x for x in self.leaves]
        return jax.tree.unflatten(self.structure, leaves)


def partition_trained(tree: PyTree) -> tuple[PyTree, PyTree]:
    """Splits a tree into its trained arrays and everything else; `eqx.combine` joins the two again."""
    return eqx.partition(tree, _mask(tree))


def trained(tree: PyTree) -> PyTree:
    """Returns the trained arrays of a tree, with None in place of everything else."""
    return eqx.filter(tree, _mask(tree))


def _mask(tree: PyTree) -> PyTree:
    """A prefix of `tree`: True for a trained array, False for any other leaf and for a whole `NonTrainable`."""
    is_wrapped = lambda node: isinstance(node, NonTrainable)
    is_trained = lambda node: not is_wrapped(node) and eqx.is_inexact_array(node)
    return jax.tree.map(is_trained, tree, is_leaf=is_wrapped)
