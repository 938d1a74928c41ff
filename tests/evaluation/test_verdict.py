"""The verdict: each finding gives its advice, and only its own."""

import dataclasses
import json
import math

import jax
import jax.numpy as jnp
import pytest

import uivi
from tests.helpers import make_oracle, z_threshold
from uivi._types import Status
from uivi.evaluation import verdict
from uivi.evaluation.bounds import BoundValue
from uivi.evaluation.importance import MomentGaps
from uivi.evaluation.reverse_mixing import ReverseMixing
from uivi.evaluation.verdict import Check, Verdict
from uivi.targets import Density

GOOD = Check(
    status=Status.DONE,
    lower=BoundValue("ELBO", "lower", -1.25, 0.01, 100),
    upper=BoundValue("ELBO", "upper", -1.2, 0.01, 100),
    mixing=ReverseMixing(math.nan, 0.9, 0.8, 0.02, 0.98),
    pareto_k_lower=0.3,
    pareto_k_upper=0.4,
    nonfinite=3.0,
    skipped=2.0,
)


def changed(name, **fields):
    """GOOD with fields of one of its parts changed."""
    return dataclasses.replace(GOOD, **{name: getattr(GOOD, name)._replace(**fields)})


FOUND = {
    "broken": (dataclasses.replace(GOOD, status=Status.NONFINITE), "the fit broke down: lower"),
    "interrupted": (dataclasses.replace(GOOD, status=Status.INTERRUPTED), "with the same checkpoint= to go on"),
    "dependent": (changed("mixing", dependence=0.5), "the reverse sampler stays near its start"),
    "not recovered": (changed("mixing", recovered=0.5), "uivi.ISIR with more proposals"),
    "unknown mixing": (changed("mixing", recovered=math.nan), "the reverse sampler stays near its start"),
    "wide": (changed("lower", mean=-1.7), r"the ELBO is only known to 0.50 nats"),
    "too wide": (changed("lower", mean=-3.2), r"the ELBO is only known to 2.00 nats"),
    "skipped": (dataclasses.replace(GOOD, skipped=50.0), "50 of 0 updates had a gradient that was not finite"),
    "no bound": (changed("lower", mean=math.nan), "the ELBO is only known to nan nats"),
    "heavy tails": (dataclasses.replace(GOOD, pareto_k_lower=0.9), "k-hat 0.90 is above 0.7"),
    "mean off": (dataclasses.replace(GOOD, gaps=MomentGaps(0.3, 0.0, 0.05, 0.0, 9)), "mean of q is off by 0.3"),
    "sd off": (dataclasses.replace(GOOD, gaps=MomentGaps(0.0, 0.15, 0.05, 0.02, 9)), "of q is off by 15 %"),
    "no k-hat": (dataclasses.replace(GOOD, pareto_k_lower=math.inf), "k-hat inf is above 0.7"),
}  # fmt: skip


MILD = {"dependent", "wide", "skipped"}


def test_a_good_fit_gets_no_advice():
    assert with_verdict(GOOD, {}).advice == ()
    for gaps in (MomentGaps(0.04, 0.04, 0.01, 0.01, 9), MomentGaps(0.15, 0.15, 0.06, 0.06, 9)):
        assert with_verdict(dataclasses.replace(GOOD, gaps=gaps), {}).advice == ()
    without_sampler = dataclasses.replace(GOOD, mixing=None)
    assert with_verdict(without_sampler, {}).verdict is Verdict.GOOD


@pytest.mark.parametrize("name", FOUND)
def test_each_finding_gives_its_advice(name):
    found, words = FOUND[name]
    result = with_verdict(found, {})
    assert len(result.advice) == 1
    assert words in result.advice[0]
    assert result.verdict is (Verdict.CARE if name in MILD else Verdict.BAD)


def history(values, stderr):
    """Twenty records of a bound, with gaps as the driver leaves them."""
    columns = {"elbo_lower": [], "elbo_lower_stderr": []}
    for value in values:
        columns["elbo_lower"] += [None, value]
        columns["elbo_lower_stderr"] += [None, stderr]
    return columns


def test_a_bound_that_still_rises_asks_for_more_updates():
    rising = history([0.1 * i for i in range(20)], 0.01)
    (advice,) = with_verdict(GOOD, rising).advice
    assert "the bound still rose by 0.37 nats over the last fifth: raise num_steps" in advice
    constant, noisy, short = (
        history([1.0] * 20, 0.01),
        rising | {"elbo_lower_stderr": [0.5] * 40},
        history([0.0, 9.0], 0.01),
    )
    for quiet in (constant, noisy, short):
        assert with_verdict(GOOD, quiet).advice == ()


def test_the_text_shows_what_is_known():
    text = str(dataclasses.replace(GOOD, advice=("first", "second")))
    for words in (
        "status           all updates done", "-1.2500 ± 0.0100 (lower side)", "-1.2000 ± 0.0100 (upper side)",
        "0.30 (log q from above), 0.40 (log q from below)", "3 proposals rejected, 2 updates skipped",
        "reverse moved", "advice           first", "advice           second",
    ):  # fmt: skip
        assert words in text
    assert "acceptance" not in text
    assert "advice           none" in str(GOOD)
    assert "reverse" not in str(dataclasses.replace(GOOD, mixing=None))


@pytest.mark.parametrize(
    "found",
    [
        GOOD,
        dataclasses.replace(GOOD, mixing=None, advice=("a", "b"), gaps=MomentGaps(0.1, 0.2, 0.3, 0.4, 5)),
    ],
)
def test_json_round_trip(found):
    again = Check.from_json(json.loads(json.dumps(found.to_json())))
    assert str(again) == str(found)
    assert again.status is found.status
    assert again.advice == found.advice
    assert (again.lower, again.upper) == (found.lower, found.upper)


HISTORY = {"step": [1, 5, 10], "nonfinite": [1.0, 0.5, 2.0], "skipped": [0.0, 1.0, 2.0]}


def judge(estimator, family, target, state=()):
    return verdict.judge(jax.random.key(0), family, target, estimator, state, Status.DONE, HISTORY)


@pytest.fixture(scope="module")
def exact():
    """q is the target: N(b, W Wᵀ + diag σ²), with exact reverse draws."""
    oracle = make_oracle()
    target = Density(lambda z: oracle.conditional.marginal_log_prob(z), 2)
    return judge(uivi.UIVI(sampler=uivi.Exact()), oracle.family, target)


def test_a_perfect_fit(exact):
    z = z_threshold(2)
    assert exact.lower.mean - z * exact.lower.stderr <= 0 <= exact.upper.mean + z * exact.upper.stderr
    assert exact.upper.mean - exact.lower.mean < 0.1
    assert exact.mixing.recovered == pytest.approx(1, abs=0.15)
    assert exact.mixing.dependence == pytest.approx(0, abs=0.1)
    assert exact.pareto_k_lower < 0.7
    assert exact.advice == ()


def test_counts_are_added_over_the_fit(exact):
    assert exact.nonfinite == 1 * 1.0 + 4 * 0.5 + 5 * 2.0
    assert exact.skipped == 3


def test_k_hat_sees_a_q_that_is_too_narrow_and_not_one_that_is_too_wide():
    """Tails of p/q: heavy where q is the narrower. (Of q/p it would be the other way round.)"""
    target = Density(lambda z: -0.5 * jnp.sum(z**2), 2)
    narrow, wide = (
        judge(uivi.Explicit(), uivi.ExplicitGaussian.create(2, scale), target) for scale in (0.4, 1.6)
    )
    assert narrow.pareto_k_lower > 0.7
    assert any("k-hat" in a for a in narrow.advice)
    assert wide.pareto_k_lower < 0.5
    (advice,) = wide.advice
    assert "a standard deviation of q is off by" in advice
    assert narrow.mixing is None


@pytest.mark.parametrize(("scale", "verdict", "sizes"), [(0.99, Verdict.GOOD, 1), (0.92, Verdict.BAD, 5)])
def test_moments_in_doubt_are_looked_at_twice(scale, verdict, sizes, monkeypatch):
    """The second time with more draws; a standard deviation that is 8 % too small is then beyond chance."""
    asked, evaluate = [], verdict.bounds.evaluate

    def counted(key, family, target, num_draws, *rest):
        asked.append(num_draws)
        return evaluate(key, family, target, num_draws, *rest)

    monkeypatch.setattr(verdict.bounds, "evaluate", counted)
    target = Density(lambda z: -0.5 * z @ z, 2)
    found = judge(uivi.Explicit(), uivi.ExplicitGaussian.create(2, scale), target)
    assert sum(asked) == sizes * verdict.NUM_DRAWS
    assert found.verdict is verdict


@pytest.mark.parametrize(
    ("gap", "stderr", "looks"), [(0.01, 0.01, 1), (0.1, 0.05, 2), (0.3, 0.02, 1), (0.3, 0.2, 2)]
)
def test_a_gap_is_looked_at_again_unless_it_is_small_or_surely_large(gap, stderr, looks, monkeypatch):
    """Chance can make a gap of any size."""
    seen = []

    def gaps(values, log_weights):
        seen.append(len(values))
        return MomentGaps(gap, 0.0, stderr, 0.01, 2)

    monkeypatch.setattr(verdict.importance, "moment_gaps", gaps)
    target = Density(lambda z: -0.5 * z @ z, 2)
    judge(uivi.Explicit(), uivi.ExplicitGaussian.create(2, 1.0), target)
    assert len(seen) == looks
