"""ArviZ export: groups, shapes, names, and numbers that agree with the posterior."""

import jax
import numpy as np
import pytest

import uivi
from tests.integrations.test_numpyro import X, Y, regression
from tests.tiny import explicit_settings, implicit_settings, log_density
from uivi.integrations import arviz as integration


@pytest.fixture(scope="module")
def fitted():
    settings = {"family": uivi.ExplicitGaussian.create(3), "num_steps": 300, "check": False, "progress": False}
    return uivi.fit(regression, model_args=(X, Y), key=jax.random.key(0), **settings)


@pytest.fixture(scope="module", params=["DataTree", "InferenceData"])
def tree(request, fitted):
    """In the format of ArviZ 1 and of earlier versions; the latter needs an earlier ArviZ."""
    is_before_one = request.param == "InferenceData"
    if is_before_one and not integration._is_before_one():
        pytest.skip("needs ArviZ before 1, which comes with PyMC 5")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(integration, "_is_before_one", lambda: is_before_one)
        data = fitted.to_arviz(jax.random.key(1), 50)
    assert type(data).__name__ == request.param
    return data


def group_names(data) -> set[str]:
    """Names of the groups of a DataTree or InferenceData."""
    return set(data.groups()) if callable(data.groups) else set(data.children)


def flat_of(values) -> np.ndarray:
    """Draws of all chains."""
    return values.values.reshape(-1, *values.shape[2:])


@pytest.mark.parametrize("number", [1_000, 997, 40])
def test_a_summary_has_no_warning_and_no_nan(fitted, number):
    """Before draws had several chains, R-hat was NaN and each variable gave a warning."""
    arviz = pytest.importorskip("arviz")
    data = fitted.to_arviz(jax.random.key(1), number, log_likelihood=False, predictive=False)
    assert data["posterior"].sizes["chain"] == 4
    assert data["posterior"].sizes["draw"] == -(-number // 4)
    summary = arviz.summary(data)
    assert np.all(np.isfinite(summary["r_hat"].astype(float)))


def test_a_summary_of_arviz_1_has_no_warning_and_no_nan(fitted, monkeypatch):
    """ArviZ 1 takes its summary from arviz-stats, which may be there beside an earlier ArviZ."""
    stats = pytest.importorskip("arviz_stats")
    monkeypatch.setattr(integration, "_is_before_one", lambda: False)
    data = fitted.to_arviz(jax.random.key(1), 997, log_likelihood=False, predictive=False)
    assert np.all(np.isfinite(stats.summary(data)["r_hat"].astype(float)))


def test_groups_of_a_model(tree):
    assert group_names(tree) == {
        "posterior", "unconstrained_posterior", "sample_stats", "log_likelihood", "posterior_predictive",
        "observed_data",
    }  # fmt: skip
    assert tree["posterior"]["weights"].shape == (4, 13, 2)
    assert set(tree["posterior"].data_vars) == {"scale", "weights", "mean"}
    assert tree["log_likelihood"]["y"].shape == tree["posterior_predictive"]["y"].shape == (4, 13, 12)
    assert tree["posterior_predictive"]["y"].dims == ("chain", "draw", "rows")
    np.testing.assert_array_equal(tree["observed_data"]["y"], Y)
    assert tree["posterior"].attrs["inference_library"] == "uivi"


def test_the_numbers_belong_together(tree, fitted):
    unconstrained = flat_of(tree["unconstrained_posterior"]["scale"])
    np.testing.assert_allclose(np.exp(unconstrained), flat_of(tree["posterior"]["scale"]), rtol=1e-5)
    stats = tree["sample_stats"]
    np.testing.assert_array_equal(stats["log_q_lower"], stats["log_q_upper"])  # an explicit family
    np.testing.assert_allclose(np.exp(stats["log_weight"].values).sum(), 1.0, rtol=1e-6)
    flat = np.concatenate([unconstrained[:, None], flat_of(tree["unconstrained_posterior"]["weights"])], axis=1)
    expected = [fitted.target.log_density(jax.numpy.asarray(z)) for z in flat[:3]]
    np.testing.assert_allclose(flat_of(stats["log_p"])[:3], expected, rtol=1e-5)


def test_parts_can_be_left_out(fitted):
    tree = fitted.to_arviz(jax.random.key(1), 5, log_likelihood=False, predictive=False)
    assert not {"log_likelihood", "posterior_predictive"} & group_names(tree)


def test_other_structures():
    plain = uivi.fit(log_density, 2, key=jax.random.key(0), **implicit_settings(3))
    tree = plain.to_arviz(jax.random.key(1), 30)
    assert tree["posterior"]["z"].shape == (4, 8, 2)
    assert np.all(tree["sample_stats"]["log_q_lower"] <= tree["sample_stats"]["log_q_upper"] + 1)
    nested = {"a": np.zeros(1, np.float32), "b": [np.zeros(1, np.float32)]}
    named = lambda z: log_density(jax.numpy.concatenate([z["a"], z["b"][0]]))
    tree = uivi.fit(named, init=nested, key=jax.random.key(0), **explicit_settings(3)).to_arviz(
        jax.random.key(1), 7
    )
    assert tree["posterior"]["a"].shape == tree["posterior"]["b_0"].shape == (1, 7, 1)


def test_the_number_of_draws_is_positive(fitted):
    with pytest.raises(ValueError, match="num_draws"):
        fitted.to_arviz(jax.random.key(1), 0)


def test_the_key_is_a_key(fitted, unchecked):
    with pytest.raises(TypeError, match="expected `key` to be one JAX random key, got int 1"):
        fitted.to_arviz(1)


def test_densities_need_the_target(fitted, tmp_path):
    fitted.save(tmp_path / "a.uivi")
    with pytest.raises(ValueError, match="expected a posterior with its log density"):
        uivi.load(tmp_path / "a.uivi").to_arviz(jax.random.key(0))
