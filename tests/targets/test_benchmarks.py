"""The targets of the sampler benchmarks: densities against SciPy, and exact draws against both."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from uivi.targets import (
    BrownianMotion,
    CoxProcess,
    Funnel,
    GaussianMixture,
    LogisticRegression,
    Rosenbrock,
    Seeds,
    StudentMixture,
    eight_gaussians,
    forty_gaussians,
    log_density_at,
    ten_students,
)
from uivi.targets.brownian import OBSERVATIONS
from uivi.testing import FAILURE_RATE, assert_mean, assert_not_mean, assert_unbiased

RNG = np.random.default_rng(0)
POINTS = RNG.uniform(size=(9, 2))
norm = scipy.stats.norm


def seeds(z):
    """Plate by plate, with the table as BUGS prints it."""
    plates = {  # by type and extract: sprouted, sown
        (0, 0): ((10, 39), (23, 62), (23, 81), (26, 51), (17, 39)),
        (0, 1): ((5, 6), (53, 74), (55, 72), (32, 51), (46, 79), (10, 13)),
        (1, 0): ((8, 16), (10, 30), (8, 28), (23, 45), (0, 4)),
        (1, 1): ((3, 12), (22, 41), (15, 30), (32, 51), (3, 7)),
    }
    precision = np.exp(z[4])
    found = norm(0, 10).logpdf(z[:4]).sum()
    found += scipy.stats.gamma(0.01, scale=100).logpdf(precision) + np.log(precision)
    effects = iter(z[5:])
    for (x, w), rows in plates.items():
        for sprouted, sown in rows:
            b = next(effects)
            p = 1 / (1 + np.exp(-(z[0] + z[1] * x + z[2] * w + z[3] * x * w + b)))
            found += scipy.stats.binom(sown, p).logpmf(sprouted) + norm(0, precision**-0.5).logpdf(b)
    return found


def brownian(z):
    """Position by position."""
    innovation, noise, positions = np.exp(z[0]), np.exp(z[1]), z[2:]
    found, before, seen = norm(0, 2).logpdf(z[:2]).sum(), 0.0, iter(OBSERVATIONS)
    for i, now in enumerate(positions):
        found += norm(before, innovation).logpdf(now)
        if not 10 <= i < 20:
            found += norm(now, noise).logpdf(next(seen))
        before = now
    return found


def cox(z):
    """Cell by cell, on a grid of 3 x 3."""
    cells = [(i, j) for i in range(3) for j in range(3)]
    kernel = [[1.91 * np.exp(-33 * np.hypot(a - c, b - d) / 3) for c, d in cells] for a, b in cells]
    found = scipy.stats.multivariate_normal(np.full(9, np.log(9) - 1.91 / 2), np.array(kernel)).logpdf(z)
    for (i, j), value in zip(cells, z, strict=True):
        count = sum(i / 3 <= x < (i + 1) / 3 and j / 3 <= y < (j + 1) / 3 for x, y in POINTS)
        rate = np.exp(value) / 9
        found += scipy.stats.poisson(rate).logpmf(count) + scipy.special.gammaln(count + 1) + count * np.log(9)
    return found


def funnel(z):
    return norm(0, 3).logpdf(z[0]) + norm(0, np.exp(z[0] / 2)).logpdf(z[1:]).sum()


def rosenbrock(z):
    """Block by block: x₁, then (x₂, x₃) and (x₄, x₅)."""
    found = norm(1, 0.5**0.5).logpdf(z[0])
    for first, second in ((z[1], z[2]), (z[3], z[4])):
        found += norm(z[0] ** 2, 0.005**0.5).logpdf(first) + norm(first**2, 0.005**0.5).logpdf(second)
    return found


def mixture(centres, component):
    return lambda z: np.log(np.mean([np.exp(component.logpdf(z - c).sum()) for c in centres]))


def centres(seed_count, dim, bound):
    return np.random.RandomState(3).uniform(-bound, bound, (seed_count, dim))


OCTAGON = [(4 * np.cos(a), 4 * np.sin(a)) for a in np.linspace(0, 2 * np.pi, 9)[:-1]]
X, Y = RNG.normal(size=(6, 3)), np.array([0, 1, 1, 0, 1, 0])
EXACT = {
    "seeds": (Seeds, seeds, 26),
    "brownian": (BrownianMotion, brownian, 32),
    "cox": (lambda: CoxProcess.create(POINTS, cells=3), cox, 9),
    "funnel": (Funnel, funnel, 10),
    "rosenbrock": (lambda: Rosenbrock(2, 2), rosenbrock, 5),
    "eight-gaussians": (eight_gaussians, mixture(OCTAGON, norm(0, 0.5)), 2),
    "forty-gaussians": (forty_gaussians, mixture(centres(40, 2, 40), norm), 2),
    "ten-students": (ten_students, mixture(centres(10, 10, 10), scipy.stats.t(2)), 10),
    "flat-logistic": (
        lambda: LogisticRegression.create(X, Y, prior_scale=None),
        lambda z: np.log(scipy.stats.bernoulli(1 / (1 + np.exp(-X @ z))).pmf(Y)).sum(),
        3,
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_density(name, x64):
    make, exact, dim = EXACT[name]
    target = make()
    assert target.dim == dim
    z = 0.5 * np.random.default_rng(1).normal(size=(3, dim))
    found = log_density_at(target, jnp.asarray(z))
    np.testing.assert_allclose(found, [exact(row) for row in z], rtol=1e-9)


@pytest.mark.parametrize("dim", [2, 50])
def test_centres(dim):
    """All 40 are modes of their own: two of unit variance are two modes beyond a distance of two."""
    target = forty_gaussians(dim)
    gaps = scipy.spatial.distance.pdist(np.asarray(target.centres.stored()))
    assert len(gaps) == 780
    assert gaps.min() > 2.1


SMALL = {
    "gaussians": lambda: GaussianMixture.create(centres(5, 3, 2), 0.7),
    "students": lambda: StudentMixture.create(centres(5, 3, 2), 5.0),
    "funnel": lambda: Funnel(4, 1.0),
    "rosenbrock": lambda: Rosenbrock(2, 1, 2.0, 2.0),
}


@pytest.mark.parametrize("name", SMALL)
def test_draws_follow_the_density(name, x64, getkey):
    """E ∇log p(z) = 0 and E z ∇log p(z)ᵀ = -I hold only if draws and density belong together."""
    target = SMALL[name]()
    draws = jax.jit(jax.vmap(target.sample))(jax.random.split(getkey(), 20_000))
    slope = jax.jit(jax.vmap(jax.grad(target.log_joint)))
    score, moved = slope(draws), slope(draws + 0.2)
    assert_unbiased(score, 0.0, control=moved, max_stderr=0.06)
    assert_mean(draws[:, :, None] * score[:, None, :], -np.eye(target.dim), max_stderr=0.15)


@pytest.mark.parametrize(
    ("make", "coordinate", "cdf"),
    [
        (Funnel, 0, norm(0, 3).cdf),
        (Rosenbrock, 0, norm(1, 0.5**0.5).cdf),
        (eight_gaussians, 1, lambda x: np.mean([norm(y, 0.5).cdf(x) for _, y in OCTAGON], 0)),
        (forty_gaussians, 0, lambda x: np.mean([norm(c).cdf(x) for c in centres(40, 2, 40)[:, 0]], 0)),
        (
            ten_students,
            9,
            lambda x: np.mean([scipy.stats.t(2, c).cdf(x) for c in centres(10, 10, 10)[:, 9]], 0),
        ),
    ],
    ids=["funnel", "rosenbrock", "eight", "forty", "students"],
)
def test_margins(make, coordinate, cdf, getkey):
    draws = np.asarray(jax.jit(jax.vmap(make().sample))(jax.random.split(getkey(), 4_000)))[:, coordinate]
    assert scipy.stats.kstest(draws, cdf).pvalue > FAILURE_RATE
    assert scipy.stats.kstest(1.3 * draws + 0.5, cdf).pvalue < FAILURE_RATE


@pytest.mark.parametrize("name", ["gaussians", "students"])
def test_shares(name, getkey):
    """Exact draws have equal shares, also of components that overlap; draws that lack one do not."""
    target = SMALL[name]()
    draws = jax.jit(jax.vmap(target.sample))(jax.random.split(getkey(), 4_000))
    shares = jax.jit(jax.vmap(lambda z: target.shares(z[None])))(draws)
    assert_mean(shares, 0.2, max_stderr=0.01)
    assert_not_mean(shares[np.asarray(jnp.argmax(shares, 1)) != 2], 0.2)
    np.testing.assert_allclose(target.shares(draws), np.mean(shares, 0), rtol=1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Funnel(1), "`size` to be at least 2, got 1"),
        (lambda: Funnel(10, 0.0), "`sd` to be positive and finite, got 0.0"),
        (lambda: Rosenbrock(0), "`blocks` to be a positive whole number, got 0"),
        (lambda: Rosenbrock(length=0), "`length` to be a positive whole number, got 0"),
        (lambda: Rosenbrock(a=-1.0), "`a` to be positive and finite, got -1.0"),
        (lambda: GaussianMixture.create(np.zeros(3)), r"centres of shape \(K, D\), got \(3,\)"),
        (lambda: GaussianMixture.create(np.zeros((3, 2)), -1.0), "`scale` to be positive and finite"),
        (lambda: StudentMixture.create(np.zeros((3, 2)), 0.0), "`freedom` to be positive and finite"),
        (lambda: forty_gaussians(0), "`dim` to be a positive whole number, got 0"),
        (lambda: Seeds(sown=(3,)), r"one number per plate, got \[21, 1, 21, 21\]"),
        (lambda: Seeds((4,), (3,), (0,), (0,)), "expected 0 to 3 seeds sprouted on plate 0"),
        (lambda: BrownianMotion(places=(1, 2)), "got 20 observations for 2 places"),
        (lambda: BrownianMotion((0.1, 0.2), (0, 30)), "places from 0 to 29, got 0 to 30"),
        (lambda: CoxProcess.create(np.zeros((3, 3))), r"points of shape \(N, 2\), got \(3, 3\)"),
        (lambda: CoxProcess.create(np.array([[0.5, 1.5]])), "points in the unit square"),
        (lambda: CoxProcess.create(POINTS, cells=0), "`cells` to be a positive whole number"),
        (lambda: LogisticRegression.create(X, Y, prior_scale=0.0), "`prior_scale` to be positive"),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()
