"""Coordinates that shift one another, behind any conditional."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from uivi import _checks
from uivi._types import Key, Latent, Scalar
from uivi.families.conditionals.base import AbstractConditional
from uivi.families.conditionals.mapped import AbstractMapped


class Sheared(AbstractMapped):
    """Passes the inner draw w through additive coupling layers (Dinh, Krueger & Bengio 2015).

    A layer splits the coordinates into two groups and shifts the second by a small network of the first. Every
    layer has other groups. The map keeps volumes and starts at the identity. It bends q along all D coordinates
    and between any of them, whereas the mixture over ε can bend only as many directions as ε has.

    Attributes:
        inner: the conditional of w.
        hidden: weights of each layer's hidden units, which take the first group of coordinates.
        bias: their biases.
        out: weights from the hidden units to the shift of the second group.
    """

    inner: AbstractConditional
    hidden: Float[Array, "L H A"]
    bias: Float[Array, "L H"]
    out: Float[Array, "L B H"]

    def __check_init__(self):
        dim, first = self.inner.dim, self.inner.dim // 2
        number, width = self.bias.shape
        advice = "the first half of the coordinates, rounded down, shifts the others"
        _checks.shape("`hidden`", self.hidden, (number, width, first), advice)
        _checks.shape("`out`", self.out, (number, dim - first, width), advice)

    @classmethod
    def create(cls, key: Key, inner: AbstractConditional, *, num_layers: int = 6, width: int = 64) -> "Sheared":
        """Wraps `inner`, starting at the identity.

        Args:
            key: random key of the hidden units.
            inner: the conditional to wrap.
            num_layers: number of layers, L.
            width: number of hidden units in each layer, H.
        """
        return cls(inner, *first_networks(key, inner.dim, num_layers, width))

    def move(self, w: Latent) -> Latent:
        """Applies the layers."""

        def apply(x: Latent, layer: tuple[Array, ...]) -> tuple[Latent, None]:
            order, back, *network = layer
            still, moved = halves(x[order])
            return jnp.concatenate([still, moved + network_of(still, *network)])[back], None

        return jax.lax.scan(apply, w, layers(self.dim, self.hidden, self.bias, self.out))[0]

    def undo(self, z: Latent) -> tuple[Latent, Scalar]:
        """Undoes the layers, the last one first. A shift keeps volumes: the log determinant is zero."""

        def undo(x: Latent, layer: tuple[Array, ...]) -> tuple[Latent, None]:
            order, back, *network = layer
            still, moved = halves(x[order])
            return jnp.concatenate([still, moved - network_of(still, *network)])[back], None

        every = layers(self.dim, self.hidden, self.bias, self.out)
        return jax.lax.scan(undo, z, every, reverse=True)[0], jnp.zeros((), z.dtype)


def first_networks(
    key: Key, dim: int, num_layers: int, width: int, outputs: int = 1
) -> tuple[Float[Array, "L H A"], Float[Array, "L H"], Float[Array, "L F H"]]:
    """Returns random hidden weights, zero biases, and zero weights of the outputs for each moved coordinate."""
    number, width = _checks.positive_int("num_layers", num_layers), _checks.positive_int("width", width)
    first = dim // 2
    hidden = jax.random.normal(key, (number, width, first)) * max(first, 1) ** -0.5
    return hidden, jnp.zeros((number, width)), jnp.zeros((number, outputs * (dim - first), width))


def layers(dim: int, *networks: Array) -> tuple[Array, ...]:
    """Returns the order of the coordinates in each layer, the order back, and the layers' networks."""
    every = orders(len(networks[0]), dim)
    return jnp.asarray(every), jnp.asarray(np.argsort(every, 1)), *networks


def network_of(x: Float[Array, "A"], hidden: Array, bias: Array, out: Array) -> Float[Array, "B"]:
    """Returns the outputs of a layer's network."""
    # Near zero SiLU is almost a parabola, which is what a slight skew needs; far out it is linear. In a step of
    # Adam all units may change together: divided by √H, the outputs change no more if there are many of them.
    return jax.nn.silu(x @ hidden.T + bias) @ out.T * len(bias) ** -0.5


def halves(x: Latent) -> tuple[Float[Array, "A"], Float[Array, "B"]]:
    """Returns the first half of the coordinates, rounded down, and the others."""
    first = len(x) // 2
    return x[:first], x[first:]


def orders(num_layers: int, dim: int) -> Int[np.ndarray, "L D"]:
    """Returns random orders, in pairs: the groups of a layer change places in the next one."""
    rng = np.random.default_rng(0)
    pairs = [rng.permutation(dim) for _ in range((num_layers + 1) // 2)]
    return np.stack([order[::step] for order in pairs for step in (1, -1)][:num_layers])
