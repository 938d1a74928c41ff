"""Tests what is read from the history of a fit."""

import math

import pytest

from uivi.evaluation.history import gain_of_last_round, recent_gain, total


def rounds(*ends):
    """Returns a history of rounds with three records each; the last bound of a round is given."""
    columns = {"round": [], "elbo_lower": [], "elbo_lower_stderr": []}
    for number, end in enumerate(ends):
        columns["round"] += [number] * 3
        columns["elbo_lower"] += [end - 7.0, end, None]
        columns["elbo_lower_stderr"] += [9.0, 0.01, None]
    return columns


def test_the_gain_of_the_last_round_compares_the_ends_of_the_last_two():
    gain, stderr = gain_of_last_round(rounds(-9.0, -3.0, -2.0))
    assert gain == 1.0
    assert stderr == pytest.approx(math.hypot(0.01, 0.01))


@pytest.mark.parametrize("history", [{}, rounds(), rounds(-9.0)])
def test_one_round_has_no_gain(history):
    assert gain_of_last_round(history) is None


def test_the_recent_gain_is_that_of_the_last_round_if_there_are_rounds():
    gain, period = recent_gain(rounds(-9.0, -3.0, -2.0))
    assert gain == pytest.approx(1.0 - 2 * math.hypot(0.01, 0.01))
    assert period == "the last round"


def test_the_total_weighs_means_per_update_by_the_number_of_updates():
    history = {"step": [1, 5, 10], "nonfinite": [1.0, 0.5, 2.0]}
    assert total(history, "nonfinite") == 1 * 1.0 + 4 * 0.5 + 5 * 2.0
    assert total({}, "nonfinite") == 0
