"""Draws, densities and gradients of every conditional must agree with each other."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from tests.families.table import CONDITIONALS, NOISE_DIM, net
from uivi.families import Affine, Gaussian, LogScale, NetGaussian
from uivi.testing import assert_draws_follow_density, assert_reparameterised, check_conditional
from uivi.testing.conditionals import smooth
from uivi.trainable import partition_trained

EPS = np.array([0.6, -0.9])
CASES = [
    (name, context_dim)
    for name, row in CONDITIONALS.items()
    for context_dim in ((0, 2) if row.takes_context else (0,))
]


def make(name, dim, context_dim, key=None):
    """The conditional, one ε and one context (or None)."""
    key = jax.random.key(1) if key is None else key
    conditional = CONDITIONALS[name].make(key, dim, context_dim)
    context = jnp.array([0.5, -1.5]) if context_dim else None
    return conditional, jnp.asarray(EPS[: CONDITIONALS[name].noise_dim]), context


@pytest.mark.parametrize(("name", "context_dim"), CASES)
def test_draws_follow_the_density(name, context_dim, x64, getkey):
    """The density integrates to one; draws pass a Kolmogorov-Smirnov test against it."""
    conditional, eps, context = make(name, 1, context_dim)
    positive = CONDITIONALS[name].positive
    assert_draws_follow_density(getkey(), conditional, eps, context, positive=positive)


def split_parameters(conditional):
    trained, static = partition_trained(conditional)
    return trained, lambda trained: eqx.combine(trained, static)


@pytest.mark.parametrize("name", CONDITIONALS)
def test_reparameterised_gradient_is_that_of_the_density(name, x64, getkey):
    """∇_θ f(h(u; ε)) and f(z) ∇_θ log q(z|ε) have one expectation; the score alone has mean zero."""
    conditional, eps, context = make(name, 2, 2 if CONDITIONALS[name].takes_context else 0)
    assert_reparameterised(getkey(), conditional, eps, context)


@pytest.mark.parametrize("name", [name for name, row in CONDITIONALS.items() if row.pathwise])
def test_reparameterised_gradient_against_finite_differences(name, x64, getkey):
    """Along a random direction of the parameters, with common random numbers."""
    conditional, eps, _ = make(name, 2, 0)
    trained, combine = split_parameters(conditional)
    leaves, treedef = jax.tree.flatten(trained)
    keys = jax.random.split(getkey(), len(leaves))
    normals = [jax.random.normal(k, x.shape) for k, x in zip(keys, leaves, strict=True)]
    direction = jax.tree.unflatten(treedef, normals)
    draw_keys = jax.random.split(getkey(), 32)

    @jax.jit
    def values(distance):
        moved = combine(jax.tree.map(lambda x, d: x + distance * d, trained, direction))
        return jax.vmap(lambda k: smooth(moved.sample(k, eps)))(draw_keys)

    slope = jax.jvp(values, (jnp.zeros(()),), (jnp.ones(()),))[1]
    step = 1e-5
    differences = (values(jnp.asarray(step)) - values(jnp.asarray(-step))) / (2 * step)
    np.testing.assert_allclose(slope, differences, rtol=1e-6, atol=1e-7)
    assert np.max(np.abs(slope)) > 0.1


@pytest.mark.parametrize(("name", "context_dim"), CASES)
def test_the_promises_of_a_conditional(name, context_dim, x64, getkey):
    conditional, _, _ = make(name, 2, context_dim)
    contexts = jax.random.normal(getkey(), (5, 2)) if context_dim else None
    check_conditional(getkey(), conditional, contexts)
    assert (conditional.dim, conditional.noise_dim) == (2, CONDITIONALS[name].noise_dim)


def test_pairs_of_narrow_gaussians_in_single_precision(getkey):
    """The squares of distances cancel: at a scale of a thirtieth of the spread a few thousandths are lost."""
    conditional = Gaussian(net(getkey(), 2, 0), LogScale.create(2, 0.03))
    eps = 2 * jax.random.normal(getkey(), (200, NOISE_DIM))
    z = jax.vmap(conditional.sample)(jax.random.split(getkey(), 200), eps)
    own = jnp.diagonal(conditional.log_prob_pairs(z, eps))
    assert own.dtype == jnp.float32
    np.testing.assert_allclose(own, jax.vmap(conditional.log_prob)(z, eps), rtol=0, atol=0.01)


@pytest.mark.parametrize("name", [name for name, row in CONDITIONALS.items() if row.positive])
def test_no_density_outside_the_support(name):
    conditional, eps, _ = make(name, 2, 0)
    assert conditional.log_prob(jnp.array([1.0, -0.1]), eps) == -jnp.inf


def test_affine_gaussian_has_a_full_covariance(x64, getkey):
    inner = Gaussian(net(getkey(), 2, 0), LogScale(jnp.log(jnp.array([0.5, 2.0]))))
    cholesky, shift = np.array([[1.4, 0.0], [-0.8, 0.6]]), np.array([0.3, -1.0])
    affine = Affine.create(inner, jnp.asarray(shift), jnp.asarray(cholesky))
    eps, z = jnp.asarray(EPS), jnp.array([0.4, 1.1])
    np.testing.assert_allclose(affine.matrix(), cholesky, rtol=1e-12)
    mean = shift + cholesky @ np.asarray(inner.net(eps))
    covariance = cholesky @ np.diag([0.25, 4.0]) @ cholesky.T
    expected = scipy.stats.multivariate_normal(mean, covariance).logpdf(z)
    np.testing.assert_allclose(affine.log_prob(z, eps), expected, rtol=1e-12)
    np.testing.assert_allclose(affine.log_prob_of(z)(eps), expected, rtol=1e-12)
    np.testing.assert_allclose(Affine.create(inner).log_prob(z, eps), inner.log_prob(z, eps))


def test_net_scale_cannot_run_away(getkey):
    """The log scale stays within `bound` of its offset, whatever the network says."""
    big = jax.tree.map(lambda x: 1e6 * x, net(getkey(), 4, 0))
    conditional = NetGaussian(big, jnp.array([0.5, -0.5]), bound=3.0)
    _, log_scale = conditional.parameters(jnp.asarray(EPS))
    np.testing.assert_allclose(jnp.abs(log_scale - conditional.offset), 3.0, rtol=1e-5)
