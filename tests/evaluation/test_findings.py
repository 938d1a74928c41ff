"""Tests that each finding gives its own advice and nothing else."""

import dataclasses
import math

import pytest

from tests.evaluation.examples import GOOD
from uivi._types import Status
from uivi.evaluation import Coverage, MomentGaps, Precision, Verdict
from uivi.evaluation.findings import is_close, is_doubtful, is_near, leaves_doubt, with_verdict


def changed(name, **fields):
    """Returns GOOD with some fields of one of its parts changed."""
    return dataclasses.replace(GOOD, **{name: getattr(GOOD, name)._replace(**fields)})


FOUND = {
    "broken": (dataclasses.replace(GOOD, status=Status.NONFINITE), "the fit broke down: lower"),
    "interrupted": (dataclasses.replace(GOOD, status=Status.INTERRUPTED), "if it had a checkpoint=, the same"),
    "dependent": (changed("mixing", dependence=0.5), "the reverse sampler stays near its start"),
    "not recovered": (changed("mixing", recovered=0.5), "uivi.ISIR with more proposals"),
    "unknown mixing": (changed("mixing", recovered=math.nan), "the reverse sampler stays near its start"),
    "late": (changed("mixing", steps=7.0), "coupled chains take 7.0 steps to meet"),
    "missed": (changed("mixing", steps=2.1, moved=0.3), "30 % of the weight leaves their start"),
    "wide": (changed("lower", mean=-1.7), r"the ELBO is only known to 0.50 nats"),
    "too wide": (changed("lower", mean=-3.2), r"the ELBO is only known to 2.00 nats"),
    "skipped": (dataclasses.replace(GOOD, skipped=50.0), "50 of 0 updates had a gradient that was not finite"),
    "no bound": (changed("lower", mean=math.nan), "the ELBO is only known to nan nats"),
    "heavy tails": (changed("weights", pareto_k=0.9), "k-hat 0.90 ± 0.05 is above 0.7"),
    "mean off": (dataclasses.replace(GOOD, gaps=MomentGaps(0.3, 0.0, 0.05, 0.0, 9)), "mean of q is off by 0.3"),
    "sd off": (dataclasses.replace(GOOD, gaps=MomentGaps(0.0, 0.15, 0.05, 0.02, 9)), "of q is off by 15 %"),
    "unknown k-hat": (changed("weights", pareto_k=math.nan), "k-hat nan is above 0.7"),
    "one draw has all": (changed("weights", ess=1 / 2048), "1 of 2048 draws have all the importance weight"),
    "unknown size": (changed("weights", ess=math.nan), "draws have all the importance weight"),
    "outside the support": (changed("weights", finite=0.5), "at 50 % of q's draws the log density is not fin"),
    "unsure": (changed("weights", unsure=0.01), "log q is not known to a nat at 1 % of the draws"),
    "far": (changed("weights", kl=0.6), "the ELBO is 0.60 nats below the log evidence"),
    "too far": (changed("weights", kl=1.6), "the ELBO is 1.60 nats below the log evidence"),
    "unknown gaps": (
        dataclasses.replace(GOOD, gaps=MomentGaps(*[math.nan] * 4, 9)), "a mean of q is off by nan"
    ),
    "rough": (dataclasses.replace(GOOD, gaps=MomentGaps(0.2, 0.0, 0.2, 0.0, 9)), "only known to ± 0.20"),
    "coarse": (dataclasses.replace(GOOD, precision=Precision(0.25, 1e6)), "resolves it to 0.25 nats only"),
    "coarser": (dataclasses.replace(GOOD, precision=Precision(2.0, 1e6)), "resolves it to 2 nats only"),
    "few digits": (dataclasses.replace(GOOD, precision=Precision(1e-6, 9.0)), "spans 9 steps of floating"),
    "another mode": (
        dataclasses.replace(GOOD, coverage=Coverage(4, 2, 12.0, 0.32)), "another mode that q misses, with 32 %"
    ),
    "short search": (
        dataclasses.replace(GOOD, coverage=Coverage(150, 40, 12.0, 0.0, 30.0, 0.03)), "a probability of 0.03"
    ),
    "narrow region": (
        dataclasses.replace(GOOD, coverage=Coverage(4, 1, 0.0, 0.1)), "a narrow region that q misses, with 10 %"
    ),
    "heavy square": (
        dataclasses.replace(GOOD, gaps=MomentGaps(0.01, 0.01, 0.01, 0.01, 9, 0.9, 0.1)), "0.90 ± 0.10 of its sq"
    ),
    "perhaps a heavy square": (
        dataclasses.replace(GOOD, gaps=MomentGaps(0.01, 0.01, 0.01, 0.01, 9, 0.65, 0.1)), "0.65 ± 0.10 of its s"
    ),
    "no k-hat": (changed("weights", pareto_k=math.inf), "k-hat inf is above 0.7"),
}  # fmt: skip


MILD = {"late", "unsure", "heavy square", "dependent", "wide", "skipped", "far", "rough", "coarse"}
MILD |= {"perhaps a heavy square", "missed", "short search"}


def test_a_good_fit_gets_no_advice():
    assert with_verdict(GOOD, {}).advice == ()
    light_tail = MomentGaps(0.01, 0.01, 0.01, 0.01, 9, 0.58, 0.1)
    for gaps in (MomentGaps(0.04, 0.04, 0.01, 0.01, 9), MomentGaps(0.15, 0.15, 0.06, 0.06, 9), light_tail):
        assert with_verdict(dataclasses.replace(GOOD, gaps=gaps), {}).advice == ()
    without_sampler = dataclasses.replace(GOOD, mixing=None)
    assert with_verdict(without_sampler, {}).verdict is Verdict.GOOD


@pytest.mark.parametrize(
    ("part", "fields"),
    [("mixing", {"recovered": 0.7, "recovered_stderr": 0.05}), ("weights", {"unsure": 0.006})],
    ids=["recovered", "unsure"],
)
def test_what_may_be_chance_is_no_finding(part, fields):
    assert with_verdict(changed(part, **fields), {}).advice == ()


@pytest.mark.parametrize("name", FOUND)
def test_each_finding_gives_its_advice(name):
    check, words = FOUND[name]
    result = with_verdict(check, {})
    assert len(result.advice) == 1
    assert words in result.advice[0]
    assert result.verdict is (Verdict.CARE if name in MILD else Verdict.BAD)


def test_the_verdict_is_the_worst_of_several_findings():
    mild_and_bad = dataclasses.replace(changed("weights", pareto_k=0.9), skipped=50.0)
    result = with_verdict(mild_and_bad, {})
    assert len(result.advice) == 2
    assert result.verdict is Verdict.BAD


def history(values, stderr):
    """Returns records of a bound, with gaps as the driver leaves them."""
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


def test_a_fit_that_was_close_may_have_risen():
    rising = history([0.1 * i for i in range(20)], 0.01)
    assert with_verdict(GOOD, rising | {"close": [None, True]}).advice == ()
    assert with_verdict(GOOD, rising | {"close": [None, False]}).advice


def test_a_fast_rise_is_bad():
    assert with_verdict(GOOD, history(range(20), 0.01)).verdict is Verdict.BAD


@pytest.mark.parametrize(
    ("gap", "stderr", "doubtful"),
    [(0.01, 0.01, False), (0.1, 0.05, True), (0.3, 0.02, False), (0.3, 0.2, True), (math.nan, 0.1, False)],
)
def test_moments_are_in_doubt_unless_their_error_is_small_or_clearly_large(gap, stderr, doubtful):
    assert is_doubtful(0.2, MomentGaps(gap, 0.0, stderr, 0.01, 2)) == doubtful
    assert is_doubtful(0.2, MomentGaps(0.0, gap, 0.01, stderr, 2)) == doubtful


def weights(pareto_k=0.3, kl=0.02):
    """Returns those of GOOD with other numbers."""
    return GOOD.weights._replace(pareto_k=pareto_k, kl=kl)


def test_a_larger_z_may_be_further_from_the_posterior():
    """KL adds up over dimensions: a hundred times more of them may have more than twice the nats."""
    far = changed("weights", kl=0.6)
    assert with_verdict(dataclasses.replace(far, dim=1_000), {}).verdict is Verdict.GOOD
    assert with_verdict(dataclasses.replace(far, dim=100), {}).verdict is Verdict.CARE


def test_steps_of_a_coarse_density_are_no_modes():
    coarse = dataclasses.replace(GOOD, precision=Precision(0.25, 1e6), coverage=Coverage(16, 2, 12.0, 0.32))
    (advice,) = with_verdict(coarse, {}).advice
    assert "floating point" in advice


def test_a_mode_that_q_covers_is_no_finding():
    assert with_verdict(dataclasses.replace(GOOD, coverage=Coverage(4, 2, 12.0, 0.0)), {}).advice == ()


def test_a_fit_is_near_a_good_one_if_its_errors_are_small_and_its_weights_reliable():
    gaps = MomentGaps(0.02, 0.08, 0.01, 0.01, 2)
    assert is_near(weights(0.6), gaps)
    assert not is_near(weights(0.8), gaps)
    assert not is_near(weights(math.nan), gaps)
    assert not is_near(weights(0.6), gaps._replace(sd=0.12))
    assert not is_near(weights(0.6), gaps._replace(sd=math.nan))


def test_a_fit_is_close_only_if_every_number_says_so():
    gaps = MomentGaps(0.01, 0.02, 0.01, 0.01, 2)
    assert is_close(weights(0.55, 0.005), gaps, 2)
    assert not is_close(weights(0.65, 0.005), gaps, 2)
    assert not is_close(weights(0.55, 0.06), gaps, 2)
    assert is_close(weights(0.55, 0.06), gaps, 200)
    for name in ("mean", "sd", "mean_stderr", "sd_stderr"):
        for value in (0.05, math.nan):
            assert not is_close(weights(0.55, 0.005), gaps._replace(**{name: value}), 2)
    assert is_close(weights(0.55, 0.005), gaps._replace(tail=0.5, tail_stderr=0.14), 2)
    assert not is_close(weights(0.55, 0.005), gaps._replace(tail=0.6, tail_stderr=0.14), 2)


@pytest.mark.parametrize(
    ("pareto_k", "doubtful"),
    [
        (-math.inf, False),
        (0.4, False),
        (0.5, True),
        (0.8, True),
        (1.0, False),
        (math.inf, False),
        (math.nan, False),
    ],
)
def test_k_hat_is_in_doubt_unless_it_is_small_or_clearly_large(pareto_k, doubtful):
    assert is_doubtful(pareto_k, MomentGaps(0.01, 0.01, 0.01, 0.01, 2)) == doubtful


@pytest.mark.parametrize(
    ("pareto_k", "tail", "doubtful"),
    [(0.3, 0.5, False), (0.3, 0.65, True), (0.3, 0.8, False), (1.2, 0.65, False), (0.3, math.nan, False)],
)
def test_a_tail_is_in_doubt_if_it_may_be_too_heavy(pareto_k, tail, doubtful):
    """One that is clearly too heavy is a finding at the first look, and so is a large k-hat."""
    assert leaves_doubt(pareto_k, MomentGaps(0.01, 0.01, 0.01, 0.01, 2, tail, 0.12)) == doubtful
