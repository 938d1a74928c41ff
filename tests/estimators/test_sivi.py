"""SIVI against the exact gradient of its own bound, which is not that of the ELBO."""

import jax.numpy as jnp
import pytest

from uivi.estimators import SIVI
from uivi.testing import (
    assert_mean,
    assert_not_mean,
    assert_unbiased,
    exact_gradient,
    gradient_samples,
    make_line_oracle,
    negative_line_elbo,
    negative_sivi_bound,
)

NUM_ESTIMATES = 6_000


def bound_gradient(num_mixing: int):
    """Exact, of the negative bound."""
    return exact_gradient(lambda c: negative_sivi_bound(c, num_mixing), make_line_oracle().conditional)


def elbo_gradient():
    """Exact, of the negative ELBO."""
    return exact_gradient(negative_line_elbo, make_line_oracle().conditional)


def samples_of(key, estimator, step=0):
    return gradient_samples(key, estimator, make_line_oracle(), NUM_ESTIMATES, step=step)


@pytest.mark.parametrize("num_mixing", [1, 2])
def test_gradient_of_the_bound(num_mixing, x64, getkey):
    """Biased for the ELBO, by a declared and visible amount, when L is small."""
    samples = samples_of(getkey(), SIVI(4, num_mixing))
    assert_mean(samples, bound_gradient(num_mixing), max_stderr=0.015)
    assert_not_mean(samples, elbo_gradient())


def test_bias_falls_with_the_number_of_mixing_draws(x64, getkey):
    samples = samples_of(getkey(), SIVI(4, 100))
    assert_mean(samples, elbo_gradient(), max_stderr=0.015, bias=0.02)


def test_masked_draws_do_not_count(x64, getkey):
    """Before the schedule's second stage the bound is that of its first."""
    estimator = SIVI(4, 2, schedule=((0, 1), (10, 2)))
    first, second = (samples_of(getkey(), estimator, step) for step in (9, 10))
    assert_unbiased(first, bound_gradient(1), control=second, max_stderr=0.015)
    assert_unbiased(second, bound_gradient(2), control=first, max_stderr=0.015)


def active_sizes(estimator, steps):
    return [int(jnp.sum(estimator._active(jnp.asarray(step)) == 0)) for step in steps]


def test_schedule_by_step():
    estimator = SIVI(num_mixing=50, schedule=((0, 5), (100, 20), (200, 50)))
    assert active_sizes(estimator, (0, 99, 100, 199, 200, 10_000)) == [5, 5, 20, 20, 50, 50]
    assert active_sizes(SIVI(num_mixing=7), (0, 1_000)) == [7, 7]


@pytest.mark.parametrize(
    "schedule",
    [
        ((0, 20), (10, 5), (20, 50)),
        ((0, 60),),
        ((10, 5), (0, 50)),
        ((0, 0), (10, 50)),
        ((10, 5), (20, 50)),
        ((0, 5), (10, 20)),
    ],
    ids=["decreasing", "above num_mixing", "steps out of order", "no draws", "late start", "ends below"],
)
def test_bad_schedules(schedule):
    with pytest.raises(ValueError, match="never decreasing and ending at num_mixing=50, got"):
        SIVI(num_mixing=50, schedule=schedule)


def test_bad_counts():
    with pytest.raises(ValueError, match="`num_mixing` to be a positive whole number, got 0"):
        SIVI(num_mixing=0)
