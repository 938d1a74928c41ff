"""The comparison: equal recipes, scores against closed forms, one judge for all, every method smokes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from tests.paper.test_runner import need
from uivi import paper
from uivi._types import Status
from uivi.paper import EXPERIMENTS, GROUPS, Run, granting, report
from uivi.paper.methods import experiments, judging, problems
from uivi.paper.methods.judging import Budget
from uivi.paper.methods.published import PUBLISHED
from uivi.paper.methods.waveform import Moments, reference
from uivi.targets import ConditionedDiffusion
from uivi.testing import make_oracle, negative_elbo, z_threshold

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("experiment", experiments.METHODS, ids=lambda e: e.name)
def test_all_methods_get_the_same(experiment):
    """The same number of updates, draws and optimiser; what differs has a word in the tables."""
    for recipes in experiment.recipes.values():
        assert set(recipes) == set(experiments.SIZES)
        assert next(iter(recipes)) == "uivi"
        assert len({recipe.num_steps for recipe in recipes.values()}) == 1
        for name, recipe in recipes.items():
            assert getattr(recipe.estimator, "num_draws", 64) == (1 if name == "pvi" else 64)
            assert (recipe.optimizer is experiments.common_optimizer) == (name != "default")
            is_own = name in ("explicit", "flow", "pvi", "default")
            assert (recipe.family is experiments.common_family) != is_own


def test_groups_and_published_figures():
    assert len(GROUPS["methods"]) == 7
    assert paper.WHOLE["methods"] == ("updates", "seconds")
    assert set(PUBLISHED) <= set(EXPERIMENTS)


def test_marginal_scores():
    exact = ConditionedDiffusion().exact()
    draws = exact.mean + exact.sd * RNG.normal(size=(20_000, 100))
    found = problems.marginal_scores(exact, draws)
    assert found["mean_error"] < z_threshold(100) / 20_000**0.5
    assert found["sd_error"] < z_threshold(100) / 40_000**0.5 + 1e-3
    # The states are nearly Gaussian: the score is close to its best value, from below.
    assert 73.5 < found["kde"] < 74.85
    worse = problems.marginal_scores(exact, exact.mean + 1.5 * (draws - exact.mean) + 0.3 * exact.sd)
    assert worse["mean_error"] > 0.2
    assert worse["sd_error"] == pytest.approx(0.5, abs=0.05)
    assert worse["kde"] < found["kde"] - 5


def test_moment_scores():
    covariance = np.array([[2.0, 0.6], [0.6, 1.0]])
    exact = Moments(np.array([1.0, -1.0]), covariance)
    draws = RNG.multivariate_normal(exact.mean, 1.2 * covariance, 100_000) + np.array([0.0, 0.3])
    found = problems.moment_scores(exact, draws)
    assert found["mean_error"] == pytest.approx(0.3, abs=0.02)
    assert found["covariance_error"] == pytest.approx(0.2, abs=0.02)


def test_prediction_scores():
    """Of one draw: a Gaussian. Of two: a mixture."""
    values = np.array([1.0, -2.0])
    one = problems.prediction_scores(np.zeros((1, 2)), np.log([4.0]), values, 3.0)
    assert one["rmse"] == pytest.approx(3 * np.sqrt(2.5))
    squares = 0.5 * 4 * np.array([1.0, 4.0])
    assert one["nll"] == pytest.approx(np.mean(squares) + 0.5 * np.log(2 * np.pi / 4) + np.log(3))
    two = problems.prediction_scores(np.array([[1.0, -2.0], [1e3, 1e3]]), np.zeros(2), values, 1.0)
    assert two["nll"] == pytest.approx(0.5 * np.log(2 * np.pi) + np.log(2))


def test_the_reference_of_the_waveforms():
    found = reference()
    assert found.covariance.shape == (22, 22)
    np.testing.assert_allclose(found.covariance, found.covariance.T, rtol=1e-4)
    assert np.linalg.eigvalsh(found.covariance).min() > 0


@pytest.fixture(scope="module")
def fit():
    oracle = make_oracle()
    return uivi.Posterior(oracle.family, np.zeros(2), Status.DONE, {}, 0.0, target=oracle.target)


SMALL = Budget(draws=16_384, mixing=32, regressed=4_096, learning=0, moments=100)


def test_the_regression_is_the_reverse_conditional_of_a_linear_gaussian(fit):
    """Its covariance is wider by the proposal's inflation alone."""
    conditional = make_oracle().conditional
    state = judging.regressed(jax.random.key(0), fit.family, 20_000)
    z = jnp.array([0.9, -0.8])
    at = judging.PROPOSAL.at(fit.family, z, None, state).learned
    mean, covariance = conditional.reverse(z)
    inverse = np.linalg.inv(np.asarray(at.whitener))
    factor = inverse * np.asarray(at.scale) / judging.PROPOSAL.inflation
    np.testing.assert_allclose(at.mean, mean, atol=0.05)
    np.testing.assert_allclose(factor @ factor.T, covariance, atol=0.02)


def test_bounds_bracket_the_elbo(fit):
    check = judging.judge(jax.random.key(1), fit, SMALL)
    exact = -float(negative_elbo(make_oracle().conditional))
    sides = check.lower, check.upper
    assert all(side.stderr < 0.05 for side in sides), sides
    assert check.lower.mean < exact + z_threshold(1) * check.lower.stderr
    assert check.upper.mean > exact - z_threshold(1) * check.upper.stderr
    assert check.upper.mean - check.lower.mean < 0.05
    # A wrong value is outside.
    assert not check.lower.mean < exact - 0.5 + z_threshold(1) * check.lower.stderr
    found = judging.values(check, 3.0)
    assert found["kl_upper"]["mean"] == 3.0 - check.lower.mean
    assert found["kl_lower"]["mean"] <= found["kl_upper"]["mean"]
    assert found["failed"] is False


def test_failures_are_counted(fit):
    check = judging.judge(jax.random.key(1), fit, Budget(draws=16, mixing=2, regressed=64, learning=0))
    lower = check.lower
    for change in (
        {"status": Status.NONFINITE},
        {"lower": lower._replace(mean=float("nan"))},
        {"lower": lower._replace(mean=-1e9)},
    ):
        assert judging.failed(dataclasses.replace(check, **change))
    assert not judging.failed(check)


SMOKED = [
    pytest.param(
        name, method, marks=() if (name, method) == ("methods-banana", "explicit") else pytest.mark.slow
    )
    for name in ("methods-banana", "methods-diffusion", "methods-waveform", "methods-yacht")
    for method in experiments.SIZES
]


@pytest.mark.parametrize(("name", "method"), SMOKED)
def test_every_method_smokes(name, method, tmp_path, monkeypatch):
    if EXPERIMENTS[name].dataset:
        need(name)
    monkeypatch.setattr(problems, "QUADRATURE", 6)
    monkeypatch.setattr(granting, "STRETCH", 0.001)
    run = Run.create(
        EXPERIMENTS[name], preset="updates", method=method, seeds=(0, 1), out=tmp_path, effort="smoke"
    )
    (result,) = paper.run(run, progress=False)
    assert result["status"] == ["DONE", "DONE"]
    for seed in result["seeds"]:
        assert seed["check"]["lower"]["stderr"] > 0
        assert all(np.isfinite(list(seed["scores"].values())))
        assert seed["failed"] is False
    assert any(value is not None for value in result["history"]["elbo_lower"])
    assert "methods" in report.one_line(result)
    assert "side by side" in report.write_page(tmp_path).read_text()
