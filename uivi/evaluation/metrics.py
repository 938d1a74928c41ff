"""Distances between a fit and the truth. They take draws or densities, whatever the method."""

import functools
import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from uivi._types import Key
from uivi.families.base import AbstractFamily
from uivi.families.explicit import AbstractExplicit
from uivi.families.mixing import AbstractMixing
from uivi.families.semi_implicit import SemiImplicit
from uivi.targets.toys import AbstractToy


class Quadrature(NamedTuple):
    """KL(q‖p) on a grid.

    Attributes:
        kl: the divergence in nats.
        mass: integral of q over the grid. The grid is good if this is close to 1.
    """

    kl: float
    mass: float


def kl_quadrature(
    family: AbstractFamily, target: AbstractToy, *, spacing: float = 0.1, log2_mixing: int = 14
) -> Quadrature:
    """Computes KL(q‖p) in nats by quadrature over the region where q has its mass.

    q(z) is the average of q(z|ε) over a scrambled Sobol set of `2**log2_mixing` points of q(ε), which is far
    more even than random draws. The trapezoid rule then converges fast for smooth q. The grid covers the cells
    that `2**15` draws from q reach, and their neighbours. Its spacing is halved, at most twice, until the mass
    of q is within 1e-3 of 1.

    Args:
        family: a family on two dimensions without context.
        target: a normalised density.
        spacing: first spacing of the grid.
        log2_mixing: log₂ of the size of the Sobol set.
    """
    keys = jax.random.split(jax.random.key(0), 2**15)
    draws = np.asarray(jax.vmap(lambda k: family.sample(k).z)(keys))
    log_q = _log_marginal(family, log2_mixing)
    result = Quadrature(float("nan"), 0.0)
    for _ in range(3):
        grid, size = _grid_around(draws, spacing)
        log_density = log_q(grid)
        log_ratio = np.asarray(log_density - jax.vmap(target.log_joint)(grid), np.float64)[:size]
        q = np.asarray(jnp.exp(log_density), np.float64)[:size]
        # q log q is 0 where q underflows, but 0 * -inf would be NaN.
        kl = np.sum(log_ratio[q > 0] * q[q > 0])
        result = Quadrature(float(kl) * spacing**2, float(q.sum()) * spacing**2)
        if abs(result.mass - 1) < 1e-3:
            break
        spacing /= 2
    return result


def _grid_around(draws: np.ndarray, spacing: float, cell: float = 0.5) -> tuple[Array, int]:
    """Returns the grid points of all cells within two cells of a draw, and how many there are.

    The points are padded to a multiple of 4096, so that grids of similar size share a compiled program.
    """
    from scipy import ndimage  # here, because it takes long to import

    cells = np.floor(draws / cell).astype(int)
    corner = cells.min(0) - 3
    occupied = np.zeros(cells.max(0) - corner + 4, bool)
    occupied[tuple((cells - corner).T)] = True
    reached = np.argwhere(ndimage.binary_dilation(occupied, iterations=2, structure=np.ones((3, 3))))
    per_cell = round(cell / spacing)
    offsets = np.stack(np.meshgrid(*[np.arange(per_cell)] * 2), -1).reshape(-1, 2) * spacing
    points = (((reached + corner) * cell)[:, None] + offsets[None]).reshape(-1, 2)
    padding = -points.shape[0] % 4096
    padded = np.concatenate([points, np.repeat(points[:1], padding, 0)])
    return jnp.asarray(padded, dtype=float), points.shape[0]


def _log_marginal(family: AbstractFamily, log2_mixing: int):
    if isinstance(family, AbstractExplicit):
        return jax.jit(jax.vmap(family.log_prob))
    if not isinstance(family, SemiImplicit):
        raise TypeError(f"expected an explicit or semi-implicit family, got {type(family).__name__}")
    eps = sobol_mixing(family.mixing, log2_mixing)
    return lambda grid: _average_over_mixing(family, eps, grid)


@eqx.filter_jit
def _average_over_mixing(family: SemiImplicit, eps: Array, grid: Array) -> Array:
    """Returns the log of the mean of q(z|ε) over `eps` at every grid point."""

    def add(total, slice_of_eps):
        per_eps = lambda z: jax.vmap(family.conditional.log_prob_of(z))(slice_of_eps)
        # Densities in the plane stay within the range of floats, so the sum needs no logs.
        densities = jnp.exp(jax.lax.map(per_eps, grid, batch_size=1024))
        return total + jnp.sum(densities, -1), None

    # Slices of ε and batches of grid points bound the memory to 512 * 1024 densities. Both sizes divide theirs:
    # powers of two.
    slices = eps.reshape(-1, min(512, eps.shape[0]), eps.shape[1])
    total, _ = jax.lax.scan(add, jnp.zeros(grid.shape[0]), slices)
    return jnp.log(total / eps.shape[0])


def sobol_mixing(mixing: AbstractMixing, log2_size: int, seed: int = 0) -> Float[Array, "L E"]:
    """Returns an even set of `2**log2_size` points of q(ε): scrambled Sobol points through the inverse CDF."""
    from scipy.stats import qmc  # here, because it takes long to import

    points = qmc.Sobol(mixing.dim, rng=np.random.default_rng(seed)).random_base2(log2_size)
    # A point at 0 or 1 would map to infinity; 1e-7 is about the distance of 1 to its float32 neighbour.
    points = jnp.asarray(np.clip(points, 1e-7, 1 - 1e-7), dtype=float)
    return jax.vmap(mixing.from_normal)(jax.scipy.special.ndtri(points))


@functools.partial(jax.jit, static_argnames="num_directions")
def sliced_wasserstein(
    key: Key, a: Float[Array, "S D"], b: Float[Array, "S D"], num_directions: int = 200
) -> Float[Array, ""]:
    """Returns the sliced 2-Wasserstein distance between two samples of the same size.

    This is the root of the mean over random directions of the squared one-dimensional distance.
    """
    directions = jax.random.normal(key, (a.shape[1], num_directions))
    directions = directions / jnp.linalg.norm(directions, axis=0, keepdims=True)
    # In one dimension the optimal transport matches sorted values.
    difference = jnp.sort(a @ directions, 0) - jnp.sort(b @ directions, 0)
    return jnp.sqrt(jnp.mean(difference**2))


class Distance(NamedTuple):
    """How far draws are from a reference.

    Attributes:
        sds: sliced 2-Wasserstein distance, in standard deviations of the reference.
        over_noise: the same in units of the distance between two halves of the reference. Independent exact
            draws have about 1.
    """

    sds: float
    over_noise: float


def distance(draws: Float[np.ndarray, "S K"], reference: Float[np.ndarray, "R K"]) -> Distance:
    """Compares draws with both halves of the reference, always at the size of a half.

    The distance between two samples falls with their size, even if both are exact. So longer draws are cut into
    pieces of the size of a half, in random order, and the squared distances of all pairs are averaged.
    """
    location, scale = reference.mean(0), reference.std(0)
    standard = lambda x: jnp.asarray((x - location) / scale, jnp.float32)
    size = min(len(draws), len(reference) // 2)
    mixed = standard(np.random.default_rng(0).permutation(draws))
    pieces = [mixed[i * size : (i + 1) * size] for i in range(len(mixed) // size)]
    known = standard(reference)
    halves = known[:size], known[size : 2 * size]
    squared = lambda a, b: float(sliced_wasserstein(jax.random.key(0), a, b)) ** 2
    mean = float(np.mean([squared(piece, half) for piece in pieces for half in halves]))
    return Distance(math.sqrt(mean), math.sqrt(mean / squared(*halves)))
