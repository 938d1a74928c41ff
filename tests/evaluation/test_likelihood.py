"""Tests estimators of log p(x) on a linear-Gaussian model, whose marginal is known."""

import functools
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from uivi.evaluation import likelihood
from uivi.evaluation.likelihood import SIDES, Likelihood, SiteValues, StudentT
from uivi.families import (
    MLP,
    AbstractMixing,
    Gaussian,
    LogScale,
    NetGaussian,
    SemiImplicit,
    StandardNormal,
    TwoNetGaussian,
)
from uivi.networks import Linear
from uivi.targets import AbstractTarget
from uivi.testing import assert_mean, assert_not_mean, z_threshold

MATRIX = np.array([[1.0, 0.4], [-0.6, 0.9], [0.5, -0.7]])
OFFSET = np.array([0.3, -0.2, 0.1])
NOISE = 0.8
IMAGES = np.array([[0.4, -0.9, 1.3], [-1.1, 0.2, 0.6]])

# The exact posterior N(GAIN (x - OFFSET), COVARIANCE), and a family that is not it.
COVARIANCE = np.linalg.inv(np.eye(2) + MATRIX.T @ MATRIX / NOISE**2)
GAIN = COVARIANCE @ MATRIX.T / NOISE**2
SHIFT = np.array([0.1, -0.15])
Q_COVARIANCE = 1.7 * COVARIANCE * np.array([[1.0, 0.8], [0.8, 1.0]])
COMPONENT = 0.2
"""Standard deviation of q(z|ε), a third of the standard deviation of q(z)."""

LOG_MARGINALS = scipy.stats.multivariate_normal(OFFSET, MATRIX @ MATRIX.T + NOISE**2 * np.eye(3)).logpdf(IMAGES)
"""Log p(x) of the images."""

REPEATS = 1_000
FEW, MANY_DRAWS, MANY_MIXING = (4, 20), (80, 20), (80, 800)
"""Budgets: S and M."""


class LinearModel(AbstractTarget):
    """z ~ N(0, I), x ~ N(MATRIX z + OFFSET, NOISE² I); a site is one x."""

    dim = 2
    num_sites = 2

    def sites(self, key, step):
        return jnp.asarray(IMAGES)

    def context(self, site):
        return site

    def log_joint(self, z, site):
        log_normal = jax.scipy.stats.norm.logpdf
        mean = jnp.asarray(MATRIX) @ z + jnp.asarray(OFFSET)
        return jnp.sum(log_normal(site, mean, NOISE)) + jnp.sum(log_normal(z))


def _identity(x):
    return x


def linear_net(weight, bias, context_weight=None):
    """Returns x -> weight x + context_weight c + bias as an MLP."""
    size = len(bias)
    layers = Linear(jnp.asarray(weight), jnp.asarray(bias)), Linear(jnp.eye(size), jnp.zeros(size))
    context_weight = None if context_weight is None else jnp.asarray(context_weight)
    return MLP(layers, context_weight, None, _identity)


def semi_implicit():
    """Returns q(z|x) = N(GAIN (x - OFFSET) + SHIFT, Q_COVARIANCE) with narrow components."""
    weight = np.linalg.cholesky(Q_COVARIANCE - COMPONENT**2 * np.eye(2))
    net = linear_net(weight, SHIFT - GAIN @ OFFSET, GAIN)
    return SemiImplicit(StandardNormal(2), Gaussian(net, LogScale(jnp.full(2, np.log(COMPONENT)))))


def explicit():
    """Returns the same family without the correlation."""
    raw = np.log(np.expm1(np.sqrt(np.diag(Q_COVARIANCE))))
    return TwoNetGaussian(linear_net(GAIN, SHIFT - GAIN @ OFFSET), linear_net(np.zeros((2, 3)), raw))


def elbo(covariance):
    """Returns log p(x) minus the divergence of the family from the posterior, in closed form."""
    inverse = np.linalg.inv(COVARIANCE)
    log_ratio = np.linalg.slogdet(COVARIANCE)[1] - np.linalg.slogdet(covariance)[1]
    divergence = 0.5 * (np.trace(inverse @ covariance) + SHIFT @ inverse @ SHIFT - 2 + log_ratio)
    return LOG_MARGINALS - divergence


def settings(num_draws, num_mixing):
    return Likelihood(num_draws, num_mixing, sites_at_once=200, student=StudentT(rounds=1, times=3))


def repeated_sites():
    return jnp.tile(jnp.asarray(IMAGES), (REPEATS, 1))


@functools.cache
def evaluate(make, budget):
    """Returns independent values for each image, and their variances: fields of shape (REPEATS, 2)."""
    with jax.enable_x64(True):
        key = jax.random.fold_in(jax.random.key(3), budget[0] * budget[1])
        both = settings(*budget).per_site(key, make(), LinearModel(), repeated_sites())
        return tuple(SiteValues(*(x.reshape(REPEATS, 2) for x in v)) for v in both)


def z_score(a, b):
    """Returns by how many standard errors the mean of `b` exceeds the mean of `a`, at least.

    Each is a sample or a constant.
    """
    variance = sum(np.var(x, 0) / len(x) for x in (a, b) if np.ndim(x) == 2)
    means = [np.mean(x, 0) if np.ndim(x) == 2 else x for x in (a, b)]
    return np.min((means[1] - means[0]) / np.sqrt(variance))


ENOUGH = z_threshold(2)


@pytest.mark.parametrize("budget", [MANY_DRAWS, MANY_MIXING])
@pytest.mark.parametrize("name", ["lower", "student"])
def test_the_weights_are_unbiased_for_the_marginal(name, budget):
    """E exp(estimate) = p(x), with few fresh ε as with many."""
    values, _ = evaluate(semi_implicit, budget)
    assert_mean(np.exp(getattr(values, name) - LOG_MARGINALS), 1.0, max_stderr=0.03)


@pytest.mark.parametrize("name", ["lower", "student"])
def test_the_bounds_are_below_and_tighten_with_more_draws(name):
    few, many = (getattr(evaluate(semi_implicit, budget)[0], name) for budget in (FEW, MANY_DRAWS))
    assert z_score(few, LOG_MARGINALS) > ENOUGH
    assert z_score(many, LOG_MARGINALS) > -ENOUGH
    assert z_score(few, many) > ENOUGH


def test_the_papers_estimator_is_no_bound():
    """Must-fail control of the tests above: far above log p(x), rising with S, falling with M."""
    few, many_draws, many_mixing = (
        evaluate(semi_implicit, budget)[0].paper for budget in (FEW, MANY_DRAWS, MANY_MIXING)
    )
    assert_not_mean(few, LOG_MARGINALS)
    for values in (few, many_draws):
        assert z_score(LOG_MARGINALS + 1.0, values) > ENOUGH
    assert z_score(few, many_draws) > ENOUGH
    assert z_score(many_mixing, many_draws) > ENOUGH


def test_the_elbo_is_bracketed():
    exact = elbo(Q_COVARIANCE)
    few, many = (evaluate(semi_implicit, budget)[0] for budget in (MANY_DRAWS, MANY_MIXING))
    for values in (few, many):
        assert z_score(values.elbo_lower, exact) > ENOUGH
        assert z_score(exact, values.elbo_upper) > ENOUGH
    assert z_score(few.elbo_lower, many.elbo_lower) > ENOUGH
    assert z_score(many.elbo_upper, few.elbo_upper) > ENOUGH
    assert_mean(many.elbo_lower, exact, max_stderr=0.01, bias=0.1)
    assert_mean(many.elbo_upper, exact, max_stderr=0.01, bias=0.1)


@pytest.mark.parametrize("name", ["lower", "student", "elbo_lower", "elbo_upper"])
def test_standard_errors_are_the_spread_over_keys(name):
    """Within 15 %. The draws share their fresh ε, which the errors ignore, so M must exceed S."""
    values, variances = (getattr(x, name) for x in evaluate(semi_implicit, MANY_MIXING))
    scale = variances.mean(0)
    squares = (values - values.mean(0)) ** 2 * REPEATS / (REPEATS - 1) / scale
    assert_mean(squares - variances / scale, 0.0, max_stderr=0.06, bias=0.15)
    assert_not_mean(squares - 1.5**2 * variances / scale, 0.0)
    assert_not_mean(1.5**2 * squares - variances / scale, 0.0)


def test_an_explicit_family_has_one_answer():
    values, variances = evaluate(explicit, MANY_DRAWS)
    np.testing.assert_allclose(values.paper, values.lower, rtol=0, atol=1e-12)
    np.testing.assert_allclose(values.elbo_upper, values.elbo_lower, rtol=0, atol=1e-12)
    np.testing.assert_allclose(variances.paper, variances.lower, rtol=1e-10)
    assert_mean(np.exp(values.lower - LOG_MARGINALS), 1.0, max_stderr=0.01)
    assert_mean(values.elbo_lower, elbo(np.diag(np.diag(Q_COVARIANCE))), max_stderr=0.01)


def test_the_average_names_side_error_and_size(x64):
    values, variances = evaluate(explicit, MANY_DRAWS)
    key = jax.random.fold_in(jax.random.key(3), MANY_DRAWS[0] * MANY_DRAWS[1])
    made = settings(*MANY_DRAWS)(key, explicit(), LinearModel(), repeated_sites())
    sides = {
        "paper": "none",
        "lower": "lower",
        "student": "lower",
        "elbo_lower": "lower",
        "elbo_upper": "upper",
    }
    assert {name: value.side for name, value in made.items()} == sides
    assert set(made) == set(SIDES) == set(SiteValues._fields)
    for name, value in made.items():
        assert value.mean == pytest.approx(getattr(values, name).mean(), rel=1e-12)
        variance = getattr(variances, name)
        assert value.stderr == pytest.approx(np.sqrt(variance.sum()) / variance.size, rel=1e-12)
        assert value.num_draws == 80 * 2 * REPEATS
    assert "paper" in made["paper"].name
    assert "(lower side)" in str(made["student"])


class Fixed(AbstractMixing):
    """A mixing distribution whose draws are always the same ε."""

    dim = 2

    def from_normal(self, u):
        return jnp.array([0.3, -0.4])

    def to_normal(self, eps):
        return jnp.zeros_like(eps)

    def log_prob(self, eps):
        return jnp.zeros(())

    def variance(self):
        return 0.0


def terms_of(family, block, num_mixing, monkeypatch):
    monkeypatch.setattr(likelihood, "BLOCK", block)
    model, x = LinearModel(), jnp.asarray(IMAGES[0])
    log_joint = lambda z: model.log_joint(z, x)
    return jax.jit(
        lambda key: likelihood.evaluate_terms(key, family, log_joint, x, 6, num_mixing),
    )(jax.random.key(0))


@pytest.mark.parametrize(("block", "num_blocks"), [(500, 1), (17, 1), (5, 4), (1, 17)])
def test_blocks_add_up_to_the_fresh_noise(block, num_blocks, x64, monkeypatch):
    """The size of a block need not divide the 17 fresh ε. All ε are equal, so that q̂(z) is q(z|ε)."""
    conditional = semi_implicit().conditional
    terms, z = terms_of(SemiImplicit(Fixed(), conditional), block, 17, monkeypatch)
    assert terms.fresh.shape == (num_blocks, 6)
    high, low = likelihood.log_marginals(terms, 17)
    np.testing.assert_allclose(low, terms.own, atol=1e-9)
    np.testing.assert_allclose(high, terms.own, atol=1e-9)
    for z_s, own, log_p in zip(z, terms.own, terms.log_joint, strict=True):
        expected = conditional.log_prob(z_s, Fixed().from_normal(jnp.zeros(2)), jnp.asarray(IMAGES[0]))
        np.testing.assert_allclose(own, expected, rtol=1e-10)
        np.testing.assert_allclose(log_p, LinearModel().log_joint(z_s, jnp.asarray(IMAGES[0])), rtol=1e-12)


def test_every_block_draws_afresh(x64, monkeypatch):
    terms, _ = terms_of(semi_implicit(), 3, 12, monkeypatch)
    assert len(np.unique(np.asarray(terms.fresh))) == 4 * 6


def net_gaussian():
    net = MLP.create(jax.random.key(4), 2, 4, context_dim=3, width=4)
    return SemiImplicit(StandardNormal(2), NetGaussian(net, jnp.zeros(2)))


def test_sites_side_by_side_change_nothing(x64):
    """Evaluates three sites, two at a time. The network gives the scale, too."""
    sites = jnp.concatenate([jnp.asarray(IMAGES), jnp.ones((1, 3))])
    made = []
    for sites_at_once in (2, 20):
        settings = Likelihood(4, 3, sites_at_once, StudentT(rounds=1, times=1))
        made.append(settings.per_site(jax.random.key(1), net_gaussian(), LinearModel(), sites))
    for pieces, together in zip(*(jax.tree.leaves(m) for m in made), strict=True):
        assert pieces.shape == together.shape == (3,)
        assert pieces.dtype == np.float64
        np.testing.assert_allclose(pieces, together, rtol=1e-9)


@pytest.mark.parametrize("name", ["num_draws", "num_mixing", "sites_at_once"])
def test_bad_sizes(name):
    with pytest.raises(ValueError, match=f"`{name}` to be a positive whole number, got 0"):
        Likelihood(**{name: 0})


PEAK = """
import pathlib, jax, numpy as np
from uivi.families import *
from uivi.evaluation import Likelihood
from uivi.targets import BernoulliVAE, Rows
key = jax.random.key(0)
images = np.random.default_rng(0).integers(0, 2, (40, 784)).astype(np.uint8)
target = BernoulliVAE(MLP.create(key, 10, 784), Rows.create(images), 40)
net = MLP.create(key, 10, 10, context_dim=784)
family = SemiImplicit(StandardNormal(10), Gaussian(net, LogScale.create(10, 0.3)))
Likelihood(1_000, 10_000)(key, family, target, target.sites(key, np.zeros((), np.int32)))
status = pathlib.Path("/proc/self/status").read_text()
print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
def test_the_papers_budget_fits_in_two_gigabytes():
    """S = 1,000 and M = 10,000 on 40 images: all pairs at once would take 16 GB.

    The peak comes from /proc, since `ru_maxrss` of a new process starts at the size of its parent.
    """
    run = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    assert int(run.stdout) * 1_024 < 2 * 2**30
