"""Minibatches of a NumPyro model: unbiased estimates, results on all rows, draws, export and storage."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import uivi
from uivi.integrations import numpyro as integration
from uivi.targets import Minibatched
from uivi.targets.probe import Probe, finite_points
from uivi.testing import assert_mean, assert_not_mean

NUM_ROWS, NOISE = 24, 0.7


def make_data(num_rows=NUM_ROWS):
    """Rows in groups, neither symmetric nor sorted."""
    rng = np.random.default_rng(num_rows)
    x = rng.normal(size=(num_rows, 2)) + [0.5, 0.0]
    y = x @ [1.0, -0.5] + 0.3 + NOISE * rng.normal(size=num_rows)
    return {"x": x, "group": rng.integers(0, 3, num_rows), "y": y}


def regression(x, group, y=None, prior=2.0):
    """Global latents, one constrained; a factor and an observation without rows; deterministic sites."""
    scale = numpyro.sample("scale", dist.HalfNormal(prior))
    weights = numpyro.sample("weights", dist.Normal(0.0, prior).expand([2]).to_event(1))
    with numpyro.plate("groups", 3):
        levels = numpyro.sample("levels", dist.Normal(0.0, scale))
    numpyro.factor("penalty", -jnp.sum(weights**4))
    numpyro.sample("total", dist.Normal(jnp.sum(levels), 0.5), obs=jnp.asarray(0.4))
    numpyro.deterministic("norm", jnp.sum(weights**2))
    mean = numpyro.deterministic("mean", x @ weights + levels[group])
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Normal(mean, NOISE), obs=y)


Z = jnp.array([0.2, -0.4, 0.3, 0.7, 0.9, -0.6])


@pytest.fixture(scope="module")
def whole():
    """The same model on all rows at once."""
    return integration.target(regression, (), make_data())


@pytest.fixture(scope="module")
def target():
    return integration.minibatched(regression, make_data(), batch_size=6)


def epoch(target, num_batches):
    sites = jax.vmap(lambda step: target.sites(jax.random.key(2), step))(jnp.arange(num_batches))
    return jax.tree.map(lambda x: x[:, 0], sites)


def estimates(target, num_batches, z=Z):
    return jax.vmap(jax.value_and_grad(target.log_joint), (None, 0))(z, epoch(target, num_batches))


@pytest.mark.parametrize("anchor", [Z + 1.0, None], ids=["anchored", "plain"])
def test_minibatches_of_an_epoch_average_to_the_whole(anchor, target, whole):
    """Value and gradient; priors, penalty and the single observation are not scaled."""
    values, slopes = estimates(target if anchor is None else target.anchored(anchor), 4)
    value, slope = jax.value_and_grad(whole.log_density)(Z)
    np.testing.assert_allclose(values.mean(), value, rtol=1e-5)
    np.testing.assert_allclose(slopes.mean(0), slope, rtol=1e-4, atol=1e-4)
    assert np.ptp(values) > 1.0


def test_an_unscaled_likelihood_is_noticed(target, whole):
    """The control of the test above."""
    values, value = estimates(target, 4)[0], whole.log_density(Z)
    prior = target.model.log_prior(target.unflatten(Z))
    unscaled = prior + (values - prior) * 6 / NUM_ROWS
    assert not np.isclose(unscaled.mean(), value, rtol=1e-2)


def test_an_anchor_takes_the_noise_away(target):
    """A linear model: at a hundredth of the distance, a hundredth of the noise is left."""
    near = Z.at[0].add(0.01)
    noise = lambda target: np.asarray(estimates(target, 4, near)[1]).std(0).max()
    assert noise(target.anchored(Z)) < 0.05 * noise(target)


def test_minibatches_with_a_remainder_are_right_in_the_mean(whole):
    """7 does not divide 24: each epoch leaves out three rows, different ones every time."""
    target = integration.minibatched(regression, make_data(), batch_size=7)
    estimate = jax.vmap(jax.value_and_grad(target.log_joint), (None, 0))
    values, slopes = jax.jit(estimate)(Z, epoch(target, 3_000))
    # The three batches of one epoch are dependent; means over epochs are independent.
    by_epoch = np.column_stack([values, slopes]).reshape(1_000, 3, -1).mean(1)
    expected = np.append(*map(np.asarray, jax.value_and_grad(whole.log_density)(Z)))
    assert_mean(by_epoch, expected, max_stderr=0.3)
    assert_not_mean(by_epoch * 23 / 24, expected)


@pytest.mark.parametrize("batch_size", [6, 7, 24, 1])
def test_the_density_goes_through_all_rows(batch_size, whole):
    target = integration.minibatched(regression, make_data(), batch_size)
    value, slope = jax.jit(jax.value_and_grad(target.log_density))(Z)
    expected, expected_slope = jax.value_and_grad(whole.log_density)(Z)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    np.testing.assert_allclose(slope, expected_slope, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(target.model.log_density(target.unflatten(Z)), expected, rtol=1e-5)


def test_the_scale_of_a_user_is_kept():
    """Tempering inside the model."""

    def tempered(y):
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        with numpyro.handlers.scale(scale=0.25), numpyro.plate("rows", y.shape[0]):
            numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)

    y = {"y": make_data()["y"]}
    target, whole = integration.minibatched(tempered, y, 6), integration.target(tempered, (), y)
    z = jnp.array([0.4])
    np.testing.assert_allclose(target.log_density(z), whole.log_density(z), rtol=1e-5)


def test_rows_keep_their_types(target):
    site = target.sites(jax.random.key(0), jnp.asarray(0))
    assert {name: (x.shape, x.dtype.name) for name, x in site.items()} == {
        "x": ((1, 6, 2), "float32"), "group": ((1, 6), "int32"), "y": ((1, 6), "float32"),
    }  # fmt: skip
    flags = integration.minibatched(
        lambda flag: numpyro.sample(
            "flag", dist.Bernoulli(numpyro.sample("p", dist.Beta(1.0, 1.0))).expand(flag.shape), obs=flag
        ),
        {"flag": np.arange(8) % 2 == 0},
        2,
    )
    assert flags.sites(jax.random.key(0), jnp.asarray(0))["flag"].dtype == bool


def test_draws_and_names(target, whole):
    """A draw has no sites that depend on the rows, and otherwise equals a draw of the whole model."""
    draw, expected = target.constrain(Z), whole.constrain(Z)
    assert set(draw) == {"scale", "weights", "levels", "norm"}
    for name, value in draw.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-6)
    assert [target.coordinate(i) for i in (0, 3, 5)] == ["levels[0]", "scale", "weights[1]"]
    assert (target.dim, target.num_sites, target.num_rows) == (6, 1, NUM_ROWS)
    assert target.model.dims == whole.model.dims
    jax.tree.map(np.testing.assert_array_equal, target.model.coords, whole.model.coords)


@pytest.mark.parametrize("batch_size", [6, 7])
def test_likelihood_predictions_and_data_of_all_rows(batch_size, whole, getkey):
    model = integration.minibatched(regression, make_data(), batch_size).model
    draws = {name: whole.constrain(Z)[name][None] for name in model.example}
    draws = jax.tree.map(lambda x: jnp.concatenate([x, 0.5 * x]), draws)
    likelihood, expected = model.log_likelihood(draws), whole.model.log_likelihood(draws)
    assert set(likelihood) == {"total", "y"}
    for name, value in likelihood.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-5)
    for name, value in model.observed().items():
        np.testing.assert_allclose(value, whole.model.observed()[name], rtol=1e-6)
    many = jax.tree.map(lambda x: jnp.repeat(x[:1], 4_000, 0), draws)
    made = model.predict(getkey(), many)
    assert made["total"].shape == (4_000,)
    assert_mean(made["y"], whole.constrain(Z)["mean"], max_stderr=0.015)
    assert len(np.unique(made["y"][0])) == NUM_ROWS
    new = {name: rows[:5] for name, rows in make_data().items() if name != "y"}
    assert model.predict(getkey(), draws, **new)["y"].shape == (2, 5)


def test_other_arguments_are_passed_on():
    target = integration.minibatched(regression, make_data(), 6, model_kwargs={"prior": 0.5})
    whole = integration.target(regression, (), make_data() | {"prior": 0.5})
    np.testing.assert_allclose(target.log_density(Z), whole.log_density(Z), rtol=1e-5)
    first = integration.minibatched(
        lambda prior, **rows: regression(prior=prior, **rows), make_data(), 6, (0.5,)
    )
    np.testing.assert_allclose(first.log_density(Z), whole.log_density(Z), rtol=1e-5)


def test_a_posterior_is_exported_saved_and_loaded(target, tmp_path, getkey):
    settings = {
        "family": uivi.ExplicitGaussian.create(6, 0.1),
        "num_steps": 3,
        "check": False,
        "progress": False,
    }
    posterior = uivi.fit(target, key=getkey(), checkpoint=tmp_path / "checkpoints", **settings)
    assert isinstance(posterior.target, Minibatched)
    tree = posterior.to_arviz(getkey(), 10)
    assert set(tree["posterior"].data_vars) == {"scale", "weights", "levels", "norm"}
    assert tree["log_likelihood"]["y"].dims == ("chain", "draw", "rows")
    assert tree["posterior_predictive"]["y"].shape == (1, 10, NUM_ROWS)
    posterior.save(tmp_path / "model.uivi")
    key = getkey()
    again = uivi.load(tmp_path / "model.uivi", target=target).sample(key, 3)
    jax.tree.map(np.testing.assert_array_equal, again, posterior.sample(key, 3))


def test_densities_of_draws_are_those_of_all_rows(target, whole, getkey):
    settings = {
        "family": uivi.ExplicitGaussian.create(6, 0.1),
        "num_steps": 3,
        "check": False,
        "progress": False,
    }
    evaluated = uivi.fit(target, key=getkey(), **settings).evaluate(getkey(), 20)
    np.testing.assert_allclose(evaluated.log_p, jax.vmap(whole.log_density)(evaluated.z), rtol=1e-4)
    (point,) = finite_points(getkey(), target.model, Probe(target.log_density, 4), 1)
    assert np.isfinite(target.log_density(jnp.asarray(point, jnp.float32)))
