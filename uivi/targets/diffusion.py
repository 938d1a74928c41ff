"""A diffusion bridge: a nonlinear process observed with noise, the field's benchmark in 100 dimensions."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Latent, Scalar
from uivi.targets.base import AbstractGlobalTarget

State = TypeVar("State", Array, np.ndarray)

OBSERVATIONS = (
    *(-0.49225676, -0.9104231, -1.0714561, -0.9354941, -0.98942673, -0.74544746, -1.1115911),
    *(-1.2385833, -1.2895904, -1.5037673, -0.92001927, -1.1271943, -1.403862, -1.1076571),
    *(-0.70148206, -0.64900184, -1.0054644, -0.84609514, -0.6180815, -0.7676387),
)
"""The 20 observations that all published results use: those of KSIVI's code, with seed 2022."""

_GRID = np.linspace(-3.5, 3.5, 1_401)
"""Points of the exact filter. Transitions have a standard deviation of 0.1, twenty spacings."""


def bounded_drift(x: State) -> State:
    """Returns 10 (x - x³) / (1 + x²), the drift in all public code."""
    return 10 * (x - x**3) / (1 + x**2)


def cubic_drift(x: State) -> State:
    """Returns 10 (x - x³), the drift that the papers print."""
    return 10 * (x - x**3)


class Marginals(NamedTuple):
    """What a grid filter knows exactly about a conditioned diffusion.

    Attributes:
        log_evidence: log p(y).
        mean: posterior mean of every state.
        sd: posterior standard deviation of every state.
        grid: points at which the marginal densities are known.
        densities: posterior density of every state at these points.
    """

    log_evidence: float
    mean: Float[np.ndarray, "D"]
    sd: Float[np.ndarray, "D"]
    grid: Float[np.ndarray, "G"]
    densities: Float[np.ndarray, "D G"]


class ConditionedDiffusion(AbstractGlobalTarget):
    """States x₁, …, x₁₀₀ of dx = a(x) dt + dW in steps of 0.01 from x₀ = 0, given 20 observations.

    Every fifth state is observed with Gaussian noise of standard deviation 0.1. All densities are normalised,
    so the log evidence and the marginals are known; see `exact`.

    Attributes:
        drift: a, applied element by element. It takes JAX's and NumPy's arrays.
        observations: values of every `every`-th state.
        every: number of states from one observation to the next.
        step: size of a time step.
        noise: standard deviation of an observation.
    """

    drift: Callable[[Any], Any] = eqx.field(static=True, default=bounded_drift)
    observations: tuple[float, ...] = eqx.field(static=True, default=OBSERVATIONS)
    every: int = eqx.field(static=True, default=5)
    step: float = eqx.field(static=True, default=0.01)
    noise: float = eqx.field(static=True, default=0.1)

    def __check_init__(self):
        _checks.positive_int("every", self.every)
        _checks.positive_float("step", self.step)
        _checks.positive_float("noise", self.noise)
        if not self.observations:
            raise ValueError("expected at least one observation, got none: pass their values, in order")

    @property
    def dim(self) -> int:
        """Number of states, D."""
        return self.every * len(self.observations)

    def log_joint(self, z: Latent, site: tuple = ()) -> Scalar:
        """Returns log p(x, y), normalised in x and y."""
        del site
        before = jnp.concatenate([jnp.zeros((1,), z.dtype), z[:-1]])
        moved = _normal(z, before + self.step * self.drift(before), self.step**0.5)
        seen = _normal(jnp.asarray(self.observations, z.dtype), z[self.every - 1 :: self.every], self.noise)
        return jnp.sum(moved) + jnp.sum(seen)

    def exact(self) -> Marginals:
        """Filters forwards and backwards on a grid, in double precision."""
        width = _GRID[1] - _GRID[0]
        moved = lambda start: start + self.step * np.asarray(self.drift(start), np.float64)
        kernel = np.exp(_normal(_GRID[None], moved(_GRID)[:, None], self.step**0.5)) * width
        now = np.exp(_normal(_GRID, moved(np.zeros(1)), self.step**0.5)) * width
        seen = [np.ones_like(_GRID) for _ in range(self.dim)]
        for i, value in enumerate(self.observations):
            seen[(i + 1) * self.every - 1] = np.exp(_normal(value, _GRID, self.noise))
        forward, log_evidence = [], 0.0
        for i in range(self.dim):
            now = (now if i == 0 else now @ kernel) * seen[i]
            log_evidence += float(np.log(now.sum()))
            now = now / now.sum()
            forward.append(now)
        later, mean, sd = np.ones_like(_GRID), np.zeros(self.dim), np.zeros(self.dim)
        densities = np.zeros((self.dim, len(_GRID)))
        for i in reversed(range(self.dim)):
            both = forward[i] * later / np.sum(forward[i] * later)
            densities[i], mean[i] = both / width, both @ _GRID
            sd[i] = (both @ (_GRID - mean[i]) ** 2) ** 0.5
            later = kernel @ (seen[i] * later)
            later = later / later.max()
        return Marginals(log_evidence, mean, sd, _GRID, densities)


def _normal(x: State | float, mean: State, sd: float) -> State:
    return -0.5 * ((x - mean) / sd) ** 2 - math.log(sd * math.sqrt(2 * math.pi))
