"""Logistic regression, networks and rescaled posteriors, against SciPy and NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from uivi.targets import LogisticRegression, NetworkRegression, Rescaled

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(7, 3)), RNG.normal(size=7)


def test_logistic_regression(x64):
    target = LogisticRegression.create(X, (Y > 0).astype(int), prior_scale=3.0)
    z = np.array([0.4, -1.0, 0.3])
    p = 1 / (1 + np.exp(-X @ z))
    expected = np.sum(np.log(np.where(Y > 0, p, 1 - p))) + scipy.stats.norm(0, 3).logpdf(z).sum()
    np.testing.assert_allclose(target.log_joint(jnp.asarray(z)), expected, rtol=1e-10)


def test_network(x64):
    target = NetworkRegression.create(X, Y, width=2)
    assert target.dim == (3 + 2) * 2 + 2
    z = RNG.normal(size=target.dim)
    first, bias, last = z[:6].reshape(3, 2), z[6:8], z[8:10]
    mean = np.maximum(X @ first + bias, 0) @ last + z[10]
    precision = np.exp(z[11])
    likelihood = scipy.stats.norm(mean, precision**-0.5).logpdf(Y).sum()
    # The density of log γ has the Jacobian γ.
    prior = scipy.stats.norm.logpdf(z[:-1]).sum() + scipy.stats.gamma(1, scale=10).logpdf(precision) + z[11]
    np.testing.assert_allclose(target.log_joint(jnp.asarray(z)), likelihood + prior, rtol=1e-10)
    found, log_precision = target.predict(jnp.asarray(z), jnp.asarray(X))
    np.testing.assert_allclose(found, mean, rtol=1e-10)
    assert log_precision == z[11]


@pytest.mark.parametrize("factor", [np.array([[2.0, 0.0], [-1.0, 0.5]]), np.array([2.0, 0.5])])
def test_rescaled(factor, x64):
    inner = LogisticRegression.create(X[:, :2], (Y > 0).astype(int))
    target = Rescaled.create(inner, np.array([0.3, -1.0]), factor)
    w = np.array([0.2, 0.7])
    matrix = factor if factor.ndim == 2 else np.diag(factor)
    z = np.array([0.3, -1.0]) + matrix @ w
    expected = inner.log_joint(jnp.asarray(z)) + np.log(np.linalg.det(matrix))
    np.testing.assert_allclose(target.log_joint(jnp.asarray(w)), expected, rtol=1e-10)
    np.testing.assert_allclose(target.original(jnp.asarray(w)), z, rtol=1e-10)
    np.testing.assert_allclose(target.originals(w[None]), z[None], rtol=1e-10)


def test_refusals(unchecked):
    labels = (Y > 0).astype(int)
    with pytest.raises(ValueError, match="give one label per row"):
        LogisticRegression.create(X, labels[:3])
    with pytest.raises(ValueError, match="expected labels 0 and 1, got values from 1 to 2"):
        LogisticRegression.create(X, labels + 1)
    with pytest.raises(ValueError, match="`prior_scale`"):
        LogisticRegression.create(X, labels, prior_scale=0.0)
    with pytest.raises(ValueError, match="give one value per row"):
        NetworkRegression.create(X, Y[:3])
    with pytest.raises(ValueError, match="`width` to be a positive whole number, got 0"):
        NetworkRegression.create(X, Y, width=0)
    inner = LogisticRegression.create(X, labels)
    with pytest.raises(ValueError, match="expected `loc` of shape"):
        Rescaled.create(inner, np.zeros(2), np.ones(3))
    with pytest.raises(ValueError, match="expected a `factor` with an inverse, got a singular one"):
        Rescaled.create(inner, np.zeros(3), np.zeros(3))
