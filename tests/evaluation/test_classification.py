"""Tests scores on held-out labels against a direct computation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from uivi._types import Draw
from uivi.evaluation import classification
from uivi.families import AbstractFamily, ExplicitGaussian
from uivi.targets import SoftmaxRegression

ROWS, FEATURES, CLASSES = 7, 3, 4
BLOCK = 6


def make_target():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    labels = rng.integers(0, CLASSES, ROWS)
    return SoftmaxRegression.create(features, labels, num_classes=CLASSES, batch_size=3)


@pytest.mark.parametrize("num_draws", [1, BLOCK, 2 * BLOCK + 3])
def test_against_numpy_on_the_same_draws(num_draws, monkeypatch):
    monkeypatch.setattr(classification, "_DRAWS_AT_ONCE", BLOCK)
    target, key = make_target(), jax.random.key(5)
    x, y = target.rows(jnp.arange(ROWS))
    family = ExplicitGaussian.create(target.dim, 1.5)
    found = classification.predict(key, family, target, (x, y), num_draws)

    blocks = -(-num_draws // BLOCK)
    keys = jax.random.split(key, (blocks, min(BLOCK, num_draws))).reshape(-1)[:num_draws]
    z = np.asarray(jax.vmap(lambda k: family.sample(k).z)(keys), np.float64)
    weights = z.reshape(num_draws, FEATURES + 1, CLASSES)
    logits = np.asarray(x, np.float64) @ weights[:, :-1] + weights[:, -1:]
    log_p = scipy.special.log_softmax(logits, -1)
    of_label = log_p[:, np.arange(ROWS), np.asarray(y)]
    averaged = scipy.special.logsumexp(log_p, 0) - np.log(num_draws)
    pointwise = averaged[np.arange(ROWS), np.asarray(y)]
    joint = (scipy.special.logsumexp(of_label.sum(1)) - np.log(num_draws)) / ROWS
    np.testing.assert_allclose(found.joint, joint, rtol=1e-5)
    np.testing.assert_allclose(found.pointwise, pointwise.mean(), rtol=1e-5)
    np.testing.assert_allclose(found.pointwise_stderr, pointwise.std() / np.sqrt(ROWS), rtol=1e-4)
    np.testing.assert_allclose(found.accuracy, np.mean(averaged.argmax(1) == np.asarray(y)), rtol=1e-6)
    assert (abs(found.pointwise - found.joint) < 1e-5) == (num_draws == 1)


class PointMass(AbstractFamily):
    """A family whose draws are always the same z."""

    z: jax.Array

    @property
    def dim(self):
        return self.z.shape[0]

    @property
    def context_dim(self):
        return 0

    def sample(self, key, context=None):
        return Draw(self.z, jnp.zeros(0))


def test_a_classifier_made_by_hand():
    """Two classes, and one feature that is the log-odds of class 0: confidences 0.9, 0.9, 0.6, 0.6."""
    x = np.log([[9.0], [1 / 9], [1.5], [1.5]]).astype(np.float32)
    y = np.array([0, 1, 0, 1])
    target = SoftmaxRegression.create(x, y, num_classes=2, batch_size=1)
    family = PointMass(jnp.array([1.0, 0.0, 0.0, 0.0]))
    found = classification.predict(jax.random.key(0), family, target, target.rows(jnp.arange(4)), 3)
    assert found.accuracy == 0.75
    # The two bins: 1.0 right at 0.9 confidence, 0.5 right at 0.6 confidence.
    np.testing.assert_allclose(found.calibration, 0.5 * 0.1 + 0.5 * 0.1, rtol=1e-5)
    log_p = np.log([0.9, 0.9, 0.6, 0.4])
    np.testing.assert_allclose(found.pointwise, log_p.mean(), rtol=1e-5)
    np.testing.assert_allclose(found.joint, log_p.mean(), rtol=1e-5)


@pytest.mark.parametrize(
    ("confidence", "right", "expected"),
    [
        ([1.0, 1.0], [1.0, 1.0], 0.0),
        ([1.0, 1.0], [0.0, 0.0], 1.0),
        ([0.75] * 4, [1.0, 1.0, 1.0, 0.0], 0.0),
        # Gaps of opposite sign cancel within a bin and not between bins.
        ([0.7, 0.72], [1.0, 0.0], 0.21),
        ([0.5, 0.9], [1.0, 0.0], 0.7),
    ],
)
def test_calibration_error(confidence, right, expected):
    found = classification._calibration_error(jnp.array(confidence), jnp.array(right))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_number_of_draws_must_be_positive():
    target = make_target()
    family = ExplicitGaussian.create(target.dim)
    with pytest.raises(ValueError, match="`num_draws` to be a positive whole number, got 0"):
        classification.predict(jax.random.key(0), family, target, target.rows(jnp.arange(2)), 0)
