"""Tests a check as text and as JSON."""

import dataclasses
import json

import pytest

from tests.evaluation.examples import GOOD
from uivi.evaluation import Check, Coverage, MomentGaps, Precision, Thorough, Verdict

FULL = dataclasses.replace(
    GOOD,
    verdict=Verdict.BAD,
    gaps=MomentGaps(0.1, 0.2, 0.03, 0.04, 5, 0.4, 0.1),
    precision=Precision(1e-6, 1e6),
    coverage=Coverage(4, 2, 9.6, 0.3, 28.4),
    thorough=Thorough(1_536, 512, 100.0, 0.3, 9.6),
    advice=("first", "second"),
)
TEXT = """\
  verdict             do not use
  status              all updates done
  ELBO                -1.2500 ± 0.0100 (lower side)
                      -1.2000 ± 0.0100 (upper side)
  reverse moved       0.900  share of i-SIR weight that leaves the start
  reverse jump        0.800  1 = as far as independent draws of q(ε)
  reverse dependence  0.020  of ε′ on ε given z; 0 is best
  reverse recovered   0.980  share of the gradient of I(z;ε); 1 is best
  k-hat               0.30 ± 0.05 (from 2,048 draws)
  weights             effective sample size 80 %, KL(q‖p) 0.020 nats
  non-finite          3 proposals rejected, 2 updates skipped
  mean off by         0.100 ± 0.030 sd (largest error, by importance weights)
  sd off by           0.200 ± 0.040 (largest relative error)
  heaviest tail       0.40 ± 0.10 (k-hat of the squares of a variable)
  search              4 paths from up to 28 sds away ended in 2 regions up to 10 sds apart
  thorough search     2,048 particles from up to 100 sds away, 512 of them in vain
  advice              first
  advice              second"""


def test_the_text_shows_all_that_is_known():
    assert str(FULL) == TEXT


def test_the_text_leaves_out_what_is_unknown():
    text = str(dataclasses.replace(GOOD, mixing=None))
    assert "reverse" not in text
    assert "off by" not in text
    assert "  verdict             good" in text
    assert "  advice              none" in text


def test_verdicts_are_ordered():
    assert Verdict.GOOD < Verdict.CARE < Verdict.BAD
    assert [str(verdict) for verdict in Verdict] == ["good", "use with care", "do not use"]


@pytest.mark.parametrize("check", [GOOD, FULL, dataclasses.replace(FULL, mixing=None)])
def test_json_round_trip(check):
    again = Check.from_json(json.loads(json.dumps(check.to_json())))
    assert str(again) == str(check)
    for field in dataclasses.fields(Check):
        # The mixing holds a NaN, which differs from itself.
        if field.name != "mixing":
            assert getattr(again, field.name) == getattr(check, field.name)
            assert type(getattr(again, field.name)) is type(getattr(check, field.name))


def test_json_keys():
    """Files on disk have these keys."""
    assert list(GOOD.to_json()) == [
        "status", "dim", "lower", "upper", "mixing", "weights", "nonfinite", "skipped", "gaps", "precision",
        "coverage", "thorough", "verdict", "advice",
    ]  # fmt: skip


def test_k_hat_is_one_number():
    assert GOOD.pareto_k == GOOD.weights.pareto_k
