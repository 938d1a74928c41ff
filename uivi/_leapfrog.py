"""The leapfrog integrator that all HMC kernels of the package share."""

from collections.abc import Callable
from typing import NamedTuple

import jax
from jaxtyping import Array, PyTree

from uivi._types import Scalar


class Point(NamedTuple):
    """A point of a trajectory with its gradient, so that the next step need not evaluate it again.

    Attributes:
        position: where the trajectory is; one vector, or several chains as rows.
        gradient: gradient of the log density there, same shape. Any other force keeps the integrator
            reversible and volume preserving, and only costs acceptance.
        value: whatever else is known at this position, such as the log density. It travels along unused.
    """

    position: Array
    gradient: Array
    value: PyTree


def leapfrog(
    start: Point,
    momentum: Array,
    step: Scalar,
    num_steps: int,
    evaluate: Callable[[Array], Point],
    *,
    unroll: bool = False,
) -> tuple[Point, Array]:
    """Integrates Hamilton's equations with identity mass; returns the end point and its momentum.

    Each step is half a kick, a drift and half a kick (Neal 2011, MCMC using Hamiltonian dynamics, Section
    5.2.3). The half kicks that meet between two steps are not merged: that would save one addition, while
    whole steps let a caller cut a trajectory in two and evaluate its parts differently.

    Costs one evaluation per step. The gradient at the start comes with `start`, and the gradient at the end
    leaves with the result, ready for the next trajectory.

    Args:
        start: first point.
        momentum: first momentum, same shape as the position.
        step: step size.
        num_steps: number of leapfrog steps.
        evaluate: returns the point at a position.
        unroll: whether to unroll the loop. This saves kernel launches on a GPU and takes longer to compile.
    """

    def advance(_, carry: tuple[Point, Array]) -> tuple[Point, Array]:
        point, momentum = carry
        momentum = momentum + 0.5 * step * point.gradient
        point = evaluate(point.position + step * momentum)
        return point, momentum + 0.5 * step * point.gradient

    return jax.lax.fori_loop(0, num_steps, advance, (start, momentum), unroll=unroll)
