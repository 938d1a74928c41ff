"""A few directions of their own scale, behind any conditional: a covariance of low rank plus a diagonal."""

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Latent, Scalar
from uivi.families.conditionals.base import AbstractConditional
from uivi.families.conditionals.mapped import AbstractMapped
from uivi.trainable import NonTrainable

Vectors = TypeVar("Vectors", Array, np.ndarray)


class Stretched(AbstractMapped):
    """z = w + Q ((s - 1) ∘ Qᵀ w) with w ~ inner(ε): w is stretched by s along the columns of Q.

    The columns are orthonormal, or zero. Nothing of the map is trained, and nothing in it is of size D². Around
    it, `Standardised` with a diagonal gives z a covariance of low rank plus a diagonal.

    Attributes:
        inner: the conditional of w.
        basis: Q.
        factors: s, positive.
    """

    inner: AbstractConditional
    basis: NonTrainable
    factors: NonTrainable

    def __check_init__(self):
        rank = jnp.size(self.factors.value)
        _checks.shape("`factors`", self.factors.value, (rank,), "one number for each direction")
        _checks.shape("`basis`", self.basis.value, (self.inner.dim, rank), "one column for each of `factors`")

    @classmethod
    def on(cls, inner: AbstractConditional, stretch: "Stretch") -> "Stretched":
        """Wraps `inner`."""
        return cls(inner, *(NonTrainable(jnp.asarray(x)) for x in stretch))

    @property
    def stretch(self) -> "Stretch":
        """The directions and their factors."""
        return Stretch(self.basis(), self.factors())

    def move(self, w: Latent) -> Latent:
        """Stretches an inner draw."""
        return self.stretch.times(w)

    def undo(self, z: Latent) -> tuple[Latent, Scalar]:
        """Undoes the stretch. The log determinant is the sum of the log factors."""
        return self.stretch.inverse().times(z), jnp.sum(jnp.log(self.factors()))


class Stretch(NamedTuple):
    """The matrix I + Q diag(s - 1) Qᵀ.

    Attributes:
        basis: Q, with orthonormal columns, or columns of zeros.
        factors: s, positive.
    """

    basis: Float[Array, "D R"] | Float[np.ndarray, "D R"]
    factors: Float[Array, "R"] | Float[np.ndarray, "R"]

    @classmethod
    def none(cls, dim: int, rank: int) -> "Stretch":
        """Returns the identity, in the shapes of a stretch."""
        return cls(np.zeros((dim, rank)), np.ones(rank))

    def on_device(self) -> "Stretch":
        """Returns it in JAX's precision."""
        dtype = jax.dtypes.canonicalize_dtype(np.float64)
        return Stretch(*(jax.device_put(np.asarray(x, dtype)) for x in self))

    def inverse(self) -> "Stretch":
        """Returns the inverse."""
        return Stretch(self.basis, 1 / self.factors)

    def times(self, w: Vectors) -> Vectors:
        """Multiplies a vector, or the rows of a matrix."""
        return w + ((w @ self.basis) * (self.factors - 1)) @ self.basis.T
