"""Random chains with a collapsed density, and their force as the kernel rounds it."""

import functools

import jax
import jax.numpy as jnp

from tests.gpu.kernel_inputs import chains_and_layers, drawing, float16
from uivi.gpu import CollapsedInputs
from uivi.gpu.collapsed import _unscale


@functools.partial(jax.jit, static_argnums=1)
def make_collapsed(key, shape, step=0.3, sharpness=1.0) -> CollapsedInputs:
    """Chains that start in stationarity; shape is (T, N, E, H, D).

    The readout A has elements of size `sharpness` / sqrt(H), and z given ε is N(A φ(ε), I).
    """
    _, num_chains, _, width, latent = shape
    normal, uniforms = drawing(key)
    readout = normal(sharpness * width**-0.5, latent, width)
    inputs = CollapsedInputs(
        **chains_and_layers(normal, uniforms, shape, step),
        origin=jnp.zeros((num_chains, width)),
        slope=jnp.matmul(normal(1.0, num_chains, latent), readout, precision="highest"),
        gram=jnp.matmul(readout.T, readout, precision="highest"),
    )
    return inputs._replace(origin=jax.nn.relu(layers(inputs, inputs.eps, jnp.matmul)[1]))


def layers(inputs, eps, product):
    first = product(eps, inputs.w1.T) + inputs.first_bias
    return first, product(jax.nn.relu(first), inputs.w2.T) + inputs.b2[None]


def collapsed_force(inputs, rounded=float16):
    """In the kernel's order and scale, the factors of the backward pass rounded."""
    product = lambda x, weight: rounded(x) @ rounded(weight)
    unscale = _unscale(inputs.gram[None])[0]

    def force(eps, is_end):
        del is_end
        first, second = layers(inputs, eps, jnp.matmul)
        bent = (jax.nn.relu(second) - inputs.origin) @ inputs.gram
        back = jnp.where(second > 0, (inputs.slope - bent) / unscale, 0.0)
        back = jnp.where(first > 0, product(back, inputs.w2), 0.0)
        return product(back, inputs.w1) * unscale - eps

    return force


def residual_moments(inputs, moves):
    """For each chain: ε', its square, and the squared standardised slope there, with variance 1.

    (ε, z) starts at the joint; moves that leave q(ε|z) invariant keep it there, and with it the law of
    slope - gram δ, the residual seen through the readout.
    """
    eps = moves.eps[-1]
    change = jax.nn.relu(layers(inputs, eps, jnp.matmul)[1]) - inputs.origin
    seen = (inputs.slope - change @ inputs.gram) / jnp.sqrt(jnp.diag(inputs.gram))[None]
    return jnp.concatenate([eps, eps**2, seen[:, :4] ** 2], 1)
