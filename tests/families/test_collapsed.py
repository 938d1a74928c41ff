"""Reverse densities of a Gaussian with many outputs, as quadratic forms in the features."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uivi.families import Affine, Gaussian, RawScale
from uivi.families.conditionals.base import AbstractAutodiffConditional
from uivi.networks import MLP

NOISE, WIDTH, DIM, CONTEXT = 3, 5, 60, 4
NETS = {
    "plain": dict,
    "context": lambda: {"context_dim": CONTEXT},
    "skip": lambda: {"skip": jnp.ones((DIM, NOISE))},
    "short skip": lambda: {"skip": jnp.ones((2, NOISE))},
}


def make(key, name, dim=DIM):
    keys = jax.random.split(key, 4)
    net = MLP.create(keys[0], NOISE, dim, width=WIDTH, activation=jnp.tanh, **NETS[name]())
    conditional = Gaussian(net, RawScale.create(dim, 0.3))
    context = jax.random.normal(keys[1], (CONTEXT,)) if net.context_dim else None
    near = jax.random.normal(keys[2], (NOISE,))
    return conditional, conditional.sample(keys[3], near, context), near, context


@pytest.mark.parametrize("name", NETS)
def test_collapsed_density_is_the_density(name, x64, getkey):
    conditional, z, near, context = make(getkey(), name)
    eps = jax.random.normal(getkey(), (7, NOISE))
    value = lambda function: jax.vmap(jax.value_and_grad(function))(eps)
    collapsed = value(conditional.log_prob_near(z, near, context))
    direct = value(lambda e: conditional.log_prob(z, e, context))
    for a, b in zip(collapsed, direct, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_it_is_collapsed_only_where_z_is_large(getkey):
    """The program of an evaluation holds an array of z's size, or it does not."""
    for dim, collapsed in ((DIM, True), (WIDTH, False)):
        conditional, z, near, _ = make(getkey(), "plain", dim)
        program = str(jax.make_jaxpr(conditional.log_prob_near(z, near))(near))
        assert (f"f32[{dim}]" not in program.split("let")[1]) is collapsed


def test_float32_rounding_near_the_start(getkey):
    """Ten thousand coordinates, a shift of many σ: the difference that accept or reject sees stays exact."""
    conditional, z, near, _ = make(getkey(), "plain", 10_000)
    eps = near[None] + 0.05 * jax.random.normal(getkey(), (20, NOISE))
    direct = lambda e: conditional.log_prob(z, e)
    collapsed = conditional.log_prob_near(z, near)
    change = jax.vmap(collapsed)(eps) - collapsed(near)
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda x: x.astype(float) if eqx.is_inexact_array(x) else x, conditional)
        exact = jax.vmap(lambda e: wide.log_prob(z.astype(float), e))(eps.astype(float))
        exact -= wide.log_prob(z.astype(float), near.astype(float))
    error = np.abs(np.asarray(change, float) - np.asarray(exact))
    rounding = np.abs(np.asarray(jax.vmap(direct)(eps) - direct(near), float) - np.asarray(exact))
    assert error.max() < 2 * rounding.max() + 1e-2


@pytest.mark.parametrize("name", NETS)
def test_the_mean_score_reads_out_once(name, x64, getkey):
    conditional, z, _, context = make(getkey(), name)
    eps = jax.random.normal(getkey(), (6, NOISE))
    weights = jax.nn.softmax(jax.random.normal(getkey(), (6,)))
    mine = conditional.mean_score(z, eps, weights, context)
    general = AbstractAutodiffConditional.mean_score(conditional, z, eps, weights, context)
    np.testing.assert_allclose(mine, general, rtol=1e-10)


def test_full_covariance_collapses_inside(x64, getkey):
    inner, z, near, _ = make(getkey(), "plain")
    affine = Affine.create(inner, jnp.ones(DIM), jnp.eye(DIM) * 2 + jnp.tril(jnp.ones((DIM, DIM)), -1))
    eps = jax.random.normal(getkey(), (NOISE,))
    np.testing.assert_allclose(affine.log_prob_near(z, near)(eps), affine.log_prob(z, eps), rtol=1e-10)
    mine = affine.mean_score(z, eps[None], jnp.ones(1))
    np.testing.assert_allclose(mine, jax.grad(affine.log_prob)(z, eps), rtol=1e-8)
