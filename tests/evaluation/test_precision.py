"""What floating point leaves of a log density."""

import numpy as np
import pytest

from uivi.evaluation.precision import measure_precision, step_of


@pytest.mark.parametrize(("constant", "step"), [(0.0, 5e-7), (1e4, 1e-3), (1e6, 0.0625), (1e8, 8.0)])
def test_a_constant_costs_digits(constant, step):
    values = (np.float32(constant) + np.linspace(-5, 0, 100, dtype=np.float32)).astype(np.float32)
    assert step_of(values) == pytest.approx(step, rel=0.1)


def test_a_constant_that_was_taken_away_again_leaves_a_grid():
    values = np.linspace(-5, 0, 100, dtype=np.float32)
    rounded = (values + np.float32(1e7)) - np.float32(1e7)
    assert step_of(rounded) == 1.0
    assert step_of(values) < 1e-6


def test_the_steps_of_a_far_off_variable():
    rng = np.random.default_rng(0)
    z = np.stack([rng.standard_normal(1000), 1e4 + 0.005 * rng.standard_normal(1000)], 1).astype(np.float32)
    found = measure_precision(z, np.zeros(1000, np.float32))
    assert found.steps == pytest.approx(5, abs=1)
    assert measure_precision(z[:, :1], np.zeros(1000, np.float32)).steps > 1e5


def test_no_finite_value():
    assert np.isnan(step_of(np.full(3, np.nan, np.float32)))
    found = measure_precision(np.full((3, 2), np.nan, np.float32), np.full(3, -np.inf, np.float32))
    assert np.isnan(found.nats)
