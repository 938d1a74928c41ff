"""Random chains with a collapsed density, and their force as the kernel rounds it."""

import functools

import jax
import jax.numpy as jnp

from tests.kernel_inputs import float16
from uivi.kernels import CollapsedInputs
from uivi.kernels.collapsed import _unscale


@functools.partial(jax.jit, static_argnums=1)
def make_collapsed(key, shape, step=0.3, sharpness=1.0) -> CollapsedInputs:
    """Chains that start in stationarity; shape is (T, N, E, H, D).

    The readout A has elements of size `sharpness` / sqrt(H), and z given ε is N(A φ(ε), I).
    """
    num_moves, num_chains, noise, width, latent = shape
    keys = iter(jax.random.split(key, 12))
    normal = lambda scale, *shape: scale * jax.random.normal(next(keys), shape)
    readout = normal(sharpness * width**-0.5, latent, width)
    inputs = CollapsedInputs(
        eps=normal(1.0, num_chains, noise),
        momenta=normal(1.0, num_moves, num_chains, noise),
        uniforms=jax.random.uniform(next(keys), (num_moves, num_chains)),
        step=jnp.asarray(step),
        first_bias=normal(0.3, num_chains, width),
        w1=normal((2 / noise) ** 0.5, width, noise),
        w2=normal((2 / width) ** 0.5, width, width),
        b2=normal(0.3, width),
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
    """Of each chain: ε', its square, and the standardised slope there, whose variance is the Gram matrix's.

    (ε, z) starts at the joint; moves that leave q(ε|z) invariant keep it there, and with it the law of
    slope - gram δ, the residual seen through the readout.
    """
    eps = moves.eps[-1]
    change = jax.nn.relu(layers(inputs, eps, jnp.matmul)[1]) - inputs.origin
    seen = (inputs.slope - change @ inputs.gram) / jnp.sqrt(jnp.diag(inputs.gram))[None]
    return jnp.concatenate([eps, eps**2, seen[:, :4] ** 2], 1)
