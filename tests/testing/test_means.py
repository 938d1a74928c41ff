"""The assertions fail where they should, and say where, by how much and what to do."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from uivi.testing import (
    assert_mean,
    assert_not_mean,
    assert_unbiased,
    component_names,
    make_oracle,
    z_threshold,
)

EXACT = np.array([1.0, -2.0, 0.5])


def samples(shift=(0.0, 0.0, 0.0), num=1_000):
    return EXACT + np.array(shift) + np.random.default_rng(3).normal(0, 1.0, (num, 3))


def test_right_samples_pass_with_a_broken_control():
    assert_unbiased(samples(), EXACT, control=-samples(), max_stderr=0.04)
    assert_unbiased(jnp.asarray(samples()[:, 0]), 1.0, control=samples()[:, 1], max_stderr=0.04)


def test_a_wrong_component_is_named():
    message = (
        r"off by 0\.\d+ = \d+\.\d standard errors in component \[2\] \(scale\): 0\.\d+, exact 0\.5; "
        r"4\.6 standard errors and a bias of 0\.0 are allowed: find the fault there"
    )
    with pytest.raises(AssertionError, match=message):
        assert_unbiased(
            samples((0, 0, 0.3)), EXACT, control=0 * samples(), max_stderr=0.04, names=("a", "b", "scale")
        )


def test_a_declared_bias_is_allowed_and_no_more():
    shifted = samples((0.3, 0.0, 0.0))
    assert_mean(shifted, EXACT, max_stderr=0.04, bias=0.3)
    with pytest.raises(AssertionError, match=r"in component \[0\]"):
        assert_mean(shifted, EXACT, max_stderr=0.04, bias=0.05)


def test_a_control_that_passes_is_an_error():
    """Also one whose fault hides behind the declared bias."""
    for control, bias in ((samples((0.05, 0, 0)), 0.0), (samples((0.3, 0, 0)), 0.3)):
        with pytest.raises(
            AssertionError, match="the control passes, .* cannot notice that fault.*: break more"
        ):
            assert_unbiased(samples(), EXACT, control=control, max_stderr=0.04, bias=bias)
    assert_not_mean(samples((0.3, 0, 0)), EXACT)


def test_a_large_standard_error_is_no_evidence():
    with pytest.raises(AssertionError, match=r"no power: .* above max_stderr=0.01: take 1\d,\d\d\d samples"):
        assert_mean(samples(), EXACT, max_stderr=0.01)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_samples_that_are_not_finite_fail(bad):
    wrong = samples()
    wrong[7, 1] = bad
    for check in (lambda: assert_mean(wrong, EXACT, max_stderr=1.0), lambda: assert_not_mean(wrong, EXACT)):
        with pytest.raises(AssertionError, match="1 of 3000 numbers in the samples are NaN or infinite"):
            check()


def test_samples_without_noise_are_compared_to_rounding():
    assert_mean(np.ones((5, 2)), 1.0, max_stderr=0.0)
    with pytest.raises(AssertionError, match="off by 1e-06"):
        assert_mean(np.full((5, 2), 1 + 1e-6), 1.0, max_stderr=0.0)


def test_the_threshold_is_that_of_the_failure_rate():
    """Of 4,000 correct tests of ten components with a rate of 5 %, so many fail by chance."""
    found = np.random.default_rng(0).normal(size=(4_000, 10))
    share = np.mean(np.any(np.abs(found) > z_threshold(10, 0.05), 1))
    assert abs(share - 0.05) < 4 * np.sqrt(0.05 / 4_000)
    np.testing.assert_allclose(z_threshold(3), scipy.stats.norm.isf(1e-5 / 6), rtol=1e-12)


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"two samples or more along the first axis, got shape \(1, 3\)"):
        assert_mean(samples(num=1), EXACT, max_stderr=1.0)
    with pytest.raises(ValueError, match=r"a name for each component, so \(3,\) names, got 2"):
        assert_mean(samples(), EXACT, max_stderr=1.0, names=["a", "b"])


def test_components_are_called_by_their_place():
    names = component_names(make_oracle().family)
    assert len(names) == 8
    assert names[1] == ".conditional.weight[0][1]"
    assert names[-1] == ".conditional.scale[1]"
