"""Fits that fail are not called good, right ones are."""

import json
import pathlib
import sys

import jax
import numpy as np
import pytest

from uivi.bench import verdicts
from uivi.bench.verdict_cases import FAILURES, RIGHT
from uivi.bench.verdict_unseen import UNSEEN
from uivi.bench.verdicts import CASES
from uivi.evaluation import Verdict

pytestmark = pytest.mark.usefixtures("full_looks", "unchecked")

FAST = ("far regression, 50 updates", "half normal, none outside")
"""Failures that take little time, each of another kind."""


@pytest.fixture(autouse=True)
def as_users_have_it():
    """Ordinary promotion of types and ranks, and a compiler that optimises."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield
    jax.config.update("jax_disable_most_optimizations", before)


def test_there_are_enough_cases_with_names_of_their_own():
    assert len(FAILURES) >= 25
    assert len(RIGHT) >= 25
    assert len(UNSEEN) >= 25
    assert len(CASES) == len(FAILURES) + len(RIGHT) + len(UNSEEN)
    assert all(case.exact for case in UNSEEN), "only exact draws say whether an unseen fit is right"


SLOW = [case.name for case in FAILURES if case.name not in FAST] + ["Student, 2.5 degrees", "funnel, sd 2, 4-d"]


@pytest.mark.parametrize("name", SLOW)
@pytest.mark.slow
def test_a_failure_is_not_called_good(name):
    row = verdicts.verdict_row(CASES[name], 0)
    assert row["verdict"] != str(Verdict.GOOD) or verdicts.is_right(row), row
    assert row["advice"] or row["verdict"] == str(Verdict.GOOD)


@pytest.mark.parametrize("name", FAST)
def test_a_fast_failure_is_not_called_good(name):
    row = verdicts.verdict_row(CASES[name], 0)
    assert row["verdict"] != str(Verdict.GOOD)
    assert row["advice"]


@pytest.mark.slow
def test_right_fits_are_called_good():
    rows = list(verdicts.verdict_rows(RIGHT, [0]))
    right = [row for row in rows if verdicts.is_right(row)]
    assert len(right) >= 25
    alarms = [row["case"] for row in right if row["verdict"] != str(Verdict.GOOD)]
    assert len(alarms) <= 0.05 * len(right), alarms


def row(case, group, verdict, error):
    return {"case": case, "group": group, "verdict": verdict, "mean_error": error, "sd_error": 0.0}


ROWS = [
    row("a", "should fail", "good", 0.5),
    row("b", "should fail", "do not use", 0.5),
    row("c", "should fail", "good", 0.05),
    row("d", "should be right", "good", 0.01),
    row("e", "should be right", "do not use", 0.01),
    row("f", "should be right", "do not use", 0.9),
    row("g", "should be right", "good", None),
]
RATES = """\
should fail: 3 fits; 1 of 2 wrong ones are called good, 1 of 1 right ones
should be right: 4 fits; 0 of 1 wrong ones are called good, 2 of 3 right ones"""


def test_the_rates():
    """A fit whose real errors are small is right, whatever was expected of its case."""
    assert verdicts.rates(ROWS) == RATES


def test_real_errors():
    case = CASES["normal, 2-d"]
    draws = 0.3 + 1.2 * np.random.default_rng(0).standard_normal((200_000, 2))
    assert verdicts.real_errors(case, draws) == pytest.approx((0.3, 0.2), abs=0.01)
    assert verdicts.real_errors(CASES["logistic regression"], draws) == (None, None)


DENSITIES = (
    "chain of 30, correlation .9",
    "three modes that touch",
    "Student, 8 degrees, 5-d",
    "funnel, sd 1, 5-d",
    "parabola, sd 1",
    "wide ring",
    "gamma, log scale",
    "beta, logit scale",
    "skew normal",
    "regression",
    "spike and slab, 1 in 2",
    "wave",
    "two bananas",
    "Laplace, 3-d",
    "logistic, 20-d",
    "Gumbel, 5-d",
    "box with soft edges",
    "walk of 150 steps",
    "sinh-arcsinh, skew 1, tail .8, 3-d",
    "log scale and effect",
)
"""A case for each family of densities."""


@pytest.mark.parametrize("name", DENSITIES)
def test_exact_draws_have_the_density(name):
    """E of the score is zero, and E of score times z is minus one, under draws of the density itself."""
    case = CASES[name]
    z = jax.vmap(case.exact)(jax.random.split(jax.random.key(1), 50_000))
    scores = np.asarray(jax.vmap(jax.grad(case.log_density))(z), np.float64)
    z = np.asarray(z, np.float64)
    centred = z - np.median(z, 0)
    for terms, expected in ((scores, 0.0), (scores * centred, -1.0)):
        error = np.std(terms, 0) / np.sqrt(len(terms))
        assert np.all(np.abs(np.mean(terms, 0) - expected) < 6 * error), (np.mean(terms, 0), error)


ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def stored():
    """The rows of the last full run."""
    path = ROOT / "results" / "verdicts" / "rows.jsonl"
    if not path.exists():
        pytest.skip("results/ is not in a source distribution")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_no_stored_failure_is_called_good_and_nearly_all_right_fits_are(stored):
    assert {(row["case"], row["group"]) for row in stored} == {
        (case.name, group) for group, cases in verdicts.GROUPS.items() for case in cases
    }
    good = [row for row in stored if row["verdict"] == str(Verdict.GOOD)]
    assert [row["case"] for row in good if not verdicts.is_right(row)] == []
    right = [row for row in stored if row["group"] != "should fail" and verdicts.is_right(row)]
    assert len([row for row in right if row in good]) >= 0.95 * len(right)


def test_the_page_has_the_stored_rows(stored):
    page = (ROOT / "docs" / "verdict.md").read_text()
    for line in verdicts.table(stored).splitlines():
        assert line in page or set(line) <= set("|-")


def test_the_command(tmp_path, monkeypatch, capsys):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    monkeypatch.setattr(sys, "argv", ["verdicts", "--table", str(path)])
    verdicts.main()
    printed = capsys.readouterr().out
    assert printed.startswith(RATES)
    assert "| c | 0.05 | 0 | – | – | good |" in printed
