"""The benchmarks of samplers: every log Z is found again, by other means where there are any."""

import os
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats

from uivi import datasets
from uivi.datasets import DataError
from uivi.paper.samplers import BENCHMARKS
from uivi.paper.samplers.benchmarks import centred, divided
from uivi.targets import BrownianMotion, CoxProcess, LogisticRegression, Seeds, log_density_at
from uivi.testing import z_threshold

DIMS = {
    "ionosphere": 35,
    "sonar": 61,
    "german-credit": 25,
    "german-credit-flat": 25,
    "breast-cancer": 31,
    "seeds": 26,
    "brownian": 32,
    "pines": 1_600,
    "funnel": 10,
    "rosenbrock": 4,
    "eight-gaussians": 2,
    "forty-gaussians": 2,
    "forty-gaussians-50": 50,
    "ten-students": 10,
    "ten-students-50": 50,
    "diffusion": 100,
    "diffusion-paper": 100,
}
log_densities = jax.jit(log_density_at)


def made(name):
    benchmark = BENCHMARKS[name]
    if benchmark.dataset and (not os.environ.get("UIVI_DATA") or not datasets.find(benchmark.dataset)):
        pytest.skip("UIVI_DATA is not set, or lacks the data")
    return benchmark.make()


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmark(name):
    """Each is made by its name, and has finite slopes where fits start."""
    target, evidence = made(name), BENCHMARKS[name].evidence
    assert target.dim == DIMS[name]
    assert evidence.exact == (evidence.stderr == 0.0)
    value, slope = jax.jit(jax.value_and_grad(target.log_density))(jnp.full(target.dim, 0.1))
    assert np.isfinite(value)
    assert np.all(np.isfinite(slope))
    assert np.any(slope)


def test_missing_data_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("UIVI_CACHE", str(tmp_path))
    monkeypatch.delenv("UIVI_DATA", raising=False)
    monkeypatch.setattr("uivi.datasets.download.TRIES", 0)  # as without a network
    for name in ("ionosphere", "pines"):
        with pytest.raises(DataError, match=f"run `uivi data get {name}` again, or set UIVI_DATA"):
            BENCHMARKS[name].make()


def test_features():
    x = np.array([[1.0, 5.0], [3.0, 5.0]])
    np.testing.assert_array_equal(centred(x), [[-1, 0], [1, 0]])
    np.testing.assert_array_equal(divided(x), [[1, 5], [3, 5]])


def test_the_page_has_the_same_table():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "targets.md").read_text()
    rows = []
    for name, (_, evidence, _) in BENCHMARKS.items():
        stderr = "exact" if evidence.exact else f"{evidence.stderr:.2g}"
        rows.append(f"| `{name}` | {DIMS[name]} | {evidence.log_z:.7g} | {stderr} | {evidence.source} |")
    assert [line for line in page.splitlines() if line.startswith("| `")] == rows


class Estimate:
    """log Z by importance sampling, and its standard error."""

    def __init__(self, log_weights):
        weights = np.exp(log_weights - log_weights.max())
        self.log_z = log_weights.max() + np.log(weights.mean())
        self.stderr = weights.std(ddof=1) / weights.mean() / len(weights) ** 0.5

    def agrees(self, evidence) -> bool:
        return abs(self.log_z - evidence.log_z) < z_threshold(1) * np.hypot(self.stderr, evidence.stderr)


def best_gaussian(features, labels, precision):
    """Mean and covariance of the Gaussian with the largest ELBO for a logistic regression."""
    nodes, shares = np.polynomial.hermite_e.hermegauss(20)
    shares = shares / shares.sum()
    mean, covariance = np.zeros(features.shape[1]), 1e-3 * np.eye(features.shape[1])
    for _ in range(50):
        sd = np.sqrt(np.sum(features @ covariance * features, 1))
        p = scipy.special.expit((features @ mean)[:, None] + sd[:, None] * nodes)
        curvature = features.T * ((p * (1 - p)) @ shares) @ features + precision * np.eye(len(mean))
        mean = mean + 0.5 * np.linalg.solve(curvature, features.T @ (labels - p @ shares) - precision * mean)
        covariance = 0.5 * covariance + 0.5 * np.linalg.inv(curvature)
    return mean, covariance


@pytest.mark.parametrize(
    ("name", "max_stderr"),
    [
        ("ionosphere", 0.02),
        pytest.param("sonar", 0.02, marks=pytest.mark.slow),
        pytest.param("german-credit", 0.02, marks=pytest.mark.slow),
        pytest.param("german-credit-flat", 0.02, marks=pytest.mark.slow),
        pytest.param("breast-cancer", 0.06, marks=pytest.mark.slow),
    ],
)
def test_log_z_of_regressions(name, max_stderr, x64):
    target, evidence = made(name), BENCHMARKS[name].evidence
    features, labels = np.asarray(target.features.stored()), np.asarray(target.labels.stored())
    precision = 0.0 if target.prior_scale is None else target.prior_scale**-2
    mean, covariance = best_gaussian(features, labels, precision)
    proposal = scipy.stats.multivariate_t(mean, 1.1 * covariance, df=30)
    z = proposal.rvs(20_000, random_state=np.random.default_rng(0))
    log_q = proposal.logpdf(z)
    found = Estimate(np.asarray(log_densities(target, jnp.asarray(z))) - log_q)
    assert found.stderr < max_stderr
    assert found.agrees(evidence)
    other = LogisticRegression.create(features, labels, prior_scale=1.1 * (target.prior_scale or 10.0))
    assert not Estimate(np.asarray(log_densities(other, jnp.asarray(z))) - log_q).agrees(evidence)


def log_z_of_brownian(target):
    """Integrates over both log scales; given these, the observations are jointly Gaussian."""
    steps, noises = np.arange(-6.0, 3.0, 0.1), np.arange(-20.0, 3.0, 0.1)
    step, noise = (x.ravel() for x in np.meshgrid(steps, noises, indexing="ij"))
    times = 1.0 + np.array(target.places)
    kernel = np.minimum(times[:, None], times)
    factors = np.linalg.cholesky(
        np.exp(2 * step)[:, None, None] * kernel + np.exp(2 * noise)[:, None, None] * np.eye(len(times))
    )
    white = np.linalg.solve(factors, np.array(target.observations)[:, None])[..., 0]
    logs = -0.5 * np.sum(white**2, 1) - np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(1)
    logs += scipy.stats.norm(0, 2).logpdf(step) + scipy.stats.norm(0, 2).logpdf(noise)
    logs -= 0.5 * len(times) * np.log(2 * np.pi)
    return scipy.special.logsumexp(logs) + 2 * np.log(0.1)


def test_log_z_of_brownian():
    log_z = BENCHMARKS["brownian"].evidence.log_z
    assert log_z_of_brownian(BrownianMotion()) == pytest.approx(log_z, abs=1e-5)
    # Not so without the gap.
    assert abs(log_z_of_brownian(BrownianMotion(places=tuple(range(20)))) - log_z) > 0.1


def effects_given(target, weights, log_precision):
    """Mode and curvature of every effect, given the rest: Newton's method on all at once."""
    types, extracts = np.array(target.seed_types), np.array(target.extracts)
    features = np.stack([np.ones_like(types), types, extracts, types * extracts])
    fixed, precision = weights @ features, np.exp(log_precision)[:, None]
    effects = np.zeros_like(fixed)
    for _ in range(30):
        p = scipy.special.expit(fixed + effects)
        curvature = np.array(target.sown) * p * (1 - p) + precision
        effects = effects + (target.sprouted - target.sown * p - precision * effects) / curvature
    return effects, curvature


def seeds_draws(target, mean, covariance, rng, count=20_000):
    """Draws of (a, log τ) from a Student t, then of the effects near their modes, with their log density."""
    outer = scipy.stats.multivariate_t(mean, covariance, df=5)
    first = outer.rvs(count, random_state=rng)
    modes, curvature = effects_given(target, first[:, :4], first[:, 4])
    inner = scipy.stats.t(10, modes, curvature**-0.5)
    effects = inner.rvs(modes.shape, random_state=rng)
    return np.concatenate([first, effects], 1), outer.logpdf(first) + inner.logpdf(effects).sum(1)


def test_log_z_of_seeds(x64):
    target, evidence, rng = Seeds(), BENCHMARKS["seeds"].evidence, np.random.default_rng(0)
    mean, covariance = np.array([-0.5, 0.1, 1.3, -0.8, 2.5]), np.diag([0.04, 0.1, 0.08, 0.2, 1.5])
    for _ in range(4):
        z, log_q = seeds_draws(target, mean, covariance, rng)
        log_weights = np.asarray(log_densities(target, jnp.asarray(z))) - log_q
        weights = scipy.special.softmax(log_weights)
        mean = weights @ z[:, :5]
        covariance = 1.2 * np.cov(z[:, :5].T, aweights=weights)
    found = Estimate(log_weights)
    assert found.stderr < 0.02
    assert found.agrees(evidence)
    # Not so without the Jacobian of log τ.
    assert not Estimate(log_weights - z[:, 4]).agrees(evidence)


@pytest.mark.slow
def test_elbo_of_the_best_gaussian_on_the_pines(x64):
    """It is known, 498.80, and lies below log Z. The expectation of a Poisson log likelihood is closed form."""
    target = made("pines")
    whitening, counts = np.asarray(target.whitening.stored()), np.asarray(target.counts.stored())
    precision, mean = whitening.T @ whitening, np.full(target.dim, target.mean)
    covariance = np.linalg.inv(precision)
    for _ in range(12):
        rates = np.exp(mean + 0.5 * np.diag(covariance)) / target.dim
        covariance = np.linalg.inv(precision + np.diag(rates))
        mean = mean + covariance @ (counts - rates - precision @ (mean - target.mean))
    factor = np.linalg.cholesky(covariance)
    noise = np.random.default_rng(0).normal(size=(400, target.dim))
    entropy = np.log(np.diag(factor)).sum() + 0.5 * np.sum(noise**2, 1) + 0.5 * target.dim * np.log(2 * np.pi)
    draws = jnp.asarray(mean + noise @ factor.T)
    ratios = np.asarray(log_densities(target, draws)) + entropy
    stderr = ratios.std(ddof=1) / len(ratios) ** 0.5
    assert stderr < 0.2
    assert abs(ratios.mean() - 498.80) < z_threshold(1) * stderr
    assert ratios.mean() < BENCHMARKS["pines"].evidence.log_z
    # Not so with another prior variance.
    other = CoxProcess.create(datasets.load("pines").train.x, variance=2.1)
    wrong = np.asarray(log_densities(other, draws)) + entropy
    assert abs(wrong.mean() - 498.80) > z_threshold(1) * wrong.std(ddof=1) / len(wrong) ** 0.5
