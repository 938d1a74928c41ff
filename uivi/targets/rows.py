"""Rows of a data set inside a target."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from uivi.targets.traced import TracedFunction
from uivi.trainable import NonTrainable


class Rows(eqx.Module):
    """Rows of a data set: constants that no optimiser trains and no checkpoint holds.

    Padding lets data sets of different lengths run side by side.

    Attributes:
        stored: the rows, then padding.
        count: number of rows without the padding.
    """

    stored: NonTrainable
    count: Int[Array, ""]

    @classmethod
    def create(cls, rows: np.ndarray, pad_to: int | None = None) -> "Rows":
        """Checks `rows` and keeps them in JAX's own types, padded with zeros to `pad_to` rows."""
        rows = np.asarray(rows)
        if rows.ndim < 1 or rows.shape[0] == 0:
            raise ValueError(f"expected at least one row of data, got an array of shape {rows.shape}")
        if not (np.issubdtype(rows.dtype, np.number) or rows.dtype == bool) or np.iscomplexobj(rows):
            raise TypeError(f"expected rows of real numbers, got {rows.dtype}: encode them first")
        if rows.dtype == bool:
            rows = rows.astype(np.uint8)
        elif np.issubdtype(rows.dtype, np.floating):
            if not np.all(np.isfinite(rows)):
                raise ValueError("expected finite data, got NaN or infinity: clean or impute the rows first")
        elif rows.dtype != jax.dtypes.canonicalize_dtype(rows.dtype) and np.abs(rows).max() >= 2**31:
            raise ValueError("expected whole numbers below 2^31 in size: rescale the rows first")
        missing = 0 if pad_to is None else pad_to - rows.shape[0]
        if missing < 0:
            raise ValueError(f"expected at most pad_to={pad_to} rows, got {rows.shape[0]}")
        padded = np.pad(rows, [(0, missing)] + [(0, 0)] * (rows.ndim - 1))
        kept = padded.astype(jax.dtypes.canonicalize_dtype(padded.dtype))
        return cls(NonTrainable(jnp.asarray(kept)), jnp.asarray(rows.shape[0], jnp.int32))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the rows, padding included."""
        return self.stored.value.shape

    def __getitem__(self, index) -> Array:
        """Returns the rows at `index`."""
        return self.stored()[index]


def split_data(tree: PyTree) -> tuple[PyTree, PyTree]:
    """Splits a tree into the arrays that belong to a fit, and the rest: data and static parts.

    `eqx.combine` joins the two again.
    """
    is_data = lambda node: isinstance(node, Rows | TracedFunction)
    belongs = lambda node: not is_data(node) and eqx.is_array(node)
    return eqx.partition(tree, jax.tree.map(belongs, tree, is_leaf=is_data))
