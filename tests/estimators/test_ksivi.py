"""KSIVI against the closed form of the discrepancy between two Gaussians."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from tests.targets.test_models import make_vae
from uivi.estimators import (
    KSIVI,
    AbstractPairs,
    FixedBandwidth,
    GaussianKernel,
    InverseMultiquadric,
    MedianBandwidth,
    TwoBatches,
    WithinBatch,
)
from uivi.estimators.residuals import Residuals, residuals
from uivi.families import LinearGaussian
from uivi.testing import (
    assert_mean,
    assert_not_mean,
    exact_gradient,
    gradient_samples,
    make_oracle,
    negative_elbo,
    score_difference,
)

NUM_ESTIMATES = 6_000
LENGTH = 1.2


def gaussian_discrepancy(conditional: LinearGaussian, length):
    """KSD² with a Gaussian kernel, which times both densities is a Gaussian in (z, z′), but for a factor."""
    mean, covariance = conditional.marginal()
    matrix, offset = score_difference(conditional)
    size, inverse = len(mean), jnp.linalg.inv(covariance)
    eye = jnp.eye(size) / length**2
    precision = jnp.block([[inverse + eye, -eye], [-eye, inverse + eye]])
    between = jnp.linalg.inv(precision)[:size, size:]
    constant = jnp.linalg.det(jnp.eye(size) + 2 * covariance / length**2) ** -0.5
    middle = matrix @ mean + offset
    return constant * (jnp.trace(matrix @ between @ matrix.T) + middle @ middle)


def multiquadric_discrepancy(conditional: LinearGaussian, length):
    """The same with (1 + r)^(-1/2), a mixture of Gaussian kernels exp(-s r) over s ~ Gamma(1/2)."""
    nodes, weights = scipy.special.roots_genlaguerre(30, -0.5)
    terms = [gaussian_discrepancy(conditional, length / s**0.5) for s in nodes]
    return jnp.stack(terms) @ (weights / weights.sum())


KERNELS = {
    "gaussian": (GaussianKernel, gaussian_discrepancy),
    "multiquadric": (InverseMultiquadric, multiquadric_discrepancy),
}


def gradient_of(discrepancy, length=LENGTH):
    return exact_gradient(lambda c: discrepancy(c, length), make_oracle().conditional)


def samples_of(key, estimator):
    return gradient_samples(key, estimator, tuple(make_oracle()), NUM_ESTIMATES)


@pytest.mark.parametrize("pairs", [TwoBatches(), WithinBatch()], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("name", KERNELS)
def test_gradient_of_the_discrepancy(name, pairs, x64, getkey):
    """Unbiased with a fixed bandwidth. It is not the gradient of another bandwidth, nor that of the ELBO."""
    kernel, discrepancy = KERNELS[name]
    samples = samples_of(getkey(), KSIVI(24, kernel(FixedBandwidth(LENGTH)), pairs))
    assert_mean(samples, gradient_of(discrepancy), max_stderr=0.04)
    assert_not_mean(samples, gradient_of(discrepancy, 2 * LENGTH))
    assert_not_mean(samples, exact_gradient(negative_elbo, make_oracle().conditional))


def without_conditional_score(key, family, target, site, context, num_draws):
    """Of p alone."""
    draws = residuals(key, family, target, site, context, num_draws)
    return draws._replace(value=jax.vmap(jax.grad(target.log_joint), (0, None))(draws.z, site))


def with_held_scores(key, family, target, site, context, num_draws):
    """Differentiated through the kernel only."""
    draws = residuals(key, family, target, site, context, num_draws)
    return draws._replace(value=jax.lax.stop_gradient(draws.value))


@pytest.mark.parametrize("faulty", [without_conditional_score, with_held_scores])
def test_wrong_residuals_are_noticed(faulty, x64, getkey, monkeypatch):
    monkeypatch.setattr("uivi.estimators.ksivi.residuals", faulty)
    samples = samples_of(getkey(), KSIVI(16, GaussianKernel(FixedBandwidth(LENGTH))))
    assert_not_mean(samples, gradient_of(gaussian_discrepancy))


class WithDiagonal(AbstractPairs):
    """A V-statistic: every draw is paired with itself too."""

    def mean(self, key, draw, kernel):
        here = draw(key)
        return jnp.mean(kernel(here.z, here.z) * (here.value @ here.value.T)), here


def test_pairs_of_a_draw_with_itself_are_noticed(x64, getkey):
    samples = samples_of(getkey(), KSIVI(16, GaussianKernel(FixedBandwidth(LENGTH)), WithDiagonal()))
    assert_not_mean(samples, gradient_of(gaussian_discrepancy))


def test_the_residual_has_the_mean_of_the_scores(x64, getkey):
    """Given z; so its products with z have those of s_p - s_q."""
    oracle = make_oracle()
    draws = residuals(getkey(), *oracle, (), None, 20_000)
    assert isinstance(draws, Residuals)
    matrix, offset = score_difference(oracle.conditional)
    errors = draws.value - (draws.z @ matrix.T + offset[None])
    products = (errors[:, :, None] * draws.z[:, None]).reshape(len(errors), -1)
    assert_mean(jnp.concatenate([errors, products], 1), 0.0, max_stderr=0.05)
    np.testing.assert_allclose(draws.log_joint, jax.vmap(oracle.target.log_density)(draws.z))


def test_kernels_and_bandwidths():
    x, y = jnp.array([[0.0, 0.0], [1.0, 2.0]]), jnp.array([[0.0, 3.0], [1.0, 1.0], [4.0, 0.0]])
    squares = jnp.array([[9.0, 2.0, 16.0], [2.0, 1.0, 13.0]])
    half = squares / (2 * 1.5**2)
    np.testing.assert_allclose(GaussianKernel(FixedBandwidth(1.5))(x, y), np.exp(-half), rtol=1e-6)
    np.testing.assert_allclose(InverseMultiquadric(FixedBandwidth(1.5))(x, y), (1 + half) ** -0.5, rtol=1e-6)
    # The median of 1, 2, 2, 9, 13, 16 is 5.5, and there are two rows.
    np.testing.assert_allclose(GaussianKernel()(x, y), np.exp(-squares * np.log(3) / 5.5), rtol=1e-6)
    assert not np.any(jax.grad(MedianBandwidth().square)(squares))


def test_a_bandwidth_of_zero_spoils_an_update_in_the_open(getkey):
    """All points coincide: the gradient is not finite, and the loop skips and counts such updates."""
    conditional = LinearGaussian(jnp.zeros((2, 2)), jnp.zeros(2), jnp.full(2, 1e-30))
    family = type(make_oracle().family)(make_oracle().family.mixing, conditional)
    samples = gradient_samples(getkey(), KSIVI(3), (family, make_oracle().target), 1)
    assert not np.all(np.isfinite(samples))


def test_bad_arguments(getkey):
    with pytest.raises(ValueError, match="expected `length` to be positive and finite, got 0.0"):
        FixedBandwidth(0.0)
    with pytest.raises(ValueError, match="at least two draws for pairs within a batch, got num_draws=1"):
        KSIVI(1, pairs=WithinBatch())
    with pytest.raises(TypeError, match="without trained arrays for KSIVI, got BernoulliVAE.*use uivi.UIVI"):
        KSIVI(2).init(getkey(), make_oracle().family, make_vae())
