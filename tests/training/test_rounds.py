"""Rounds of updates: their schedule, and when they end."""

import dataclasses
import sys

import jax
import numpy as np
import pytest

import uivi
from tests.tiny import explicit_settings, log_density
from uivi import presets
from uivi.evaluation.history import gain_of_last_round, recent_gain
from uivi.training.rounds import Rounds

SHORT = Rounds(10, 3, good_gain=0.03)


def history(*bounds, rounds=SHORT, stderr=0.01):
    """Two rows a round; what stands between two ends must not matter."""
    columns = {"step": [], "round": [], "elbo_lower": [], "elbo_lower_stderr": []}
    for number, (end, bound) in enumerate(zip(rounds.ends, bounds, strict=False)):
        for step, value in ((end - 1, bound - 5.0), (end, bound)):
            for name, cell in zip(columns, (step, number, value, stderr), strict=True):
                columns[name].append(cell)
    return columns


def test_every_round_is_twice_as_long_as_the_one_before():
    assert Rounds().ends == (1_500, 4_500, 10_500, 22_500)
    assert [SHORT.round(update) for update in (1, 10, 11, 30, 31, 70)] == [0, 0, 1, 1, 2, 2]


def test_the_rate_falls_from_its_height_to_zero_in_every_round():
    rates = np.asarray(jax.vmap(SHORT.schedule(0.3))(np.arange(70)))
    pieces = np.split(rates, [10, 30])
    for piece, height in zip(pieces, (0.3, 0.15, 0.15), strict=True):
        expected = 0.5 * height * (1 + np.cos(np.pi * np.arange(len(piece)) / len(piece)))
        np.testing.assert_allclose(piece, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("bounds", "is_over"),
    [
        pytest.param((), False, id="before the first update"),
        pytest.param((-3.0,), False, id="one round is nothing to compare"),
        pytest.param((-3.0, -2.9), False, id="a gain"),
        pytest.param((-3.0, -2.98), True, id="a small gain"),
        pytest.param((-3.0, -3.1), True, id="a loss"),
        pytest.param((-3.0, float("nan")), True, id="not a number"),
        pytest.param((-3.0, -2.0, -1.0), True, id="the last round"),
    ],
)
def test_a_round_without_a_gain_is_the_last(bounds, is_over):
    assert SHORT.is_over(history(*bounds) if bounds else {}) is is_over


def test_a_gain_must_exceed_its_standard_error():
    assert not SHORT.is_over(history(-3.0, -2.9, stderr=0.03))
    assert SHORT.is_over(history(-3.0, -2.9, stderr=0.1))


def test_a_fit_that_falls_short_goes_on_if_it_can_do_more():
    """More effort comes at the end of a round only, and the history alone decides."""
    short = history(-3.0, -3.1) | {"short": [None, 1.0, None, 1.0], "effort": [0, 0, 0, 0]}
    fine = short | {"short": [None, 1.0, None, 0.0]}
    assert SHORT.is_over(short)
    assert not SHORT.is_over(short, can_raise=True)
    assert SHORT.is_over(fine)
    assert [SHORT.effort(h, 2) for h in ({}, short, fine)] == [0, 1, 0]
    assert SHORT.effort(short | {"effort": [0, 0, 1, 2]}, 2) == 2
    inside = {name: column[:-1] for name, column in short.items()}
    assert SHORT.effort(inside, 2) == 0


def test_a_fit_that_only_just_falls_short_goes_on_without_a_gain():
    rounds = Rounds(10, 4)
    short = history(-3.0, -3.1, rounds=rounds) | {"short": [1.0] * 4}
    near = short | {"near": [1.0] * 4}
    assert rounds.is_over(short)
    assert not rounds.is_over(near)
    assert rounds.is_over(near | {"short": [0.0] * 4})
    third = history(-3.0, -3.1, -3.1, rounds=rounds) | {"short": [1.0] * 6, "near": [1.0] * 6}
    assert rounds.is_over(third)


def test_a_good_fit_may_end_with_a_larger_gain():
    rounds = Rounds(10, 3)
    good = history(-3.0, -2.95)
    assert rounds.is_over(good)
    assert not rounds.is_over(good | {"short": [1.0] * 4})


def test_a_fit_that_is_close_ends_with_its_first_round():
    first = history(-3.0)
    assert not SHORT.is_over(first | {"close": [None, 0.0]})
    assert SHORT.is_over(first | {"close": [None, 1.0]})


def test_a_fit_does_not_end_inside_a_round():
    unfinished = {name: column[:-1] for name, column in history(-3.0, -3.1).items()}
    assert gain_of_last_round(unfinished) is not None
    assert not SHORT.is_over(unfinished)


def test_a_fit_that_does_not_gain_ends_with_its_second_round(tmp_path):
    """And goes on from a checkpoint to the same end; without a gain being possible: q is exact."""
    settings = explicit_settings() | {
        "num_steps": Rounds(8, 4, gain=1e3, good_gain=1e3),
        "checkpoint": tmp_path,
    }
    fits = [uivi.fit(log_density, dim=2, key=jax.random.key(0), **settings) for _ in range(2)]
    for fitted in fits:
        assert fitted.status is uivi.Status.DONE
        assert fitted.history["step"][-1] == 24
        assert set(fitted.history["round"]) == {0, 1}


def test_a_fit_that_always_gains_runs_all_rounds():
    settings = explicit_settings() | {"num_steps": Rounds(4, 3, gain=-1e6, good_gain=-1e6)}
    fitted = uivi.fit(log_density, dim=2, key=jax.random.key(0), **settings)
    assert fitted.history["step"][-1] == 28


def test_the_default_runs_in_rounds(monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class Few(Rounds):
        first: int = 4
        number: int = 2

    monkeypatch.setattr(sys.modules["uivi.fitting.fit"], "Rounds", Few)
    settings = explicit_settings() | {"num_steps": None}
    fitted = uivi.fit(log_density, dim=2, key=jax.random.key(0), **settings)
    assert fitted.history["step"][-1] == 12


def test_the_verdict_compares_rounds():
    found = recent_gain(history(-9.0, -3.0, -2.0))
    np.testing.assert_allclose(found[0], 1.0 - 2 * np.hypot(0.01, 0.01))
    assert found[1] == "the last round"


@pytest.mark.parametrize("settings", [{"first": 0}, {"number": 0}, {"number_if_near": 0}])
def test_wrong_numbers_are_refused(settings):
    with pytest.raises(ValueError, match="to be a positive whole number"):
        Rounds(**settings)


def test_the_default_optimizer_follows_the_rounds():
    """The update of a constant gradient is the rate: zero at the end of a round, high after it."""
    optimizer = presets.default_optimizer(SHORT)
    state, sizes = optimizer.init(np.zeros(1)), []
    for _ in range(12):
        update, state = optimizer.update(np.ones(1), state, np.zeros(1))
        sizes.append(float(abs(update[0])))
    assert sizes[9] < 0.1 * sizes[0] < 0.3 * sizes[10] < 0.3 * sizes[0]
