"""The toy targets are normalised and their exact draws follow their densities."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from uivi.networks import MLP
from uivi.targets import (
    AbstractModel,
    AbstractRowModel,
    Banana,
    BernoulliVAE,
    BrownianMotion,
    ConditionedDiffusion,
    CoxProcess,
    Density,
    Funnel,
    GaussianMixture,
    LogisticRegression,
    Minibatched,
    ModelTarget,
    Multimodal,
    NetworkRegression,
    Normal,
    Observed,
    Rescaled,
    Rosenbrock,
    Rows,
    Seeds,
    SoftmaxRegression,
    StudentMixture,
    XShaped,
    log_density_at,
)
from uivi.testing import FAILURE_RATE, assert_mean, assert_not_mean, make_doubly_oracle

TOYS = {"banana": Banana, "multimodal": Multimodal, "x-shaped": XShaped}
"""Normalised, with exact draws."""

NORMALISED = TOYS | {"density": lambda: Density(lambda z: -0.5 * jnp.sum(z**2) - jnp.log(2 * jnp.pi), 2)}


def _regression():
    features = np.linspace(-1.0, 1.0, 20, dtype=np.float32).reshape(10, 2)
    return SoftmaxRegression.create(features, np.arange(10) % 3, num_classes=3, batch_size=4)


def _vae():
    images = np.arange(12, dtype=np.uint8).reshape(4, 3) % 2
    return BernoulliVAE(MLP.create(jax.random.key(0), 2, 3, width=4), Rows.create(images), 2)


class AbstractUnobserved(AbstractModel):
    """A vector and a number without transforms or observations."""

    example = {"a": jnp.zeros(1), "b": jnp.zeros(())}
    centre = {"a": np.zeros(1), "b": np.zeros(())}
    radius = 1.0
    source = "test"

    def constrain(self, unconstrained):
        return unconstrained

    def prior_draws(self, key, number):
        return None

    def why_not_finite(self):
        return "it is always finite"

    def log_likelihood(self, draws):
        return {}

    def predict(self, key, draws, *args, **kwargs):
        return {}

    def observed(self):
        return {}


def standard_normal(unconstrained):
    return -0.5 * (unconstrained["a"][0] ** 2 + unconstrained["b"] ** 2) - jnp.log(2 * jnp.pi)


class TwoNames(AbstractUnobserved):
    """N(0, I) on a vector and a number."""

    def log_density(self, unconstrained):
        return standard_normal(unconstrained)


class Rowed(AbstractUnobserved, AbstractRowModel):
    """z ~ N(0, I) in the plane, rows that add up."""

    def __init__(self, x):
        self.data = {"x": x}

    def log_prior(self, unconstrained):
        return standard_normal(unconstrained)

    def log_likelihood_of(self, unconstrained, rows):
        return jnp.sum(rows["x"] * unconstrained["a"][0] + jnp.sin(unconstrained["b"]))


def _minibatched(x=None, batch_size=4):
    x = np.linspace(-1.0, 2.0, 10, dtype=np.float32) if x is None else x
    return Minibatched(Rowed(x), {"x": Rows.create(x)}, batch_size)


NORMALISED["program"] = lambda: ModelTarget(TwoNames())
TARGETS = NORMALISED | {
    "regression": _regression,
    "vae": _vae,
    "logistic": lambda: LogisticRegression.create(np.eye(3), np.arange(3) % 2),
    "network": lambda: NetworkRegression.create(np.eye(3), np.arange(3.0), width=2),
    "flat-logistic": lambda: LogisticRegression.create(np.eye(3), np.arange(3) % 2, prior_scale=None),
    "diffusion": ConditionedDiffusion,
    "seeds": Seeds,
    "brownian": BrownianMotion,
    "cox": lambda: CoxProcess.create(np.array([[0.1, 0.9], [1.0, 0.5]]), cells=2),
    "funnel": Funnel,
    "rosenbrock": Rosenbrock,
    "gaussians": lambda: GaussianMixture.create(np.eye(3), 0.5),
    "students": lambda: StudentMixture.create(np.eye(3)),
    "rescaled": lambda: Rescaled.create(Banana(), np.zeros(2), np.array([2.0, 0.5])),
    "observed": lambda: Observed(lambda z: -jnp.sum((z - 1.0) ** 2), Normal(2)),
    "bounded": lambda: make_doubly_oracle().target,
    "minibatched": _minibatched,
    "anchored": lambda: _minibatched().anchored(jnp.array([0.3, -0.2])),
}
BOX = (-8.0, 8.0), (-45.0, 8.0)


@pytest.mark.parametrize("name", NORMALISED)
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


@pytest.mark.parametrize("name", TARGETS)
def test_the_role_of_a_target(name, getkey):
    """Sites have B rows, each with a scalar log p(x, z); gradients reach z."""
    target = TARGETS[name]()
    sites = target.sites(getkey(), jnp.asarray(3))
    assert all(leaf.shape[0] == target.num_sites for leaf in jax.tree.leaves(sites))
    z = jax.random.normal(getkey(), (target.num_sites, target.dim))
    log_joint, slopes = jax.jit(jax.vmap(jax.value_and_grad(target.log_joint)))(z, sites)
    assert log_joint.shape == (target.num_sites,)
    assert log_joint.dtype == z.dtype
    assert np.all(np.isfinite(slopes))
    assert np.any(slopes)
    contexts = jax.vmap(target.context, axis_size=target.num_sites)(sites)
    assert contexts is None or contexts.shape[0] == target.num_sites


@pytest.mark.parametrize("size", [0, -1])
def test_bad_size(size):
    with pytest.raises(ValueError, match=f"`dim` to be a positive whole number, got {size}"):
        Density(jnp.sum, size)


def test_many_parts_are_added_without_loss():
    """Float32 sums of 50,000 parts would be off by whole nats."""
    x = np.full(50_000, 20.1, np.float32)
    target = _minibatched(x, 1)
    found = eqx.filter_jit(target.log_density)(jnp.array([1.0, 0.0]))
    exact = 50_000 * np.float64(x[0]) - 0.5 - np.log(2 * np.pi)
    np.testing.assert_allclose(found, exact, atol=0.1)
    plain = jax.lax.fori_loop(0, 50_000, lambda i, total: total + x[0], jnp.zeros(()))
    assert abs(plain - exact) > 5.0


def test_a_start_is_looked_for_on_part_of_many_rows(getkey, monkeypatch):
    target, z = _minibatched(), jnp.array([0.3, 0.4])
    assert target.rough(getkey()) is None
    monkeypatch.setattr("uivi.targets.minibatched.NUM_ROUGH", 5)
    keys = jax.random.split(getkey(), 4_000)
    estimates = jax.vmap(lambda key: target.rough(key)(z))(keys)
    assert_mean(estimates[:, None], target.log_density(z), max_stderr=0.02)
    assert_not_mean(estimates[:, None], target.log_density(z) + 0.3)
