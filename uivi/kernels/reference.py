"""The fused kernel's mathematics in plain JAX: what it is tested against."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi.kernels.types import MoveInputs, Moves

Force = Callable[[Float[Array, "N E"]], Float[Array, "N E"]]


def log_density(inputs: MoveInputs, eps: Float[Array, "N E"]) -> Float[Array, "N"]:
    """Log q(ε|z) of every chain, up to a constant, with full float32 products."""
    product = lambda x, weight: jnp.matmul(x, weight.T, precision=jax.lax.Precision.HIGHEST)
    first = jax.nn.relu(product(eps, inputs.w1) + inputs.first_bias)
    second = jax.nn.relu(product(first, inputs.w2) + inputs.b2[None])
    rest = inputs.centre - product(second, inputs.w3)
    return -0.5 * jnp.sum(inputs.precision[None] * rest**2, -1) - 0.5 * jnp.sum(eps**2, -1)


def reference_moves(inputs: MoveInputs, num_leapfrog: int, force: Force | None = None) -> Moves:
    """The moves of one lane: `HMC`'s transition with the randomness given.

    Args:
        inputs: one lane.
        num_leapfrog: leapfrog steps a move.
        force: replaces the gradient of the log density. Whatever it is, a leapfrog step keeps volume and
            is reversible, so the invariant distribution stays exact: the energies decide.
    """

    def gradient(eps):
        return force(eps) if force else jax.grad(lambda x: jnp.sum(log_density(inputs, x)))(eps)

    def leapfrog(_, carry):
        eps, momentum, gradient_now = carry
        momentum = momentum + 0.5 * inputs.step * gradient_now
        eps = eps + inputs.step * momentum
        gradient_now = gradient(eps)
        return eps, momentum + 0.5 * inputs.step * gradient_now, gradient_now

    def move(carry, noise):
        eps, gradient_now, value = carry
        momentum, uniform = noise
        end = jax.lax.fori_loop(0, num_leapfrog, leapfrog, (eps, momentum, gradient_now))
        end_value = log_density(inputs, end[0])
        gain = end_value - value + 0.5 * jnp.sum(momentum**2 - end[1] ** 2, -1)
        probability = jnp.exp(jnp.minimum(jnp.where(jnp.isfinite(gain), gain, -jnp.inf), 0.0))
        accept = uniform < probability
        eps = jnp.where(accept[:, None], end[0], eps)
        gradient_now = jnp.where(accept[:, None], end[2], gradient_now)
        value = jnp.where(accept, end_value, value)
        bad = (~jnp.isfinite(end_value)).astype(value.dtype)
        return (eps, gradient_now, value), Moves(eps, probability, accept.astype(value.dtype), bad)

    start = (inputs.eps, gradient(inputs.eps), log_density(inputs, inputs.eps))
    return jax.lax.scan(move, start, (inputs.momenta, inputs.uniforms))[1]
