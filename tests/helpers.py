"""Statistical assertions at one declared failure rate, and the linear-Gaussian oracle problem."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

from uivi._types import Draw
from uivi.families import LinearGaussian, SemiImplicit, StandardNormal
from uivi.reverse import sample_reverse
from uivi.targets import Density
from uivi.trainable import trained

FAILURE_RATE = 1e-5
"""Probability that a correct program fails one statistical assertion (keys are fixed, so it is decided
once, when the test is written, and again when a random stream changes)."""


def z_threshold(num_comparisons: int) -> float:
    """Two-sided normal quantile at the failure rate, shared among the comparisons (Bonferroni)."""
    return float(scipy.stats.norm.isf(FAILURE_RATE / 2 / num_comparisons))


def _deviation(samples, exact):
    """Mean minus exact value, standard error, and the threshold in standard errors."""
    samples = np.asarray(samples, np.float64)
    assert np.all(np.isfinite(samples))
    exact = np.broadcast_to(np.asarray(exact, np.float64), samples.shape[1:])
    stderr = samples.std(0, ddof=1) / np.sqrt(samples.shape[0])
    return samples.mean(0) - exact, stderr, z_threshold(max(exact.size, 1))


def assert_mean(samples, exact, *, max_stderr: float, bias: float = 0.0) -> None:
    """Check that independent samples (first axis) have the exact mean, in every coordinate.

    `max_stderr` gives the test its power: the standard error must not exceed it. `bias` is the declared
    bias of a method that has one.
    """
    deviation, stderr, z = _deviation(samples, exact)
    assert stderr.max() <= max_stderr, f"no power: standard error {stderr.max():.2g} > {max_stderr}"
    rounding = 1e-9 * (1 + np.abs(exact))
    excess = np.abs(deviation) - z * stderr - bias - rounding
    worst = np.unravel_index(np.argmax(excess), np.shape(excess))
    assert np.all(excess <= 0), (
        f"mean is off by {deviation[worst]:.3g} = {deviation[worst] / stderr[worst]:.1f} standard errors "
        f"at {worst} (allowed {z:.1f}, bias {bias})"
    )


def assert_not_mean(samples, exact) -> None:
    """A must-fail control: some coordinate's mean must differ significantly from `exact`."""
    deviation, stderr, z = _deviation(samples, exact)
    worst = np.max(np.abs(deviation) / np.maximum(stderr, 1e-12))
    assert worst > z, f"a faulty method went unnoticed: {worst:.1f} standard errors, {z:.1f} needed"


TARGET_MEAN = np.array([0.7, -1.1])
TARGET_COVARIANCE = np.array([[1.3, 0.5], [0.5, 0.6]])
LOG_CONSTANT = 1.7
"""The target is not normalised."""


def _log_density(z):
    residual = z - jnp.asarray(TARGET_MEAN, z.dtype)
    precision = jnp.asarray(np.linalg.inv(TARGET_COVARIANCE), z.dtype)
    return LOG_CONSTANT - 0.5 * residual @ precision @ residual


class Oracle(NamedTuple):
    """A family and a target for which every quantity of the method is known."""

    family: SemiImplicit
    target: Density

    @property
    def conditional(self) -> LinearGaussian:
        conditional = self.family.conditional
        assert isinstance(conditional, LinearGaussian)
        return conditional


def make_oracle(noise_dim: int = 2) -> Oracle:
    """D = 2 and nothing symmetric, so that signs, transposes and swapped axes show."""
    weight = jnp.array([[0.9, 0.4, -0.3], [-0.5, 0.7, 0.6]])[:, :noise_dim]
    conditional = LinearGaussian(weight, jnp.array([0.3, -0.2]), jnp.array([0.6, 0.9]))
    return Oracle(SemiImplicit(StandardNormal(noise_dim), conditional), Density(_log_density, 2))


def expected_log_density(mean, covariance):
    """E log p(x, z) of the oracle's target under N(mean, covariance)."""
    precision = jnp.linalg.inv(jnp.asarray(TARGET_COVARIANCE, mean.dtype))
    return _log_density(mean) - 0.5 * jnp.trace(precision @ covariance)


def negative_elbo(conditional: LinearGaussian):
    """Closed form, with the entropy of the marginal."""
    mean, covariance = conditional.marginal()
    entropy = 0.5 * jnp.linalg.slogdet(2 * jnp.pi * jnp.e * covariance)[1]
    return -expected_log_density(mean, covariance) - entropy


def negative_conditional_elbo(conditional: LinearGaussian):
    """The same with H(z|ε) for H(z): what a sampler that never moves maximises."""
    entropy = jnp.sum(jnp.log(conditional.scale)) + 0.5 * conditional.dim * jnp.log(2 * jnp.pi * jnp.e)
    return -expected_log_density(*conditional.marginal()) - entropy


def exact_gradient(objective, conditional: LinearGaussian):
    """Flat gradient of a closed-form objective in weight, bias and scale."""
    return flat(jax.grad(objective)(conditional))


def flat(tree):
    """All inexact leaves in one vector."""
    leaves = jax.tree.leaves(trained(tree))
    return jnp.concatenate([jnp.ravel(leaf) for leaf in leaves])


compiled_reverse = eqx.filter_jit(sample_reverse)


def draw_pairs(key, family: SemiImplicit, num: int, contexts=None) -> Draw:
    """Exact draws (z, ε) of the joint."""
    return jax.vmap(family.sample)(jax.random.split(key, num), contexts)


def trained_state(key, sampler, family: SemiImplicit, num_updates: int, contexts=None):
    """The sampler's state after so many updates of 64 draws each."""
    init_key, run_key = jax.random.split(key)

    @eqx.filter_jit
    def run(state):
        def update(state, key):
            draw_key, reverse_key = jax.random.split(key)
            draws = draw_pairs(draw_key, family, 64, contexts)
            return sample_reverse(reverse_key, sampler, family, draws, contexts, state).state, None

        return jax.lax.scan(update, state, jax.random.split(run_key, num_updates))[0]

    state = sampler.init(init_key, family)
    return run(state) if num_updates else state


def gradient_samples(key, estimator, params, num: int, *, state=None, step: int = 0, pick=lambda g: g[0]):
    """`num` independent gradient estimates of the family's parameters, flat: shape (num, P).

    `pick` takes other parameters from the gradient of (family, target).
    """
    family, target = params
    init_key, run_key = jax.random.split(key)
    state = estimator.init(init_key, family, target) if state is None else state

    def one(key):
        # Sites may hold random keys: every estimate has its own.
        sites = target.sites(jax.random.fold_in(key, 1), jnp.asarray(step))
        return flat(pick(estimator.estimate(key, params, sites, jnp.asarray(step), state).grads))

    return jax.jit(jax.vmap(one))(jax.random.split(run_key, num))


def assert_regression_is_constrained(target, x):
    """Of a model with a positive `scale`, two `weights` and the `mean` that they give: one draw, by name."""
    draw = target.constrain(jnp.array([0.3, 0.2, -0.7]))
    np.testing.assert_allclose(draw["scale"], np.exp(0.3), rtol=1e-6)
    np.testing.assert_allclose(draw["mean"], 0.2 - 0.7 * x, rtol=1e-5)
    assert set(draw) == {"scale", "weights", "mean"}
