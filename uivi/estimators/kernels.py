"""Kernels of the kernel Stein discrepancy, and their bandwidths."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Scalar


class AbstractBandwidth(eqx.Module):
    """The length h of a kernel."""

    @abc.abstractmethod
    def square(self, squares: Float[Array, "S T"]) -> Scalar:
        """Returns h², given the squared distances of all pairs of an update."""


class FixedBandwidth(AbstractBandwidth):
    """The same h in every update."""

    length: float = eqx.field(static=True)

    def __check_init__(self):
        _checks.positive_float("length", self.length)

    def square(self, squares: Float[Array, "S T"]) -> Scalar:
        """Returns h², whatever the distances."""
        return jnp.full((), self.length**2, squares.dtype)


class MedianBandwidth(AbstractBandwidth):
    """The median heuristic, h² = median of squared distances / (2 log(S + 1)), from the pairs of the update.

    It is a constant to the gradient.
    """

    def square(self, squares: Float[Array, "S T"]) -> Scalar:
        """Returns h², zero if half of the points coincide: the update is then not finite and skipped."""
        # Deviation: the authors' code differentiates the median by default, which shrinks distances to move h.
        median = jnp.median(jax.lax.stop_gradient(squares))
        return median / (2 * jnp.log(squares.shape[0] + 1.0))


class AbstractKernel(eqx.Module):
    """A positive definite kernel k(x, y) of the distance between x and y, relative to its bandwidth."""

    bandwidth: eqx.AbstractVar[AbstractBandwidth]

    @abc.abstractmethod
    def profile(self, half_squares: Float[Array, "S T"]) -> Float[Array, "S T"]:
        """Returns k, given |x - y|² / (2 h²)."""

    def __call__(self, x: Float[Array, "S D"], y: Float[Array, "T D"]) -> Float[Array, "S T"]:
        """Returns k for all pairs."""
        squares = jnp.sum((x[:, None] - y[None]) ** 2, -1)
        return self.profile(squares / (2 * self.bandwidth.square(squares)))


class GaussianKernel(AbstractKernel):
    """k(x, y) = exp(-|x - y|² / (2 h²))."""

    bandwidth: AbstractBandwidth = eqx.field(default_factory=MedianBandwidth)

    def profile(self, half_squares: Float[Array, "S T"]) -> Float[Array, "S T"]:
        """Returns the exponential."""
        return jnp.exp(-half_squares)


class InverseMultiquadric(AbstractKernel):
    """k(x, y) = (1 + |x - y|² / (2 h²))^(-1/2), whose tails are heavier."""

    bandwidth: AbstractBandwidth = eqx.field(default_factory=MedianBandwidth)

    def profile(self, half_squares: Float[Array, "S T"]) -> Float[Array, "S T"]:
        """Returns the inverse root."""
        return (1.0 + half_squares) ** -0.5
