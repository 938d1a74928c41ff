"""Fits on minibatches of 20,000 rows against posteriors of all rows; what cannot be fitted so is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.special

import uivi
from uivi.fitting.problem import problem_of
from uivi.fitting.starts.checked import checked_start
from uivi.integrations.numpyro import minibatched
from uivi.targets import Anchored
from uivi.testing import assert_mean, assert_not_mean

NUM_ROWS, BATCH, NOISE, PRIOR = 20_000, 200, 0.7, 2.0
RNG = np.random.default_rng(3)
X = RNG.normal(size=(NUM_ROWS, 3)) @ np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 0.0], [0.0, 0.0, 1.0]]) + [0, 0, 1]
WEIGHTS = np.array([1.2, -0.5, 0.4])
LINEAR = X @ WEIGHTS + NOISE * RNG.normal(size=NUM_ROWS)
BINARY = RNG.random(NUM_ROWS) < scipy.special.expit(X @ WEIGHTS)


def linear(x, y=None):
    weights = numpyro.sample("weights", dist.Normal(0.0, PRIOR).expand([3]).to_event(1))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ weights, NOISE), obs=y)


def logistic(x, y=None):
    weights = numpyro.sample("weights", dist.Normal(0.0, PRIOR).expand([3]).to_event(1))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=x @ weights), obs=y)


def linear_posterior():
    """Conjugate: mean and precision, exact."""
    precision = X.T @ X / NOISE**2 + np.eye(3) / PRIOR**2
    return np.linalg.solve(precision, X.T @ LINEAR / NOISE**2), precision


def logistic_posterior():
    """Newton's method in float64; with 20,000 rows mode and curvature are the posterior to 1/20,000."""
    mode = np.zeros(3)
    for _ in range(30):
        p = scipy.special.expit(X @ mode)
        precision = (X * (p * (1 - p))[:, None]).T @ X + np.eye(3) / PRIOR**2
        mode = mode + np.linalg.solve(precision, X.T @ (BINARY - p) - mode / PRIOR**2)
    return mode, precision


def standardised(draws, mean, sd):
    """Errors in standard deviations, and squares less one: all zero in the mean."""
    errors = (np.asarray(draws, np.float64) - mean) / sd
    return np.concatenate([errors, errors**2 - 1], 1)


@pytest.mark.slow
def test_defaults_find_the_conjugate_posterior(getkey):
    """Means and variances to a twentieth, since an anchor removes the noise of the minibatches."""
    target = minibatched(linear, {"x": X, "y": LINEAR}, BATCH)
    posterior = uivi.fit(target, key=getkey(), num_steps=350, check=False, progress=False)
    mean, precision = linear_posterior()
    draws = posterior.sample(getkey(), 20_000)["weights"]
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))
    assert isinstance(posterior.target, Anchored)
    assert_mean(standardised(draws, mean, sd), 0.0, max_stderr=0.012, bias=0.05)
    # The evidence of all rows, in closed form; float32 knows it to 0.002.
    errors = LINEAR - X @ mean
    fit = -0.5 * (errors @ errors) / NOISE**2 - NUM_ROWS * np.log(NOISE * np.sqrt(2 * np.pi))
    prior = -0.5 * mean @ mean / PRIOR**2 - 3 * np.log(PRIOR)
    evidence = fit + prior - 0.5 * np.linalg.slogdet(precision)[1]
    check = posterior.check()
    assert evidence - 0.1 < check.lower.mean < evidence + 5 * check.lower.stderr + 0.01
    assert check.verdict == uivi.Verdict.GOOD


def unscaled(x, y=None):
    """The control: the likelihood of a minibatch as if it were all the data."""
    weights = numpyro.sample("weights", dist.Normal(0.0, PRIOR).expand([3]).to_event(1))
    with numpyro.handlers.scale(scale=BATCH / NUM_ROWS), numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=x @ weights), obs=y)


@pytest.mark.parametrize("model", [logistic, pytest.param(unscaled, marks=pytest.mark.slow)])
def test_a_logistic_regression_is_found_from_afar(model, getkey):
    """Mean-field, whose best variances are 1 / diag(precision); starts 70 standard deviations away."""
    target = minibatched(model, {"x": X, "y": BINARY}, BATCH)
    posterior = uivi.fit(
        target,
        family=uivi.ExplicitGaussian.create(3, 0.1),
        optimizer=uivi.training.optimisers.adam_cosine(3_000, 1e-2, clip=np.inf),
        num_steps=3_000,
        key=getkey(),
        check=False,
        progress=False,
    )
    mode, precision = logistic_posterior()
    draws = posterior.sample(getkey(), 20_000)["weights"]
    errors = standardised(draws, mode, 1 / np.sqrt(np.diag(precision)))
    if model is unscaled:
        assert_not_mean(errors, 0.0)
        assert errors[:, 3:].mean() > 10.0
    else:
        assert_mean(errors, 0.0, max_stderr=0.012, bias=0.15)


def local(x, y):
    """A latent variable for each row."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", x.shape[0]):
        level = numpyro.sample("level", dist.Normal(mean, 1.0))
        numpyro.sample("y", dist.Normal(level, 1.0), obs=y)


def centred(x, y):
    weights = numpyro.sample("weights", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Normal((x - x.mean(0)) @ weights, 1.0), obs=y)


def scaled_prior(x, y):
    weights = numpyro.sample("weights", dist.Normal(0.0, x.std(0)).to_event(1))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ weights, 1.0), obs=y)


def summed(x, y):
    weights = numpyro.sample("weights", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    numpyro.factor("likelihood", dist.Normal(x @ weights, 1.0).log_prob(y).sum())


def fixed_plate(x, y):
    weights = numpyro.sample("weights", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    with numpyro.plate("rows", 100):
        numpyro.sample("y", dist.Normal(x @ weights, 1.0), obs=y)


def subsampled(x, y):
    weights = numpyro.sample("weights", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    with numpyro.plate("rows", 100, subsample_size=x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ weights, 1.0), obs=y)


def nothing_observed(x, y):
    weights = numpyro.sample("weights", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    numpyro.deterministic("mean", x @ weights + y)


FEW = {"x": X[:100], "y": LINEAR[:100]}
REFUSED = {
    "local": (local, FEW, 10, "of the whole model, got 'level' with one value per row .*integrate it out"),
    "a mean of the batch": (centred, FEW, 10, "independent given the latent variables, got .* of 'y'"),
    "a prior of the batch": (scaled_prior, FEW, 10, "priors that do not depend on the rows, got 'weights'"),
    "a sum over the batch": (summed, FEW, 10, "got 'likelihood' with a log probability .* do not sum over"),
    "a plate of fixed size": (fixed_plate, FEW, 10, r"any number of rows: .*plate\('rows', x.shape\[0\]\)"),
    "a subsampled plate": (subsampled, FEW, 10, "whole plates, got 'rows' with 32 of 100: leave"),
    "nothing observed": (nothing_observed, FEW, 10, "an observed variable with one value per row, got none"),
    "different lengths": (
        linear, FEW | {"y": LINEAR[:99]}, 10,
        r"the same number of rows, got x \(100, 3\), y \(99,\): pass arrays without rows in model_kwargs",
    ),
    "a number": (linear, FEW | {"y": 1.0}, 10, r"got x \(100, 3\), y \(\)"),
    "a batch beyond the data": (linear, FEW, 101, r"batch_size of at most 100 \(the rows of data\), got 101"),
    "a batch of nothing": (linear, FEW, 0, "`batch_size` to be a positive whole number, got 0"),
    "one row": (linear, {"x": X[:1], "y": LINEAR[:1]}, 1, "at least two rows of data, got one"),
    "NaN": (linear, FEW | {"y": np.full(100, np.nan)}, 10, "expected finite data"),
    "a missing argument": (linear, {"y": LINEAR}, 10, "NumPyro model failed: TypeError: .*missing 1 required"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_minibatches_cannot_fit_is_refused(name, unchecked):
    model, data, batch_size, words = REFUSED[name]
    with pytest.raises(ValueError, match=f"(?s){words}"):
        minibatched(model, data, batch_size)


@pytest.mark.parametrize("data", [(X, LINEAR), {}])
def test_data_comes_by_name(data, unchecked):
    with pytest.raises(TypeError, match="arrays by the names of the model's arguments"):
        minibatched(linear, data, 10)


def test_two_rows_are_enough():
    target = minibatched(linear, {"x": X[:2], "y": LINEAR[:2]}, 1)
    whole = uivi.integrations.numpyro.target(linear, (X[:2], LINEAR[:2]))
    z = jnp.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(target.log_density(z), whole.log_density(z), rtol=1e-5)


def test_a_start_on_part_of_the_data_is_moved_to_that_of_all(getkey, monkeypatch):
    """Without the steps on all rows it is off by several standard deviations."""
    monkeypatch.setattr("uivi.targets.minibatched.NUM_ROUGH", 500)
    target = minibatched(linear, {"x": X, "y": LINEAR}, BATCH)
    problem = problem_of(target, getkey())
    start = checked_start(getkey(), problem, problem.target)
    assert start is not None
    mean, precision = linear_posterior()
    errors = (np.asarray(start.loc, np.float64) - mean) @ np.linalg.cholesky(precision)
    assert np.abs(errors).max() < 0.3
    at_mean = jax.grad(problem.rough)(jnp.asarray(mean, jnp.float32))
    assert np.abs(np.linalg.solve(np.linalg.cholesky(precision), np.asarray(at_mean, np.float64))).max() > 3.0
