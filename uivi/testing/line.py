"""A linear-Gaussian family and a Gaussian target in one dimension, where bounds are known by quadrature."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from uivi._types import Latent, Scalar
from uivi.families.linear_gaussian import LinearGaussian
from uivi.families.mixing import StandardNormal
from uivi.families.semi_implicit import SemiImplicit
from uivi.targets.density import Density
from uivi.testing.oracle import Oracle

TARGET_LOC, TARGET_SCALE = 0.8, 1.5
NUM_NODES = 16
"""Nodes of the quadrature along each axis; it is then exact to more digits than a test sees."""


def make_line_oracle() -> Oracle:
    """Returns an oracle with one variable and one of noise."""
    conditional = LinearGaussian(jnp.array([[1.2]]), jnp.array([0.1]), jnp.array([0.7]))
    return Oracle(SemiImplicit(StandardNormal(1), conditional), Density(line_log_density, 1))


def line_log_density(z: Latent) -> Scalar:
    """Returns the log density of the line's target, without its constant."""
    return -0.5 * ((z[0] - TARGET_LOC) / TARGET_SCALE) ** 2


def negative_line_elbo(conditional: LinearGaussian) -> Scalar:
    """Returns the line's negative ELBO in closed form."""
    mean, covariance = conditional.marginal()
    expected = line_log_density(mean) - 0.5 * covariance[0, 0] / TARGET_SCALE**2
    return -expected - 0.5 * jnp.log(2 * jnp.pi * jnp.e * covariance[0, 0])


def negative_sivi_bound(conditional: LinearGaussian, num_mixing: int) -> Scalar:
    """Returns the negative of the line's SIVI bound with L fresh draws of ε, by quadrature over u and all ε."""
    points, weights = gauss_hermite(2 + num_mixing)

    def integrand(point: Array) -> Scalar:
        u, eps = point[0], point[1:]
        z = conditional.weight @ eps[:1] + conditional.bias + conditional.scale * u
        log_q = jax.vmap(lambda e: conditional.log_prob(z, e[None]))(eps)
        return line_log_density(z) - jax.nn.logsumexp(log_q) + jnp.log(1.0 + num_mixing)

    return -jnp.sum(weights * jax.vmap(integrand)(points))


def gauss_hermite(num_axes: int) -> tuple[Float[Array, "N A"], Float[Array, "N"]]:
    """Returns points and weights whose weighted sum is the mean under N(0, I)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NUM_NODES)
    grid = lambda values: np.stack(np.meshgrid(*[values] * num_axes), -1).reshape(-1, num_axes)
    return jnp.asarray(grid(nodes)), jnp.asarray(grid(weights / weights.sum()).prod(1))


def free_energy(
    log_q: Callable[[Latent], Scalar],
    log_density: Callable[[Latent], Scalar],
    ends: tuple[float, float] = (-9.0, 10.0),
) -> Scalar:
    """Returns the negative ELBO of any q(z) in one dimension whose density is known.

    It is a sum over a fine grid between two ends at which q has no mass left, where the trapezoid rule is exact
    to rounding.
    """
    grid = jnp.linspace(*ends, 4_001)[:, None]
    values = jax.vmap(log_q)(grid)
    terms = jnp.exp(values) * (values - jax.vmap(log_density)(grid))
    return jnp.sum(terms) * (grid[1, 0] - grid[0, 0])
