"""PyMC models: the right density in both precisions, draws in their own space, clear refusals."""

import json
import os
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import uivi
from tests.helpers import assert_regression_is_constrained
from tests.tiny import explicit_settings
from uivi.testing import assert_mean, assert_not_mean

pm = pytest.importorskip("pymc", reason="needs PyMC: pip install 'uivi[pymc]'")

from tests.integrations import pymc_models as models  # noqa: E402
from tests.integrations.pymc_models import ROWS, X, Y, made  # noqa: E402
from tests.integrations.test_arviz import group_names  # noqa: E402
from uivi.integrations import pymc as integration  # noqa: E402
from uivi.targets.probe import Probe, finite_points  # noqa: E402

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(params=["float32", "x64"])
def precision(request):
    """Rounding errors of one precision, inside which the test runs."""
    if request.param == "float32":
        return 2e-5
    request.getfixturevalue("x64")
    return 1e-7  # some constants of PyMC are in float32


def settings(dim: int, num_steps: int = 3):
    return explicit_settings(num_steps) | {"family": uivi.ExplicitGaussian.create(dim)}


@pytest.fixture(scope="module")
def target():
    return integration.target(models.regression())


@pytest.fixture(scope="module")
def fitted():
    model = models.regression()
    return model, uivi.fit(model, random_seed=0, **settings(3, 200))


def test_names_and_sizes(target):
    assert target.dim == 3
    assert [target.coordinate(i) for i in range(3)] == ["scale", "weights[0]", "weights[1]"]
    np.testing.assert_array_equal(target.model.observed()["y"], Y)
    assert target.model.dims["weights"] == ["term"]
    assert list(target.model.coords["row"]) == ROWS


def test_the_density_has_its_jacobian(precision):
    """By hand: scale = exp(u), whose Jacobian is u."""
    target = integration.target(models.regression())
    u, w = 0.3, np.array([0.2, -0.7])
    by_hand = (
        scipy.stats.halfnorm(scale=2.0).logpdf(np.exp(u))
        + u
        + scipy.stats.norm(0.0, 3.0).logpdf(w).sum()
        + scipy.stats.norm(w[0] + w[1] * X, np.exp(u)).logpdf(Y).sum()
    )
    value = target.log_density(jnp.array([u, *w]))
    assert value.dtype == jnp.zeros(()).dtype
    np.testing.assert_allclose(value, by_hand, rtol=precision)


TRANSFORMED = {
    "half normal": (models.half_normal, scipy.stats.halfnorm(scale=2.0).logpdf, lambda v: v > 0),
    "beta": (models.beta, scipy.stats.beta(2.0, 3.0).logpdf, lambda v: (v > 0) & (v < 1)),
    "interval": (models.interval, scipy.stats.uniform(-1.0, 5.0).logpdf, lambda v: (v > -1) & (v < 4)),
    "simplex": (
        models.simplex,
        lambda v: scipy.stats.dirichlet([1.0, 2.0, 3.0]).logpdf(v / v.sum()),
        lambda v: (v > 0) & (np.abs(v.sum() - 1) < 1e-6),
    ),
    "ordered": (
        models.ascending, lambda v: scipy.stats.norm(0.0, 1.5).logpdf(v).sum(), lambda v: np.diff(v) > 0
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformed_variables(name, precision):
    """Log p(z) is the density of the constrained draw and the Jacobian of the map to it, here by autodiff."""
    declare, log_prob, is_inside = TRANSFORMED[name]
    target = integration.target(made(declare))
    z = jnp.array([0.4, -0.3, 0.6])[: target.dim]
    constrained = lambda z: target.constrain(z)["v"]
    free = lambda z: jnp.ravel(constrained(z))[: target.dim]  # the last of a simplex follows from the others
    draw = np.asarray(constrained(z), np.float64)
    assert np.all(is_inside(draw))
    expected = log_prob(draw) + np.linalg.slogdet(jax.jacobian(free)(z))[1]
    np.testing.assert_allclose(target.log_density(z), expected, rtol=precision, atol=precision)


@pytest.mark.filterwarnings("ignore:Data in y contains missing values:UserWarning")
@pytest.mark.parametrize("name", ["imputed", "with_potential", "mixture", "random_walk"])
def test_the_density_is_that_of_pymc(name, precision, getkey):
    model = made(getattr(models, name))
    target = integration.target(model)
    (flat,) = finite_points(getkey(), target.model, Probe(target.log_density, 4), 1)
    flat = jnp.asarray(flat, jnp.result_type(float))
    point = target.unflatten(flat)
    values = {model.rvs_to_values[model[n]].name: np.asarray(v, np.float64) for n, v in point.items()}
    expected = model.compile_logp()(values)
    np.testing.assert_allclose(target.log_density(flat), expected, rtol=precision)
    assert np.all(np.isfinite(jax.grad(target.log_density)(flat)))


def test_draws_are_constrained_and_named(target):
    assert_regression_is_constrained(target, X)


def test_likelihood_and_predictions(target, getkey):
    draws = jax.vmap(target.constrain)(jnp.array([[0.3, 0.2, -0.7], [-1.0, 0.5, 2.0]]))
    likelihood = target.model.log_likelihood(draws)["y"]
    assert likelihood.shape == (2, 6)
    expected = scipy.stats.norm(0.5 + 2.0 * X, np.exp(-1.0)).logpdf(Y)
    np.testing.assert_allclose(likelihood[1], expected, rtol=1e-4)
    many = jax.tree.map(lambda v: jnp.repeat(v[1:], 2_000, 0), draws)
    made = target.model.predict(getkey(), many)["y"]
    assert_mean(made, 0.5 + 2.0 * X, max_stderr=0.01)
    assert_mean((made - 0.5 - 2.0 * X) ** 2, np.exp(-2.0), max_stderr=0.01)
    assert_not_mean(made, 0.2 - 0.7 * X)  # the other draw's
    with pytest.raises(TypeError, match=r"expected no arguments for a PyMC model.*pm.set_data"):
        target.model.predict(getkey(), draws, x=X)


def test_fit_finds_a_known_posterior(monkeypatch, getkey):
    """From the start that it finds itself; with a small family, to be quick."""
    at_start = lambda key, dim, frame, **_: uivi.ExplicitGaussian(jnp.concatenate([frame.loc, jnp.zeros(dim)]))
    monkeypatch.setattr("uivi.fitting.fit.family_on", at_start)
    posterior = uivi.fit(models.conjugate(), random_seed=1, **explicit_settings(4_000) | {"family": None})
    draws = np.asarray(posterior.sample(getkey(), 20_000)["mean"])
    squares = (draws - models.CONJUGATE_MEAN) ** 2
    assert_mean(draws, models.CONJUGATE_MEAN, max_stderr=0.006, bias=0.01)
    assert_mean(squares, models.CONJUGATE_VARIANCE, max_stderr=0.006, bias=0.01)
    assert_not_mean(draws, [1.0, 1.0])  # the prior's
    assert_not_mean(squares, [1 / 2, 1 / 8])  # without the prior


def test_a_fit_in_double_precision(x64, getkey):
    posterior = uivi.fit(models.regression(), random_seed=0, **settings(3))
    assert {str(v.dtype) for v in posterior.sample(getkey(), 2).values()} == {"float64"}


def test_dims_and_coords_are_carried_over(fitted):
    data = fitted[1].to_arviz(jax.random.key(1), 20)
    assert group_names(data) == {
        "posterior", "unconstrained_posterior", "sample_stats", "log_likelihood", "posterior_predictive",
        "observed_data", "constant_data",
    }  # fmt: skip
    assert set(data["posterior"].data_vars) == {"scale", "weights", "mean"}
    assert data["posterior"]["mean"].dims == data["log_likelihood"]["y"].dims == ("chain", "draw", "row")
    assert list(data["posterior"]["weights"].coords["term"].values) == ["intercept", "slope"]
    assert list(data["posterior_predictive"]["y"].coords["row"].values) == ROWS
    np.testing.assert_array_equal(data["observed_data"]["y"], Y)
    np.testing.assert_array_equal(data["constant_data"]["x"], X)


def test_a_simplex_may_have_dims():
    """It has one axis less on the unconstrained space, which then bears no labels."""
    with pm.Model(coords={"part": ["p", "q", "r"]}) as model:
        pm.Dirichlet("share", np.ones(3), dims="part")
    data = uivi.fit(model, random_seed=0, **settings(2)).to_arviz(jax.random.key(1), 4)
    assert data["posterior"]["share"].dims == ("chain", "draw", "part")
    assert data["unconstrained_posterior"]["share"].shape == (1, 4, 2)
    assert "observed_data" not in group_names(data)


def test_pymc_predicts_for_new_data(fitted):
    """What is exported is what PyMC takes; the target keeps the data it was made with."""
    model, posterior = fitted
    data = posterior.to_arviz(jax.random.key(1), 500, predictive=False)
    z = jnp.array([0.1, 0.2, 0.3])
    before = posterior.target.log_density(z)
    with model:
        pm.set_data({"x": np.array([10.0, 20.0])}, coords={"row": ["far", "farther"]})
        drawn = pm.sample_posterior_predictive(
            data, var_names=["mean"], predictions=True, progressbar=False, random_seed=1
        )
    weights = data["posterior"]["weights"].values
    expected = weights[..., :1] + weights[..., 1:] * np.array([10.0, 20.0])
    np.testing.assert_allclose(drawn["predictions"]["mean"].values, expected, rtol=1e-5)
    assert posterior.target.log_density(z) == before


def test_the_start_is_around_the_users_initial_values(getkey):
    with pm.Model() as model:
        pm.Normal("far", 0.0, 100.0, initval=50.0)
        pm.HalfNormal("scale", initval=np.exp(4.0))
    initial = dict(model.rvs_to_initial_values)
    target = integration.target(model)
    (point,) = finite_points(getkey(), target.model, Probe(target.log_density, 4), 1)
    start = target.unflatten(jnp.asarray(point, jnp.float32))
    assert abs(start["far"] - 50) < 1 > abs(start["scale"] - 4)
    assert dict(model.rvs_to_initial_values) == initial


def test_a_posterior_of_a_model_is_saved_and_loaded(fitted, tmp_path, getkey):
    posterior = fitted[1]
    posterior.save(tmp_path / "model.uivi")
    key = getkey()
    with pytest.raises(ValueError, match="this posterior belongs to a model: pass it as target="):
        uivi.load(tmp_path / "model.uivi").sample(key, 3)
    again = uivi.load(tmp_path / "model.uivi", target=models.regression())
    jax.tree.map(np.testing.assert_array_equal, again.sample(key, 3), posterior.sample(key, 3))
    with pytest.raises(TypeError, match="expected `target` to be a target or a model, got float"):
        uivi.load(tmp_path / "model.uivi", target=3.0)


BAD = {
    "no_free": "expected at least one free variable, got .'y'.",
    "discrete": "expected continuous free variables, got the discrete 'label'",
    "minibatch": "expected the whole data, got pm.Minibatch",
    "untransformed": "got 'scale' without its transform: leave out default_transform=None",
    "circular": "got the circular 'angle'",
    "nan": "found none in 100 tries; at that point, log p is not finite in 'y' .nan.: look for NaN",
    "unknown_op": "expected a model that PyTensor can translate to JAX(.|\n)*Unknown",
    "improper": "does not change with 'free'",
}


@pytest.mark.parametrize("name", BAD)
def test_bad_models_are_refused(name):
    with pytest.raises(ValueError, match=BAD[name]):
        uivi.fit(made(getattr(models, name)), random_seed=0, num_steps=2, check=False, progress=False)


def test_arguments_that_do_not_belong_to_a_model_are_refused():
    with pytest.raises(ValueError, match="expected no `model_args` with a PyMC model"):
        uivi.fit(models.regression(), model_args=(X,), random_seed=0)
    with pytest.raises(TypeError, match="a model, got Model: give a function, or a model without `dim`"):
        uivi.fit(models.regression(), dim=3, random_seed=0)
    with pytest.raises(TypeError, match="got the class Model: pass an instance"):
        uivi.fit(pm.Model, random_seed=0)


@pytest.mark.parametrize("x64", ["0", pytest.param("1", marks=pytest.mark.slow)])
def test_the_process_is_left_as_it_was(x64):
    """PyMC's JAX functions switch on x64 and ask for a hundred devices when they are imported."""
    environment = os.environ | {"JAX_ENABLE_X64": x64, "XLA_FLAGS": "--xla_cpu_enable_fast_math=false"}
    script = [sys.executable, "-m", "tests.integrations.pymc_process"]
    run = subprocess.run(script, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    expected = {"x64": x64 == "1", "flags": environment["XLA_FLAGS"]}
    assert found["before"] == {**expected, "pymc": False}
    assert found["after"] == expected
    assert found["devices"] == 1
    assert set(found["dtypes"]) == {"float64" if x64 == "1" else "float32"}
    scale = np.exp(0.3)
    by_hand = scipy.stats.halfnorm.logpdf(scale) + 0.3 + scipy.stats.norm(scale, 1.0).logpdf([0.5, 1.5]).sum()
    np.testing.assert_allclose(found["value"], by_hand, rtol=1e-9 if x64 == "1" else 1e-6)
