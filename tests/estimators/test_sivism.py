"""SIVI-SM against the closed form of the Fisher divergence between two Gaussians."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.targets.test_models import make_vae
from uivi.estimators import SIVISM
from uivi.networks import MLP
from uivi.testing import (
    TARGET_COVARIANCE,
    TARGET_MEAN,
    assert_mean,
    assert_not_mean,
    draw_pairs,
    exact_gradient,
    fisher_divergence,
    flat,
    gradient_samples,
    make_oracle,
    negative_elbo,
    score_difference,
)
from uivi.trainable import trained

NUM_ESTIMATES = 6_000
STILL = 1e-12
"""A learning rate by which f does not move."""


def exact_game():
    return exact_gradient(fisher_divergence, make_oracle().conditional)


def affine_net(matrix, offset) -> MLP:
    """The network z -> matrix z + offset, all of it in the skip connection and the last bias."""
    net = MLP.create(jax.random.key(0), 2, 2, width=2, depth=1, skip=jnp.asarray(matrix))
    last = lambda net: (net.layers[-1].weight, net.layers[-1].bias)
    return eqx.tree_at(last, net, (jnp.zeros((2, 2)), jnp.asarray(offset)))


def exact_net() -> MLP:
    return affine_net(*score_difference(make_oracle().conditional))


def model_net() -> MLP:
    """The score of p, as if q had none."""
    precision = np.linalg.inv(TARGET_COVARIANCE)
    return affine_net(-precision, precision @ TARGET_MEAN)


def state_with(net: MLP):
    estimator = SIVISM(24, learning_rate=STILL)
    state = estimator.init(jax.random.key(0), *make_oracle())
    return estimator, state._replace(net=net, opt_state=estimator._optimizer.init(trained(net)))


def inner_gradients(key, net):
    """Independent gradients of f's loss. Adam's first moment holds a tenth of each."""
    estimator, state = state_with(net)

    def one(key):
        estimate = estimator.estimate(key, tuple(make_oracle()), (), jnp.asarray(0), state)
        return 10 * flat(estimate.state.opt_state[0].mu)

    return jax.jit(jax.vmap(one))(jax.random.split(key, NUM_ESTIMATES))


def test_the_difference_of_the_scores_is_the_inner_optimum(x64, getkey):
    """There the gradient of f's loss vanishes on average; at the score of p alone it does not."""
    assert_mean(inner_gradients(getkey(), exact_net()), 0.0, max_stderr=0.08)
    assert_not_mean(inner_gradients(getkey(), model_net()), 0.0)


def outer_gradients(key, net):
    estimator, state = state_with(net)
    return gradient_samples(key, estimator, tuple(make_oracle()), NUM_ESTIMATES, state=state)


def test_gradient_of_the_divergence_at_the_exact_f(x64, getkey):
    """It is not that of the ELBO."""
    samples = outer_gradients(getkey(), exact_net())
    assert_mean(samples, exact_game(), max_stderr=0.1)
    assert_not_mean(-samples, exact_game())
    assert_not_mean(samples, exact_gradient(negative_elbo, make_oracle().conditional))


@pytest.mark.parametrize("make", [model_net, lambda: affine_net(np.eye(2), np.zeros(2))])
def test_a_wrong_f_biases_the_gradient(make, x64, getkey):
    """The declared bias."""
    assert_not_mean(outer_gradients(getkey(), make()), exact_game())


def test_inner_updates_find_the_difference_of_the_scores(getkey):
    """Mean squared error relative to its mean square, over draws of q that f has not seen."""
    oracle = make_oracle()
    estimator = SIVISM(128, num_inner=5, width=32, learning_rate=3e-3)
    state = estimator.init(getkey(), *oracle)

    @eqx.filter_jit
    def run(state, key):
        def update(state, key):
            return estimator.estimate(key, tuple(oracle), (), jnp.asarray(0), state).state, None

        return jax.lax.scan(update, state, jax.random.split(key, 300))[0]

    z = draw_pairs(getkey(), oracle.family, 2_000).z
    matrix, offset = (jnp.asarray(x, z.dtype) for x in score_difference(oracle.conditional))
    exact = z @ matrix.T + offset[None]
    error = lambda net: jnp.mean((jax.vmap(net)(z) - exact) ** 2) / jnp.mean(exact**2)
    assert error(state.net) > 0.5
    assert error(run(state, getkey()).net) < 0.01
    assert error(model_net()) > 0.07


def test_the_gradient_belongs_to_the_improved_f(x64, getkey):
    """Several inner steps of one update are those of several updates, as far as f goes."""
    estimator, key = SIVISM(8, num_inner=3, width=4), getkey()
    params = tuple(make_oracle())
    state = estimator.init(getkey(), *params)
    whole = estimator.estimate(key, params, (), jnp.asarray(0), state)
    assert whole.state.opt_state[0].count == 3
    at_once = estimator.objective(jax.random.split(key)[1], params, (), whole.state.net)[0]
    before = estimator.objective(jax.random.split(key)[1], params, (), state.net)[0]
    assert at_once != before
    loss = lambda family: estimator.objective(
        jax.random.split(key)[1], (family, params[1]), (), whole.state.net
    )[0]
    np.testing.assert_allclose(flat(whole.grads[0]), flat(eqx.filter_grad(loss)(params[0])), rtol=1e-10)


def test_bad_arguments(getkey):
    with pytest.raises(ValueError, match="`num_inner` to be a positive whole number, got 0"):
        SIVISM(num_inner=0)
    with pytest.raises(TypeError, match="without trained arrays for SIVISM, got BernoulliVAE.*use uivi.UIVI"):
        SIVISM(2).init(getkey(), make_oracle().family, make_vae())
