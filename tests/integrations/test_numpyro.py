"""NumPyro models: the right density, draws in their own space, and clear refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest

import uivi
from tests.helpers import assert_regression_is_constrained
from uivi.evaluation.thorough import search_far
from uivi.integrations import numpyro as integration
from uivi.targets.probe import Probe, finite_points
from uivi.targets.traced import traced
from uivi.testing import assert_mean

X = np.linspace(-1.0, 1.0, 12, dtype=np.float32)
Y = (0.5 + 2.0 * X + np.sin(9 * X) / 5).astype(np.float32)


def regression(x, y=None):
    """Constrained, vector and deterministic sites, plates."""
    scale = numpyro.sample("scale", dist.HalfNormal(2.0))
    weights = numpyro.sample("weights", dist.Normal(0.0, 3.0).expand([2]).to_event(1))
    mean = numpyro.deterministic("mean", weights[0] + weights[1] * x)
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Normal(mean, scale), obs=y)


def gaussian():
    """Its posterior is known: N(1, 1/2)."""
    z = numpyro.sample("z", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(z, 1.0), obs=jnp.asarray(2.0))


@pytest.fixture(scope="module")
def target():
    return integration.target(regression, (X, Y))


def test_names_and_sizes(target):
    assert target.dim == 3
    assert [target.coordinate(i) for i in range(3)] == ["scale", "weights[0]", "weights[1]"]
    assert list(target.model.observed()) == ["y"]
    assert target.model.dims["y"] == ["rows"]
    np.testing.assert_array_equal(target.model.coords["rows"], np.arange(12))


def test_the_density_has_its_jacobian(target):
    """By hand: scale = exp(u), whose Jacobian is u."""
    u, w = 0.3, np.array([0.2, -0.7])
    scale = np.exp(u)
    by_hand = (
        dist.HalfNormal(2.0).log_prob(scale)
        + u
        + dist.Normal(0.0, 3.0).log_prob(w).sum()
        + dist.Normal(w[0] + w[1] * X, scale).log_prob(Y).sum()
    )
    z = jnp.array([u, *w])
    np.testing.assert_allclose(target.log_density(z), by_hand, rtol=1e-5)


def test_draws_are_constrained_and_named(target):
    assert_regression_is_constrained(target, X)


def test_likelihood_and_predictions(target, getkey):
    flat = jnp.array([[0.3, 0.2, -0.7], [-1.0, 0.5, 2.0]])
    draws = jax.vmap(target.constrain)(flat)
    likelihood = target.model.log_likelihood(draws)["y"]
    assert likelihood.shape == (2, 12)
    np.testing.assert_allclose(likelihood[1], dist.Normal(0.5 + 2.0 * X, np.exp(-1.0)).log_prob(Y), rtol=1e-4)
    many = jax.tree.map(lambda v: jnp.repeat(v[1:], 4_000, 0), draws)
    made = target.model.predict(getkey(), many)["y"]
    assert_mean(made, 0.5 + 2.0 * X, max_stderr=0.01)
    assert target.model.predict(getkey(), draws, X[:5])["y"].shape == (2, 5)


def test_fit_finds_a_known_posterior(getkey, own_level):
    """Recognised without arguments; by name in the result."""
    posterior = uivi.fit(gaussian, key=getkey(), num_steps=800, check=False, progress=False)
    draws = posterior.sample(getkey(), 20_000)["z"]
    np.testing.assert_allclose(draws.mean(), 1.0, atol=0.03)
    np.testing.assert_allclose(draws.var(), 0.5, atol=0.03)


def test_a_posterior_of_a_model_is_saved_and_loaded(target, tmp_path, getkey):
    settings = {"family": uivi.ExplicitGaussian.create(3), "num_steps": 3, "check": False, "progress": False}
    posterior = uivi.fit(regression, model_args=(X,), model_kwargs={"y": Y}, key=getkey(), **settings)
    posterior.save(tmp_path / "model.uivi")
    key = getkey()
    loaded = uivi.load(tmp_path / "model.uivi")
    with pytest.raises(ValueError, match="this posterior belongs to a model: pass it as target="):
        loaded.sample(key, 3)
    np.testing.assert_array_equal(loaded.sample_flat(key, 3), posterior.sample_flat(key, 3))
    again = uivi.load(tmp_path / "model.uivi", target=target)
    jax.tree.map(np.testing.assert_array_equal, again.sample(key, 3), posterior.sample(key, 3))
    with pytest.raises(ValueError, match="expected the target of this posterior, of 3 dimensions, got 2"):
        uivi.load(tmp_path / "model.uivi", target=uivi.targets.Banana())


def test_a_fit_of_a_model_is_resumed(tmp_path):
    """With other data it is another fit."""
    settings = {
        "family": uivi.ExplicitGaussian.create(3),
        "optimizer": optax.adam(1e-2),
        "checkpoint": tmp_path,
    }
    fit = lambda y, steps: uivi.fit(
        regression,
        model_args=(X, y),
        key=jax.random.key(0),
        num_steps=steps,
        check=False,
        progress=False,
        **settings,
    )
    fit(Y, 3)
    assert fit(Y, 5).history["step"][-1] == 5
    for other in (Y + 1, Y + 1e-6 * (np.arange(len(Y)) == 0)):
        with pytest.raises(uivi.storage.ArchiveError, match="belongs to another configuration"):
            fit(other, 5)


def test_the_start_is_finite(target, getkey):
    points = finite_points(getkey(), target.model, Probe(target.log_density, 8), 3)
    assert points.shape == (3, 3)
    assert np.all(np.abs(points) <= 2)
    assert np.all(np.isfinite(jax.vmap(target.log_density)(jnp.asarray(points, jnp.float32))))


def no_latent(y):
    numpyro.sample("y", dist.Normal(0.0, 1.0), obs=y)


def discrete(y):
    label = numpyro.sample("label", dist.Bernoulli(0.3))
    numpyro.sample("y", dist.Normal(label, 1.0), obs=y)


def subsampled(y):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", 12, subsample_size=3) as rows:
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y[rows])


def with_param(y):
    mean = numpyro.param("mean", 0.0)
    z = numpyro.sample("z", dist.Normal(mean, 1.0))
    numpyro.sample("y", dist.Normal(z, 1.0), obs=y)


def wrong_shape(y):
    weights = numpyro.sample("weights", dist.Normal(0.0, 1.0).expand([5]))
    numpyro.sample("y", dist.Normal(jnp.ones((12, 4)) @ weights, 1.0), obs=y)


def nan_likelihood(y):
    z = numpyro.sample("z", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(z, 1.0), obs=jnp.log(y - 100.0))


def improper(y):
    numpyro.sample("free", dist.ImproperUniform(dist.constraints.real, (), ()))
    z = numpyro.sample("z", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(z, 1.0), obs=y)


BAD = {
    "no latent": (no_latent, "expected at least one latent variable, got .*'y'"),
    "discrete": (discrete, "expected continuous latent variables, got the discrete 'label' .Bernoulli"),
    "subsampled": (subsampled, "expected whole plates, got 'rows' with 3 of 12"),
    "param": (with_param, "expected no numpyro.param, got 'mean'"),
    "wrong shape": (
        wrong_shape,
        "the NumPyro model failed: TypeError: (.|\n)*called with arguments of shapes ..12,..",
    ),
    "nan": (nan_likelihood, "expected a finite log density and gradient near the model's initial point"),
    "improper": (improper, "does not change with 'free'"),
}


@pytest.mark.filterwarnings("ignore:Out-of-support:UserWarning", "ignore:Site y:UserWarning")
@pytest.mark.parametrize("name", BAD)
def test_bad_models_are_refused(name, getkey):
    model, words = BAD[name]
    with pytest.raises(ValueError, match=words):
        uivi.fit(model, model_args=(Y,), key=getkey(), num_steps=2, check=False, progress=False)


def test_arguments_of_a_model_beside_a_density_are_refused(getkey):
    with pytest.raises(ValueError, match="expected `model_args` beside a model only"):
        uivi.fit(lambda z: -z @ z, dim=2, model_args=(X,), key=getkey())


def far_peaks():
    """Two narrow modes, one of which is 5,000 of its standard deviations away, near the middle of the prior."""
    z = numpyro.sample("z", dist.Normal(40.0, 20.0))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    peaks = [dist.Normal(z, 0.01).log_prob(at) for at in (0.0, 50.0)]
    numpyro.factor("peaks", jnp.logaddexp(*peaks))
    numpyro.sample("y", dist.Normal(0.0, scale), obs=jnp.asarray(0.5))


def test_a_thorough_check_begins_at_the_prior_too():
    """Without the prior, all particles are less than a hundred standard deviations of q away."""
    target = integration.target(far_peaks)
    # The scale, in logs, then z at the mode that is far from the prior.
    family = uivi.ExplicitGaussian(jnp.array([-0.3, 0.0, *np.log([0.5, 0.01])]))
    z = jax.vmap(family.sample)(jax.random.split(jax.random.key(0), 512)).z
    log_mass = float(jnp.mean(jax.vmap(lambda z: target.log_density(z) - family.log_prob(z))(z)))
    draws = np.asarray(z)
    search = lambda target: search_far(jax.random.key(1), family, target, uivi.Explicit(), (), draws, log_mass)
    found, without = search(target), search(traced(target))
    assert found.from_prior
    assert not without.from_prior
    assert without.missed == 0
    # By the prior, the other mode has e^1.9 times as much mass.
    assert found.missed == pytest.approx(0.87, abs=0.1)
    assert found.distance == pytest.approx(5_000, rel=0.05)


def test_draws_of_the_prior():
    target = integration.target(regression, (X, Y))
    draws = target.prior_draws(jax.random.key(0), 2_000)
    assert draws.shape == (2_000, 3)
    assert_mean(jnp.exp(2 * draws[:, 0]), 4.0, max_stderr=0.2)
    assert_mean(jnp.asarray(draws[:, 1:] ** 2), 9.0, max_stderr=0.5)
    assert integration.target(half_improper).prior_draws(jax.random.key(0), 8) is None


def half_improper():
    z = numpyro.sample("z", dist.ImproperUniform(dist.constraints.real, (), ()))
    numpyro.sample("y", dist.Normal(z, 1.0), obs=jnp.asarray(2.0))
