"""The fused kernels' mathematics in plain JAX: what they are tested against."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi.gpu.types import Adaptation, CollapsedInputs, MoveInputs, Moves

Force = Callable[..., Float[Array, "N E"]]
"""Of ε and `is_end`: whether ε is an end of the trajectory."""


def log_density(inputs: MoveInputs | CollapsedInputs, eps: Float[Array, "N E"]) -> Float[Array, "N"]:
    """Log q(ε|z) of every chain, up to a constant, with full float32 products."""
    product = lambda x, weight: jnp.matmul(x, weight.T, precision=jax.lax.Precision.HIGHEST)
    first = jax.nn.relu(product(eps, inputs.w1) + inputs.first_bias)
    second = jax.nn.relu(product(first, inputs.w2) + inputs.b2[None])
    mixing = -0.5 * jnp.sum(eps**2, -1)
    if isinstance(inputs, CollapsedInputs):
        change = second - inputs.origin
        return jnp.sum(change * (inputs.slope - 0.5 * product(change, inputs.gram)), -1) + mixing
    rest = inputs.centre - product(second, inputs.w3)
    return -0.5 * jnp.sum(inputs.precision[None] * rest**2, -1) + mixing


def reference_moves(
    inputs: MoveInputs | CollapsedInputs,
    num_leapfrog: int,
    adaptation: Adaptation | None = None,
    *,
    force: Force | None = None,
) -> Moves:
    """The moves of one lane: `HMC`'s transition with the randomness given.

    Args:
        inputs: one lane.
        num_leapfrog: leapfrog steps a move.
        adaptation: how the step changes after the first moves; None: it does not.
        force: replaces the gradient of the log density. Whatever it is, a leapfrog step keeps volume and
            is reversible, so the invariant distribution stays exact: the energies decide.
    """

    def gradient(eps, *, is_end):
        return force(eps, is_end=is_end) if force else jax.grad(lambda x: jnp.sum(log_density(inputs, x)))(eps)

    def leapfrog(carry, step, *, is_end):
        eps, momentum, gradient_now = carry
        momentum = momentum + 0.5 * step * gradient_now
        eps = eps + step * momentum
        gradient_now = gradient(eps, is_end=is_end)
        return eps, momentum + 0.5 * step * gradient_now, gradient_now

    def move(carry, noise):
        eps, gradient_now, value, step = carry
        number, momentum, uniform = noise
        inner = lambda _, carry: leapfrog(carry, step, is_end=False)
        end = jax.lax.fori_loop(0, num_leapfrog - 1, inner, (eps, momentum, gradient_now))
        end = leapfrog(end, step, is_end=True)
        end_value = log_density(inputs, end[0])
        gain = end_value - value + 0.5 * jnp.sum(momentum**2 - end[1] ** 2, -1)
        probability = jnp.exp(jnp.minimum(jnp.where(jnp.isfinite(gain), gain, -jnp.inf), 0.0))
        accept = uniform < probability
        eps = jnp.where(accept[:, None], end[0], eps)
        gradient_now = jnp.where(accept[:, None], end[2], gradient_now)
        value = jnp.where(accept, end_value, value)
        bad = (~jnp.isfinite(end_value)).astype(value.dtype)
        accepted = accept.astype(value.dtype)
        if adaptation:
            step = jnp.where(number < adaptation.num_moves, adaptation.after(step, jnp.mean(accepted)), step)
        return (eps, gradient_now, value, step), Moves(eps, probability, accepted, bad, step)

    start = (inputs.eps, gradient(inputs.eps, is_end=True), log_density(inputs, inputs.eps), inputs.step)
    numbers = jnp.arange(inputs.momenta.shape[0])
    return jax.lax.scan(move, start, (numbers, inputs.momenta, inputs.uniforms))[1]
