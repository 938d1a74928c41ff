"""Tests for methods: problems with known answers, statistical assertions, and what each role promises."""

from uivi.testing.conditionals import (
    assert_draws_follow_density,
    assert_reparameterised,
    check_conditional,
)
from uivi.testing.doubly import DoublyOracle, make_doubly_oracle, make_linear_prior, negative_doubly_elbo
from uivi.testing.estimators import check_estimator
from uivi.testing.faults import AbstractFaulty, Blind, Negated, Stuck
from uivi.testing.line import (
    free_energy,
    gauss_hermite,
    line_log_density,
    make_line_oracle,
    negative_line_elbo,
    negative_sivi_bound,
)
from uivi.testing.means import FAILURE_RATE, assert_mean, assert_not_mean, assert_unbiased, z_threshold
from uivi.testing.oracle import (
    TARGET_COVARIANCE,
    TARGET_MEAN,
    Oracle,
    exact_gradient,
    expected_log_density,
    fisher_divergence,
    make_oracle,
    negative_conditional_elbo,
    negative_elbo,
    score_difference,
)
from uivi.testing.samplers import check_reverse_sampler
from uivi.testing.sampling import (
    compiled_reverse,
    component_names,
    draw_pairs,
    flat,
    gradient_samples,
    reverse_moments,
    trained_state,
    whitened_moments,
)

__all__ = [
    "FAILURE_RATE",
    "TARGET_COVARIANCE",
    "TARGET_MEAN",
    "AbstractFaulty",
    "Blind",
    "DoublyOracle",
    "Negated",
    "Oracle",
    "Stuck",
    "assert_draws_follow_density",
    "assert_mean",
    "assert_not_mean",
    "assert_reparameterised",
    "assert_unbiased",
    "check_conditional",
    "check_estimator",
    "check_reverse_sampler",
    "compiled_reverse",
    "component_names",
    "draw_pairs",
    "exact_gradient",
    "expected_log_density",
    "fisher_divergence",
    "flat",
    "free_energy",
    "gauss_hermite",
    "gradient_samples",
    "line_log_density",
    "make_doubly_oracle",
    "make_line_oracle",
    "make_linear_prior",
    "make_oracle",
    "negative_conditional_elbo",
    "negative_doubly_elbo",
    "negative_elbo",
    "negative_line_elbo",
    "negative_sivi_bound",
    "reverse_moments",
    "score_difference",
    "trained_state",
    "whitened_moments",
    "z_threshold",
]
