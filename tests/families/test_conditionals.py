"""Draws, densities and gradients of every conditional must agree with each other."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from tests.families.table import CONDITIONALS, NOISE_DIM, net
from tests.helpers import FAILURE_RATE, assert_mean, assert_not_mean, flat
from uivi.families import Affine, Gaussian, LogScale, NetGaussian
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


def draws_of(conditional, eps, context, num, key):
    keys = jax.random.split(key, num)
    return jax.jit(jax.vmap(lambda k: conditional.sample(k, eps, context)))(keys)


def integrated_cdf(conditional, eps, context, *, positive):
    """Total mass and distribution function of a one-dimensional conditional, by the trapezoid rule."""
    grid = jnp.exp(jnp.linspace(-30.0, 8.0, 20_001)) if positive else jnp.linspace(-60.0, 60.0, 40_001)
    log_prob = jax.vmap(lambda z: conditional.log_prob(z[None], eps, context))
    density = np.exp(np.asarray(jax.jit(log_prob)(grid)))
    grid = np.asarray(grid)
    steps = np.diff(grid) * 0.5 * (density[1:] + density[:-1])
    cumulative = np.concatenate([[0.0], np.cumsum(steps)])
    return cumulative[-1], lambda z: np.interp(z, grid, cumulative)


@pytest.mark.parametrize(("name", "context_dim"), CASES)
def test_draws_follow_the_density(name, context_dim, x64, getkey):
    """The density integrates to one; draws pass a Kolmogorov-Smirnov test against it."""
    conditional, eps, context = make(name, 1, context_dim)
    mass, cdf = integrated_cdf(conditional, eps, context, positive=CONDITIONALS[name].positive)
    np.testing.assert_allclose(mass, 1.0, atol=1e-4)
    draws = np.asarray(draws_of(conditional, eps, context, 20_000, getkey()))[:, 0]
    assert scipy.stats.kstest(draws, cdf).pvalue > FAILURE_RATE
    # Must-fail controls: a scale or a location that is off by a tenth of a standard deviation.
    assert scipy.stats.kstest(draws * 1.1, cdf).pvalue < FAILURE_RATE
    assert scipy.stats.kstest(draws + 0.1 * draws.std(), cdf).pvalue < FAILURE_RATE


def objective(z):
    """A bounded function that is not symmetric in anything."""
    return jnp.tanh(z[0]) - 0.5 * jnp.tanh(z[1]) + jnp.tanh(z[0] * z[1])


def split_parameters(conditional):
    trained, static = partition_trained(conditional)
    return trained, lambda trained: eqx.combine(trained, static)


@pytest.mark.parametrize("name", CONDITIONALS)
def test_reparameterised_gradient_is_that_of_the_density(name, x64, getkey):
    """∇_θ f(h(u; ε)) and f(z) ∇_θ log q(z|ε) have one expectation; the score alone has mean zero."""
    conditional, eps, context = make(name, 2, 2 if CONDITIONALS[name].takes_context else 0)
    trained, combine = split_parameters(conditional)

    def one(key):
        draw = lambda trained: combine(trained).sample(key, eps, context)
        path = flat(jax.grad(lambda trained: objective(draw(trained)))(trained))
        z = draw(trained)
        log_prob = lambda trained, z: combine(trained).log_prob(z, eps, context)
        score, wrong = (flat(jax.grad(log_prob)(trained, x)) for x in (z, z + 0.3))
        return path - objective(z) * score, score, wrong

    difference, score, wrong = jax.jit(jax.vmap(one))(jax.random.split(getkey(), 20_000))
    assert_mean(difference, 0.0, max_stderr=0.03)
    assert_mean(score, 0.0, max_stderr=0.03)
    assert_not_mean(wrong, 0.0)


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
        return jax.vmap(lambda k: objective(moved.sample(k, eps)))(draw_keys)

    slope = jax.jvp(values, (jnp.zeros(()),), (jnp.ones(()),))[1]
    step = 1e-5
    differences = (values(jnp.asarray(step)) - values(jnp.asarray(-step))) / (2 * step)
    np.testing.assert_allclose(slope, differences, rtol=1e-6, atol=1e-7)
    assert np.max(np.abs(slope)) > 0.1


@pytest.mark.parametrize(("name", "context_dim"), CASES)
def test_log_prob_of_jit_and_vmap(name, context_dim, getkey):
    """`log_prob_of` is `log_prob`; batches equal single calls; float32 stays float32."""
    conditional, _, _ = make(name, 2, context_dim)
    eps = jax.random.normal(getkey(), (4, CONDITIONALS[name].noise_dim))
    contexts = jax.random.normal(getkey(), (4, 2)) if context_dim else None
    z = jax.vmap(conditional.sample)(jax.random.split(getkey(), 4), eps, contexts)
    plain = jax.jit(jax.vmap(conditional.log_prob))(z, eps, contexts)
    of = jax.jit(jax.vmap(lambda z, e, c: conditional.log_prob_of(z, c)(e)))(z, eps, contexts)
    single = conditional.log_prob(z[2], eps[2], None if contexts is None else contexts[2])
    assert z.shape == (4, 2)
    assert plain.shape == (4,)
    assert z.dtype == plain.dtype == of.dtype == jnp.float32
    np.testing.assert_allclose(of, plain, rtol=2e-5)
    np.testing.assert_allclose(single, plain[2], rtol=2e-5)
    assert conditional.dim == 2
    assert conditional.noise_dim == CONDITIONALS[name].noise_dim
    assert conditional.context_dim == context_dim


@pytest.mark.parametrize(("name", "context_dim"), CASES)
def test_log_prob_pairs(name, context_dim, x64, getkey):
    """Row m and column s hold log q(z_s|ε_m); also of z far from all components."""
    conditional, _, context = make(name, 2, context_dim)
    eps = jax.random.normal(getkey(), (5, CONDITIONALS[name].noise_dim))
    z = jax.vmap(lambda k: conditional.sample(k, eps[0], context))(jax.random.split(getkey(), 3))
    z = jnp.concatenate([z, 30 * z[:1]])
    pairs = eqx.filter_jit(conditional.log_prob_pairs)(z, eps, context)
    one = eqx.filter_jit(conditional.log_prob)
    expected = np.array([[one(z_s, eps_m, context) for z_s in z] for eps_m in eps])
    assert pairs.shape == (5, 4)
    np.testing.assert_allclose(pairs, expected, rtol=1e-9, atol=1e-9)


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
