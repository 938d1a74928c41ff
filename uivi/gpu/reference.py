"""The mathematics of the fused kernels in plain JAX. The kernels are tested against it."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi._leapfrog import Point, leapfrog
from uivi.gpu.types import Adaptation, CollapsedInputs, MoveInputs, Moves

Force = Callable[..., Float[Array, "N E"]]
"""Takes ε and the keyword `is_end`: whether ε is an end of the trajectory."""


def log_density(inputs: MoveInputs | CollapsedInputs, eps: Float[Array, "N E"]) -> Float[Array, "N"]:
    """Returns log q(ε|z) of every chain up to a constant, with full float32 products."""
    # A GPU may multiply in tensorfloat32 by default. Energies decide about acceptance: they need all digits.
    product = lambda x, weight: jnp.matmul(x, weight.T, precision=jax.lax.Precision.HIGHEST)
    first = jax.nn.relu(product(eps, inputs.w1) + inputs.first_bias)
    second = jax.nn.relu(product(first, inputs.w2) + inputs.b2[None])
    mixing = -0.5 * jnp.sum(eps**2, -1)
    if isinstance(inputs, CollapsedInputs):
        # The change from the start's features is small, so this form does not cancel large terms.
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
    """Makes the moves of one lane: the transition of `HMC` with its randomness given.

    Args:
        inputs: one lane.
        num_leapfrog: number of leapfrog steps per move.
        adaptation: how the step size changes after the first moves; None keeps it constant.
        force: replaces the gradient of the log density. Whatever the force is, a leapfrog step preserves volume
            and is reversible. The invariant distribution stays exact, because the energies decide.
    """

    def gradient(eps, *, is_end):
        return force(eps, is_end=is_end) if force else jax.grad(lambda x: jnp.sum(log_density(inputs, x)))(eps)

    inner = lambda eps: Point(eps, gradient(eps, is_end=False), None)
    end = lambda eps: Point(eps, gradient(eps, is_end=True), None)

    def move(carry, noise):
        start, value, step = carry
        number, momentum, uniform = noise
        # The last step is apart because the kernels compute the force at an end from accurate products, which
        # they need there for the energy anyway.
        before_last = leapfrog(start, momentum, step, num_leapfrog - 1, inner)
        point, end_momentum = leapfrog(*before_last, step, 1, end, unroll=True)
        end_value = log_density(inputs, point.position)
        gain = end_value - value + 0.5 * jnp.sum(momentum**2 - end_momentum**2, -1)
        # A gain of +inf (an energy that overflowed) must not be accepted, nor NaN enter the mean acceptance.
        probability = jnp.exp(jnp.minimum(jnp.where(jnp.isfinite(gain), gain, -jnp.inf), 0.0))
        accept = uniform < probability
        kept = jax.tree.map(lambda new, old: jnp.where(accept[:, None], new, old), point, start)
        value = jnp.where(accept, end_value, value)
        bad = (~jnp.isfinite(end_value)).astype(value.dtype)
        accepted = accept.astype(value.dtype)
        if adaptation:
            step = jnp.where(number < adaptation.num_moves, adaptation.after(step, jnp.mean(accepted)), step)
        return (kept, value, step), Moves(kept.position, probability, accepted, bad, step)

    start = (end(inputs.eps), log_density(inputs, inputs.eps), inputs.step)
    numbers = jnp.arange(inputs.momenta.shape[0])
    return jax.lax.scan(move, start, (numbers, inputs.momenta, inputs.uniforms))[1]
