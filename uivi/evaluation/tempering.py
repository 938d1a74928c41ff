"""Adaptive tempered sequential Monte Carlo: particles from a wide normal distribution to a density.

It needs no start near a mode (Del Moral, Doucet & Jasra 2006). Weights and resampling share the particles out
among separate modes, where a chain would stay in the first one that it meets.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi._leapfrog import Point, leapfrog
from uivi._types import Key, Scalar
from uivi.targets.probe import LogDensity

LEAST_ESS = 0.5
"""Effective share of the particles after a rise of the inverse temperature; it sets the rise."""
NUM_MOVES, NUM_LEAPFROG = 4, 8
"""Transitions of every particle at each temperature, and leapfrog steps of each."""
MOST_STAGES = 200
NUM_BISECTIONS = 30
TARGET = 0.8
"""Acceptance rate that the step size aims at."""
JITTER = 0.2
"""Each transition scales the step of all particles by a uniform number in 1 ± JITTER."""


class Particles(NamedTuple):
    """Particles with equal weights.

    Attributes:
        points: where they are.
        log_p: log density there; minus infinity where it is not finite.
        log_z: estimate of the log of the density's integral.
        beta: inverse temperature that was reached; 1 unless `MOST_STAGES` were too few.
        stages: number of temperatures.
        acceptance: mean acceptance rate of the last transitions.
    """

    points: Float[Array, "N D"]
    log_p: Float[Array, "N"]
    log_z: Scalar
    beta: Scalar
    stages: Scalar
    acceptance: Scalar


class _State(NamedTuple):
    points: Array
    log_p: Array
    log_z: Array
    beta: Array
    log_step: Array
    stages: Array
    acceptance: Array


def temper(
    key: Key, log_density: LogDensity, centre: Float[Array, "D"], spread: Float[Array, "D"], number: int
) -> Particles:
    """Takes particles from N(centre, diag(spread²)) to a density, through p0^(1-β) p^β with growing β.

    Args:
        key: random key.
        log_density: log density of one point. It counts as minus infinity wherever it is not finite.
        centre: mean of the first particles.
        spread: their standard deviations.
        number: number of particles, N.
    """
    start_key, run_key = jax.random.split(key)
    middle, width = centre[None], spread[None]

    def evaluate(points: Array) -> tuple[Array, Array]:
        values, slopes = jax.vmap(jax.value_and_grad(log_density))(points)
        is_known = jnp.isfinite(values) & jnp.all(jnp.isfinite(slopes), 1)
        return jnp.where(is_known, values, -jnp.inf), jnp.where(is_known[:, None], slopes, 0.0)

    def log_first(points: Array) -> Array:
        scale = jnp.sum(jnp.log(spread * jnp.sqrt(2 * jnp.pi)))
        return -0.5 * jnp.sum(((points - middle) / width) ** 2, 1) - scale

    def move(carry: tuple[Array, Array, Array], xs: tuple[Key, Array], beta: Array):
        """Makes one transition of Hamiltonian Monte Carlo, and adapts the step to its acceptance."""
        points, log_p, log_step = carry
        momentum_key, jitter_key, accept_key = jax.random.split(xs[0], 3)

        def at(points: Array) -> Point:
            values, slopes = evaluate(points)
            return Point(points, beta * slopes - (1 - beta) * (points - middle) / width**2, values)

        tempered = lambda points, values: (1 - beta) * log_first(points) + beta * values
        momentum = jax.random.normal(momentum_key, points.shape, points.dtype)
        jitter = jax.random.uniform(jitter_key, (), points.dtype, 1 - JITTER, 1 + JITTER)
        step = jnp.exp(log_step) * jitter
        end, last = leapfrog(at(points), momentum, step, NUM_LEAPFROG, at)
        gain = tempered(end.position, end.value) - tempered(points, log_p)
        gain = gain + 0.5 * jnp.sum(momentum**2 - last**2, 1)
        # Both ends may have no density: such a particle has no weight, and may stay.
        probability = jnp.where(jnp.isfinite(gain), jnp.exp(jnp.minimum(gain, 0.0)), 0.0)
        taken = jax.random.uniform(accept_key, (number,), points.dtype) < probability
        points = jnp.where(taken[:, None], end.position, points)
        rate = jnp.mean(probability)
        return (points, jnp.where(taken, end.value, log_p), log_step + xs[1] * (rate - TARGET)), rate

    def stage(state: _State) -> _State:
        pick_key, move_key = jax.random.split(jax.random.fold_in(run_key, state.stages))
        rise = jnp.where(jnp.isfinite(state.log_p), state.log_p - log_first(state.points), -jnp.inf)
        beta = _next(state.beta, rise)
        log_weights = jnp.where(jnp.isfinite(rise), (beta - state.beta) * rise, -jnp.inf)
        log_z = state.log_z + jax.nn.logsumexp(log_weights) - jnp.log(number).astype(rise.dtype)
        chosen = _systematic(pick_key, jax.nn.softmax(log_weights))
        keys = jax.random.split(move_key, NUM_MOVES)
        gains = jnp.asarray([1.0, 0.7, 0.5, 0.3], rise.dtype)
        first = (state.points[chosen], state.log_p[chosen], state.log_step)
        (points, log_p, log_step), rates = jax.lax.scan(
            lambda carry, xs: move(carry, xs, beta), first, (keys, gains)
        )
        return _State(points, log_p, log_z, beta, log_step, state.stages + 1, rates[-1])

    points = middle + width * jax.random.normal(start_key, (number, len(centre)))
    log_p = evaluate(points)[0]
    zero = jnp.zeros((), points.dtype)
    # A quarter of the period of the narrowest coordinate, or less.
    log_step = jnp.log(jnp.min(spread) / NUM_LEAPFROG).astype(points.dtype)
    first = _State(points, log_p, zero, zero, log_step, jnp.zeros((), jnp.int32), zero)
    is_open = lambda state: (state.beta < 1) & (state.stages < MOST_STAGES) & jnp.any(state.log_p > -jnp.inf)
    last = jax.lax.while_loop(is_open, stage, first)
    return Particles(last.points, last.log_p, last.log_z, last.beta, last.stages, last.acceptance)


def _next(beta: Array, rise: Array) -> Array:
    """Returns the largest β up to 1 that leaves `LEAST_ESS` of the particles."""

    def is_fine(new: Array) -> Array:
        log_weights = jnp.where(jnp.isfinite(rise), (new - beta) * rise, -jnp.inf)
        twice = jnp.where(jnp.isfinite(rise), 2 * log_weights, -jnp.inf)
        ess = jnp.exp(2 * jax.nn.logsumexp(log_weights) - jax.nn.logsumexp(twice))
        # Particles without density are lost whatever β: they must not hold it back.
        return ess >= LEAST_ESS * jnp.sum(jnp.isfinite(rise).astype(rise.dtype))

    def halve(_, sides: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = sides
        middle = 0.5 * (low + high)
        fine = is_fine(middle)
        return jnp.where(fine, middle, low), jnp.where(fine, high, middle)

    one = jnp.ones_like(beta)
    low, high = jax.lax.fori_loop(0, NUM_BISECTIONS, halve, (beta, one))
    # The upper side: it is above β even where floating point has no number between the two.
    return jnp.where(is_fine(one), one, jnp.maximum(low, high))


def _systematic(key: Key, weights: Float[Array, "N"]) -> Array:
    """Returns the numbers of particles drawn by their weights, with one uniform number for all."""
    number = weights.shape[0]
    places = (jnp.arange(number).astype(weights.dtype) + jax.random.uniform(key, (), weights.dtype)) / number
    return jnp.clip(jnp.searchsorted(jnp.cumsum(weights), places), 0, number - 1)
