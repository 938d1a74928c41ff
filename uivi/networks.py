"""Multilayer perceptrons from noise (and context) to the parameters of a conditional."""

import itertools
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Context, Key, Noise


@runtime_checkable
class Initialiser(Protocol):
    """Draws the first weight matrix, shape (num_out, num_in), and bias of a layer."""

    def __call__(self, key: Key, num_in: int, num_out: int, *, is_output: bool) -> tuple[Array, Array]:
        """Draws weight and bias."""
        ...


def authors_init(key: Key, num_in: int, num_out: int, *, is_output: bool) -> tuple[Array, Array]:
    """Draws weights and biases like Titsias & Ruiz's MATLAB: N(0, 1/num_out), and N(0, 1) for the output."""
    weight_key, bias_key = jax.random.split(key)
    scale = 1.0 if is_output else num_out**-0.5
    weight = scale * jax.random.normal(weight_key, (num_out, num_in))
    return weight, scale * jax.random.normal(bias_key, (num_out,))


def he_init(key: Key, num_in: int, num_out: int, *, is_output: bool) -> tuple[Array, Array]:
    """Draws ReLU layers like He et al. (2015) and the linear output like LeCun, with zero biases."""
    scale = ((1.0 if is_output else 2.0) / num_in) ** 0.5
    return scale * jax.random.normal(key, (num_out, num_in)), jnp.zeros((num_out,))


def small_init(key: Key, num_in: int, num_out: int, *, is_output: bool) -> tuple[Array, Array]:
    """Draws like `he_init`, the output layer ten times smaller: the net starts near its skip connection."""
    weight, bias = he_init(key, num_in, num_out, is_output=is_output)
    return (0.1 if is_output else 1.0) * weight, bias


class Linear(eqx.Module):
    """An affine layer."""

    weight: Float[Array, "out in"]
    bias: Float[Array, "out"]

    def __call__(self, x: Float[Array, "in"]) -> Float[Array, "out"]:
        """Applies the layer to one vector."""
        # Mapped over many x, this order gives rows of outputs; the other gives columns, and a transpose.
        return x @ self.weight.T + self.bias


class MLP(eqx.Module):
    """A perceptron with `depth` hidden layers, whose first layer takes the noise and the context.

    The first layer is `noise_layer(ε) + context_weight @ x`, so `bind(x)` folds the context into the bias once
    per update instead of once per evaluation. An optional skip connection adds a linear map of ε to the first
    outputs.
    """

    layers: tuple[Linear, ...]
    context_weight: Float[Array, "H C"] | None
    skip: Float[Array, "J E"] | None
    activation: Callable = eqx.field(static=True)

    def __check_init__(self):
        sizes = [(layer.weight.shape, layer.bias.shape) for layer in self.layers]
        if not sizes or any(len(weight) != 2 or bias != weight[:1] for weight, bias in sizes):
            raise ValueError(f"expected layers with weights (out, in) and biases (out,), got {sizes}")
        if any(after[0][1] != before[0][0] for before, after in itertools.pairwise(sizes)):
            raise ValueError(f"expected each layer to take the outputs of the one before, got {sizes}")
        if self.skip is not None and not (
            self.skip.shape[0] <= self.out_dim and self.skip.shape[1:] == (self.noise_dim,)
        ):
            raise ValueError(
                f"expected `skip` of shape (J, {self.noise_dim}) with J of at most {self.out_dim}, got "
                f"{self.skip.shape}: it maps the noise to the first J outputs"
            )

    @classmethod
    def create(
        cls,
        key: Key,
        noise_dim: int,
        out_dim: int,
        *,
        context_dim: int = 0,
        width: int = 50,
        depth: int = 2,
        init: Initialiser = he_init,
        activation: Callable = jax.nn.relu,
        skip: Float[Array, "J E"] | None = None,
    ) -> "MLP":
        """Draws the initial weights.

        Args:
            key: random key.
            noise_dim: size of the noise, E.
            out_dim: number of outputs.
            context_dim: size of the context, C; 0 for a network without context.
            width: number of units in each hidden layer.
            depth: number of hidden layers.
            init: `authors_init`, `he_init`, `small_init` or your own.
            activation: elementwise activation.
            skip: initial matrix of the skip connection, or None for no connection.
        """
        for name, value in (("noise_dim", noise_dim), ("out_dim", out_dim), ("width", width)):
            _checks.positive_int(name, value)
        sizes = (
            noise_dim + context_dim,
            *([width] * _checks.positive_int("depth", depth)),
            out_dim,
        )
        keys = jax.random.split(key, len(sizes) - 1)
        last = len(sizes) - 2
        layers = [
            Linear(*init(k, n, m, is_output=i == last))
            for i, (k, n, m) in enumerate(zip(keys, sizes[:-1], sizes[1:], strict=True))
        ]
        first, context_weight = layers[0], None
        if context_dim:
            context_weight = first.weight[:, noise_dim:]
            layers[0] = Linear(first.weight[:, :noise_dim], first.bias)
        return cls(tuple(layers), context_weight, skip, activation)

    @property
    def noise_dim(self) -> int:
        """Size of the noise, E."""
        return self.layers[0].weight.shape[1]

    @property
    def out_dim(self) -> int:
        """Number of outputs."""
        return self.layers[-1].weight.shape[0]

    @property
    def context_dim(self) -> int:
        """Size of the context, C; 0 for a network without context."""
        return 0 if self.context_weight is None else self.context_weight.shape[1]

    def bind(self, context: Context) -> "MLP":
        """Returns the network of ε alone, with the context folded into the bias of the first layer."""
        if self.context_weight is None:
            return self
        if context is None:
            raise ValueError(f"expected a context of shape ({self.context_dim},), got None")
        first = self.layers[0]
        folded = Linear(first.weight, first.bias + self.context_weight @ context)
        return MLP((folded, *self.layers[1:]), None, self.skip, self.activation)

    def features(self, eps: Noise, context: Context = None) -> Float[Array, "F"]:
        """Returns the last hidden layer, followed by ε if there is a skip connection.

        The outputs are affine in these features.
        """
        hidden = eps
        for layer in self.bind(context).layers[:-1]:
            hidden = self.activation(layer(hidden))
        return hidden if self.skip is None else jnp.concatenate([hidden, eps])

    @property
    def readout(self) -> Linear:
        """The affine map from the features to the outputs."""
        last = self.layers[-1]
        if self.skip is None:
            return last
        below = ((0, self.out_dim - self.skip.shape[0]), (0, 0))
        return Linear(jnp.concatenate([last.weight, jnp.pad(self.skip, below)], 1), last.bias)

    def __call__(self, eps: Noise, context: Context = None) -> Float[Array, "out"]:
        """Applies the network to one ε and one context."""
        return self.readout(self.features(eps, context))
