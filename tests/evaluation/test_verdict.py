"""Tests checks of fits whose quality is known."""

import jax
import jax.numpy as jnp
import pytest

import uivi
from uivi._types import Status
from uivi.evaluation import MomentGaps, Verdict, verdict
from uivi.evaluation.importance import RELIABLE_K
from uivi.targets import Density
from uivi.testing import make_oracle, z_threshold

pytestmark = pytest.mark.usefixtures("full_looks")

HISTORY = {"step": [1, 5, 10], "nonfinite": [1.0, 0.5, 2.0], "skipped": [0.0, 1.0, 2.0]}


def judge(estimator, family, target):
    return verdict.judge(
        jax.random.key(0),
        family,
        target,
        estimator=estimator,
        est_state=(),
        status=Status.DONE,
        history=HISTORY,
    )


@pytest.fixture(scope="module")
def exact():
    """A check of q = target = N(b, W Wᵀ + diag σ²), with exact reverse draws."""
    oracle = make_oracle()
    target = Density(lambda z: oracle.conditional.marginal_log_prob(z), 2)
    return judge(uivi.UIVI(sampler=uivi.reverse.Exact()), oracle.family, target)


def test_a_perfect_fit(exact):
    z = z_threshold(2)
    assert exact.lower.mean - z * exact.lower.stderr <= 0 <= exact.upper.mean + z * exact.upper.stderr
    assert exact.upper.mean - exact.lower.mean < 0.1
    assert exact.mixing.recovered == pytest.approx(1, abs=0.15)
    assert exact.mixing.dependence == pytest.approx(0, abs=0.1)
    assert exact.pareto_k < RELIABLE_K
    assert exact.advice == ()


def test_counts_are_added_over_the_fit(exact):
    assert exact.nonfinite == 1 * 1.0 + 4 * 0.5 + 5 * 2.0
    assert exact.skipped == 3


def test_k_hat_sees_a_q_that_is_too_narrow_and_not_one_that_is_too_wide():
    """The tail of p/q is heavy if q is too narrow. The tail of q/p would be heavy if q is too wide."""
    target = Density(lambda z: -0.5 * jnp.sum(z**2), 2)
    families = (uivi.families.ExplicitGaussian.create(2, scale) for scale in (0.4, 1.6))
    narrow, wide = (judge(uivi.estimators.Explicit(), family, target) for family in families)
    assert narrow.pareto_k > RELIABLE_K
    assert any("k-hat" in advice for advice in narrow.advice)
    assert wide.pareto_k < 0.5
    assert any("a standard deviation of q is off by" in advice for advice in wide.advice)
    assert not any("k-hat" in advice for advice in wide.advice)
    assert narrow.mixing is None


@pytest.mark.parametrize(("scale", "expected", "sizes"), [(0.99, Verdict.GOOD, 1), (0.92, Verdict.BAD, 5)])
def test_moments_in_doubt_are_looked_at_twice(scale, expected, sizes, monkeypatch):
    """The second look takes more draws. A standard deviation that is 8 % too small is then beyond chance."""
    asked, look = [], verdict.look

    def counted(*args, num_draws, **kwargs):
        asked.append(num_draws)
        return look(*args, num_draws=num_draws, **kwargs)

    monkeypatch.setattr(verdict, "look", counted)
    target = Density(lambda z: -0.5 * z @ z, 2)
    found = judge(uivi.estimators.Explicit(), uivi.families.ExplicitGaussian.create(2, scale), target)
    assert sum(asked) == sizes * verdict.NUM_DRAWS
    assert found.verdict is expected


@pytest.mark.parametrize(
    ("gap", "stderr", "looks"), [(0.01, 0.01, 1), (0.1, 0.05, 2), (0.3, 0.02, 1), (0.3, 0.2, 2)]
)
def test_a_gap_is_looked_at_again_unless_it_is_small_or_clearly_large(gap, stderr, looks, monkeypatch):
    """Chance can make a gap of any size."""
    seen = []

    def gaps(values, log_weights, own):
        seen.append(len(values))
        return MomentGaps(gap, 0.0, stderr, 0.01, 2)

    monkeypatch.setattr(verdict.importance, "moment_gaps", gaps)
    target = Density(lambda z: -0.5 * z @ z, 2)
    judge(uivi.estimators.Explicit(), uivi.families.ExplicitGaussian.create(2, 1.0), target)
    assert len(seen) == looks
