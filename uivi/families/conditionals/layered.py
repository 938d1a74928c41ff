"""Coordinates that shift and scale one another, behind any conditional."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Key, Latent, Scalar
from uivi.families.conditionals.base import AbstractConditional
from uivi.families.conditionals.mapped import AbstractMapped
from uivi.families.conditionals.sheared import first_networks, halves, layers, network_of

SLOWER = 0.3
"""How fast scales change compared with shifts: a step of Adam moves both by the same amount."""


class Layered(AbstractMapped):
    """Passes the inner draw w through affine coupling layers (Dinh, Sohl-Dickstein & Bengio 2017).

    A layer splits the coordinates into two groups. A small network of the first shifts the second, and scales
    it by at most exp(bound) either way. Every layer has other groups. The map starts at the identity. Shifts
    bend q as those of `Sheared` do; scales let it narrow and widen, as a funnel does. Without the bound they
    run away.

    Attributes:
        inner: the conditional of w.
        hidden: weights of each layer's hidden units, which take the first group of coordinates.
        bias: their biases.
        out: weights from the hidden units to the shifts of the second group, then to its log scales.
        bound: largest size of a log scale in a layer.
    """

    inner: AbstractConditional
    hidden: Float[Array, "L H A"]
    bias: Float[Array, "L H"]
    out: Float[Array, "L F H"]
    bound: float = eqx.field(static=True, default=2.0)

    def __check_init__(self):
        dim, first = self.inner.dim, self.inner.dim // 2
        number, width = self.bias.shape
        advice = "the first half of the coordinates, rounded down, shifts and scales the others"
        _checks.shape("`hidden`", self.hidden, (number, width, first), advice)
        _checks.shape("`out`", self.out, (number, 2 * (dim - first), width), advice)
        _checks.positive_float("bound", self.bound)

    @classmethod
    def create(cls, key: Key, inner: AbstractConditional, *, num_layers: int = 6, width: int = 32) -> "Layered":
        """Wraps `inner`, starting at the identity.

        Args:
            key: random key of the hidden units.
            inner: the conditional to wrap.
            num_layers: number of layers, L.
            width: number of hidden units in each layer, H.
        """
        return cls(inner, *first_networks(key, inner.dim, num_layers, width, outputs=2))

    def move(self, w: Latent) -> Latent:
        """Applies the layers."""

        def apply(x: Latent, layer: tuple[Array, ...]) -> tuple[Latent, None]:
            order, back, *network = layer
            still, moved = halves(x[order])
            shift, log_scale = self._parameters(still, *network)
            return jnp.concatenate([still, jnp.exp(log_scale) * moved + shift])[back], None

        return jax.lax.scan(apply, w, layers(self.dim, self.hidden, self.bias, self.out))[0]

    def undo(self, z: Latent) -> tuple[Latent, Scalar]:
        """Undoes the layers, the last one first. The log determinant is the sum of all log scales."""

        def undo(carry: tuple[Latent, Scalar], layer: tuple[Array, ...]) -> tuple[tuple[Latent, Scalar], None]:
            (x, log_det), (order, back, *network) = carry, layer
            still, moved = halves(x[order])
            shift, log_scale = self._parameters(still, *network)
            x = jnp.concatenate([still, jnp.exp(-log_scale) * (moved - shift)])[back]
            return (x, log_det + jnp.sum(log_scale)), None

        every = layers(self.dim, self.hidden, self.bias, self.out)
        return jax.lax.scan(undo, (z, jnp.zeros((), z.dtype)), every, reverse=True)[0]

    def _parameters(
        self, x: Float[Array, "A"], hidden: Array, bias: Array, out: Array
    ) -> tuple[Float[Array, "B"], Float[Array, "B"]]:
        """Returns shifts and log scales of the second group, given the first."""
        shift, raw = jnp.split(network_of(x, hidden, bias, out), 2)
        raw = SLOWER * raw
        return shift, raw * jax.lax.rsqrt(1 + (raw / self.bound) ** 2)
