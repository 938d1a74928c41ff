"""The toy targets are normalised and their exact draws follow their densities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from tests.helpers import FAILURE_RATE, assert_mean, assert_not_mean
from uivi.targets import Banana, Density, Multimodal, XShaped, log_density_at

TARGETS = {
    "banana": Banana,
    "multimodal": Multimodal,
    "x-shaped": XShaped,
    "density": lambda: Density(lambda z: -0.5 * jnp.sum(z**2) - jnp.log(2 * jnp.pi), 2),
}
TOYS = [name for name in TARGETS if name != "density"]
BOX = (-8.0, 8.0), (-45.0, 8.0)


@pytest.mark.parametrize("name", TARGETS)
def test_density_is_normalised(name, x64):
    xs, ys = (jnp.arange(low, high, 0.05) for low, high in BOX)
    grid = jnp.stack(jnp.meshgrid(xs, ys), -1).reshape(-1, 2)
    mass = jnp.sum(jnp.exp(log_density_at(TARGETS[name](), grid))) * 0.05**2
    np.testing.assert_allclose(mass, 1.0, atol=1e-5)


@pytest.mark.parametrize("name", TOYS)
def test_draws_follow_the_density(name, x64, getkey):
    """E ∇log p(z) = 0 and E z ∇log p(z)ᵀ = -I hold only if draws and density belong together."""
    target = TARGETS[name]()
    draws = jax.vmap(target.sample)(jax.random.split(getkey(), 20_000))
    score = jax.vmap(jax.grad(target.log_joint))(draws)
    product = draws[:, :, None] * score[:, None, :]
    assert_mean(score, 0.0, max_stderr=0.05)
    assert_mean(product, -np.eye(2), max_stderr=0.25)
    shifted = jax.vmap(jax.grad(target.log_joint))(draws + jnp.array([[0.2, 0.0]]))
    assert_not_mean(shifted, 0.0)


@pytest.mark.parametrize(
    ("name", "coordinate", "cdf"),
    [
        ("banana", 0, scipy.stats.norm.cdf),
        ("multimodal", 0, lambda x: (scipy.stats.norm.cdf(x + 2) + scipy.stats.norm.cdf(x - 2)) / 2),
        ("multimodal", 1, scipy.stats.norm.cdf),
        ("x-shaped", 1, scipy.stats.norm(0, 2**0.5).cdf),
    ],
)
def test_margins(name, coordinate, cdf, getkey):
    draws = jax.vmap(TARGETS[name]().sample)(jax.random.split(getkey(), 4_000))
    assert scipy.stats.kstest(np.asarray(draws[:, coordinate]), cdf).pvalue > FAILURE_RATE
    assert scipy.stats.kstest(np.asarray(draws[:, coordinate]) + 0.3, cdf).pvalue < FAILURE_RATE


@pytest.mark.parametrize("size", [0, -1])
def test_bad_size(size):
    with pytest.raises(ValueError, match=f"`dim` to be a positive whole number, got {size}"):
        Density(jnp.sum, size)
