"""Random chains for the fused HMC moves, and their force as the kernel rounds it."""

import functools

import jax
import jax.numpy as jnp

from uivi.gpu import MoveInputs


def chains_and_layers(normal, uniforms, shape, step) -> dict:
    """The inputs that both kernels share; `normal` takes a scale and a shape."""
    num_moves, num_chains, noise, width, _ = shape
    return {
        "eps": normal(1.0, num_chains, noise),
        "momenta": normal(1.0, num_moves, num_chains, noise),
        "uniforms": uniforms(num_moves, num_chains),
        "step": jnp.asarray(step),
        "first_bias": normal(0.3, num_chains, width),
        "w1": normal((2 / noise) ** 0.5, width, noise),
        "w2": normal((2 / width) ** 0.5, width, width),
        "b2": normal(0.3, width),
    }


def drawing(key):
    """Functions that draw normal and uniform arrays, each call with a new key."""
    keys = iter(jax.random.split(key, 12))
    normal = lambda scale, *shape: scale * jax.random.normal(next(keys), shape)
    return normal, lambda *shape: jax.random.uniform(next(keys), shape)


@functools.partial(jax.jit, static_argnums=1)
def make_inputs(key, shape, step=0.3) -> MoveInputs:
    """A random network, and chains that start in stationarity; shape is (T, N, E, H, D)."""
    _, num_chains, _, width, latent = shape
    normal, uniforms = drawing(key)
    inputs = MoveInputs(
        **chains_and_layers(normal, uniforms, shape, step),
        w3=normal(width**-0.5, latent, width),
        centre=jnp.zeros((num_chains, latent)),
        precision=jnp.exp(normal(0.3, latent)),
    )
    noise_of_z = normal(1.0, num_chains, latent) / jnp.sqrt(inputs.precision)[None]
    return inputs._replace(centre=noise_of_z - backward(inputs, inputs.eps)[0])


def backward(inputs, eps, rounded=lambda x: x, *, is_end=True):
    """Residual and force, in the kernel's order and scale, the factors of every product rounded.

    At an end of a trajectory only the factors of the backward pass are rounded.
    """
    product = lambda x, weight: rounded(x) @ rounded(weight)
    forward = jnp.matmul if is_end else product
    unscale = jnp.sqrt(jnp.max(inputs.precision))
    first = forward(eps, inputs.w1.T) + inputs.first_bias
    second = forward(jax.nn.relu(first), inputs.w2.T) + inputs.b2[None]
    rest = inputs.centre - forward(jax.nn.relu(second), inputs.w3.T)
    back = jnp.where(second > 0, product(inputs.precision[None] / unscale * rest, inputs.w3), 0.0)
    back = jnp.where(first > 0, product(back, inputs.w2), 0.0)
    return rest, product(back, inputs.w1) * unscale - eps


def float16(x):
    """Rounded as the hardware does: XLA may drop the casts, and `reduce_precision` drops subnormals."""
    normal = jax.lax.reduce_precision(x, exponent_bits=5, mantissa_bits=10)
    return jnp.where(jnp.abs(x) < 2**-14, jnp.round(x * 2**24) / 2**24, normal)


def bfloat16(x):
    return jax.lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)


def rounded_force(inputs, rounded=float16):
    return lambda eps, is_end: backward(inputs, eps, rounded, is_end=is_end)[1]


def crude_force(inputs):
    """A force in steps of a half."""
    return lambda eps, is_end: jnp.round(2 * backward(inputs, eps)[1]) / 2


def moments(inputs, moves):
    """For each chain: ε', its square, the squared standardised residual, their product; (N, .)."""
    eps = moves.eps[-1]
    standard = backward(inputs, eps)[0] * jnp.sqrt(inputs.precision)[None]
    return jnp.concatenate([eps, eps**2, standard**2, eps * standard], 1)


def stiff_inputs(key, shape, step) -> MoveInputs:
    """Locations of size 2 with a scale of 0.03."""
    inputs = make_inputs(key, shape, step)
    inputs = inputs._replace(centre=jnp.zeros_like(inputs.centre), precision=jnp.full(shape[-1], 0.03**-2))
    inputs = inputs._replace(w3=inputs.w3 * 2 / jnp.std(backward(inputs, inputs.eps)[0]))
    noise = 0.03 * jax.random.normal(jax.random.fold_in(key, 1), inputs.centre.shape)
    return inputs._replace(centre=noise - backward(inputs, inputs.eps)[0])
