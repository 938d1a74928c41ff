"""`uivi.fit` from the outside: bad arguments, structures, precision, repeatability, failure."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from tests.tiny import explicit_settings, implicit_settings, log_density
from uivi.evaluation import BoundValue, Check
from uivi.evaluation.importance import Weights
from uivi.training import driver, optimisers


@pytest.fixture
def no_long_work(monkeypatch, unchecked):
    """Nothing may be updated: the check comes first, and it is the package's own."""
    monkeypatch.setattr(driver, "run_updates", lambda *_: pytest.fail("the fit began"))


COUNT = "to be a positive whole number, got"
BAD = {
    "neither dim nor init": ({"dim": None}, ValueError, "either `dim` or `init`, got neither"),
    "both": ({"init": jnp.zeros(2)}, ValueError, "either `dim` or `init`, got both"),
    "dim 0": ({"dim": 0}, ValueError, f"`dim` {COUNT} 0"),
    "dim -1": ({"dim": -1}, ValueError, f"`dim` {COUNT} -1"),
    "dim 2.0": ({"dim": 2.0}, ValueError, f"`dim` {COUNT} 2.0"),
    "dim text": ({"dim": "2"}, ValueError, f"`dim` {COUNT} '2'"),
    "steps 0": ({"num_steps": 0}, ValueError, f"`num_steps` {COUNT} 0"),
    "steps -5": ({"num_steps": -5}, ValueError, f"`num_steps` {COUNT} -5"),
    "steps 1e3": ({"num_steps": 1e3}, ValueError, f"`num_steps` {COUNT} 1000.0"),
    "steps True": ({"num_steps": True}, ValueError, f"`num_steps` {COUNT} True"),
    "int init": ({"dim": None, "init": {"a": jnp.zeros(2), "b": 3}}, TypeError, "float arrays only, .*int32"),
    "empty init": ({"dim": None, "init": {}}, ValueError, "at least one number, got none"),
    "key 0": ({"key": 0}, TypeError, r"expected `key` to be one JAX random key, got int 0: pass"),
    "no key": ({"key": None}, TypeError, "expected either `key` or `random_seed`, got neither"),
    "key and seed": ({"random_seed": 1}, TypeError, "expected either `key` or `random_seed`, got both"),
    "seed 1.5": ({"key": None, "random_seed": 1.5}, TypeError, "`random_seed` to be a whole number, got 1.5"),
    "seed -1": ({"key": None, "random_seed": -1}, ValueError, "`random_seed` from 0 to 4294967295, got -1"),
    "many keys": ({"key": jax.random.split(jax.random.key(0), 3)}, TypeError, "to be one JAX random key"),
    "no function": ({"log_density": 3.0, "dim": None}, TypeError, "a target or a model, got float"),
    "target of another dim": (
        {"log_density": uivi.targets.Banana(), "dim": 3}, ValueError, r"expected dim=2 \(the target's\), got 3"
    ),
    "UIVI on explicit": ({"estimator": uivi.UIVI(num_draws=4)}, TypeError, "SemiImplicit family for UIVI"),
    "SIVI on explicit": ({"estimator": uivi.SIVI(num_draws=4)}, TypeError, "SemiImplicit family for SIVI"),
}  # fmt: skip


def fit(**changes):
    arguments = {"log_density": log_density, "dim": 2, "key": jax.random.key(0), **explicit_settings()}
    return uivi.fit(**(arguments | changes))


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments(name, no_long_work):
    changes, error, message = BAD[name]
    with pytest.raises(error, match=message):
        fit(**changes)


@pytest.mark.parametrize("estimator", [uivi.Explicit(), uivi.StickingTheLanding()])
def test_explicit_estimators_refuse_semi_implicit_families(estimator, no_long_work):
    with pytest.raises(TypeError, match="family with a density for .*, got SemiImplicit"):
        fit(**implicit_settings() | {"estimator": estimator})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"family": "gaussian"}, "expected `family`"),
        ({"estimator": "uivi"}, "expected `estimator`"),
        ({"optimizer": 1e-3}, "expected `optimizer`"),
    ],
)
def test_parts_of_the_wrong_type(changes, message, no_long_work):
    with pytest.raises(TypeError, match=message):
        fit(**changes)


def test_init_beside_a_target(no_long_work):
    with pytest.raises(ValueError, match="init"):
        fit(log_density=uivi.targets.Banana(), dim=None, init=jnp.ones(2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: uivi.UIVI(num_draws=0), f"`num_draws` {COUNT} 0"),
        (lambda: uivi.SIVI(num_mixing=-1), f"`num_mixing` {COUNT} -1"),
        (lambda: uivi.ISIR(num_proposals=0), f"`num_proposals` {COUNT} 0"),
        (lambda: optimisers.adam_cosine(0), f"`num_steps` {COUNT} 0"),
        (lambda: optimisers.paper_rmsprop(network_rate=0.0), "`network_rate` to be positive and finite"),
        (lambda: optimisers.paper_rmsprop(scale_rate=-1.0), "`scale_rate` to be positive and finite, got -1.0"),
        (lambda: uivi.reverse.Learned(learning_rate=float("inf")), "`learning_rate` to be positive and finite"),
        (lambda: optimisers.adam_cosine(10, -1.0), "`rate` to be positive and finite, got -1.0"),
    ],
)  # fmt: skip
def test_counts_and_rates_must_be_positive(make, message):
    with pytest.raises(ValueError, match=message):
        make()


class Model(eqx.Module):
    """A model that holds its data."""

    data: jax.Array

    def __call__(self, z):
        return log_density(z - self.data)


@pytest.mark.parametrize("density", [jax.jit(log_density), Model(jnp.ones(2))], ids=["jit", "module"])
def test_any_callable_is_a_log_density(density):
    assert fit(log_density=density, num_steps=2).status is uivi.Status.DONE


def structured(z):
    return -0.5 * (jnp.sum((z["weights"] - 2) ** 2) + z["nested"][0] ** 2 + jnp.sum(z["nested"][1] ** 2))


EXAMPLE = {"weights": jnp.full((2, 3), 2.0), "nested": (0.0, np.zeros((1,), np.float64))}


@pytest.fixture(scope="module")
def structured_posterior():
    """A fit of a pytree."""
    family = uivi.ExplicitGaussian.create(8)
    return fit(log_density=structured, dim=None, init=EXAMPLE, family=family, num_steps=2)


def test_draws_come_back_with_the_structure_of_init(structured_posterior):
    draws = structured_posterior.sample(jax.random.key(1), 7)
    assert jax.tree.structure(draws) == jax.tree.structure(EXAMPLE)
    shapes = [x.shape for x in jax.tree.leaves(draws)]
    assert shapes == [(7, *np.shape(x)) for x in jax.tree.leaves(EXAMPLE)]
    assert {x.dtype for x in jax.tree.leaves(draws)} == {np.dtype("float32")}
    flat = structured_posterior.sample_flat(jax.random.key(1), 7)
    assert flat.shape == (7, structured_posterior.dim) == (7, 8)
    assert np.array_equal(flat[:, 2:].reshape(7, 2, 3), draws["weights"])


def test_the_start_is_found_from_init_which_is_left_alone(monkeypatch, getkey):
    """The log density holds the same array: a fit that took over its buffer would break it."""
    start = jnp.array([30.0, -20.0])
    at_start = lambda key, dim, frame, **_: uivi.ExplicitGaussian(jnp.concatenate([frame.loc, jnp.zeros(dim)]))
    monkeypatch.setattr("uivi.fitting.fit.family_on", at_start)
    density = lambda z: log_density(z - start)
    posterior = fit(log_density=density, dim=None, init=start, family=None, num_steps=2)
    draws = posterior.sample(getkey(), 2_000)
    np.testing.assert_allclose(draws.mean(0), start + jnp.array([1.0, -1.0]), atol=0.3)


def test_the_users_family_stays_as_it_was():
    family = uivi.ExplicitGaussian.create(2)
    fit(family=family, num_steps=2)
    assert np.array_equal(family.encoder, np.zeros(4))


def test_the_same_key_gives_the_same_draws_and_another_does_not():
    """A legacy key is the same key, and so is a seed."""
    keys = ({"key": jax.random.key(3)}, {"key": jax.random.PRNGKey(3)}, {"key": None, "random_seed": 3})
    first, *same = [fit(**key).sample(jax.random.key(9), 5) for key in keys]
    assert all(np.array_equal(draws, first) for draws in same)
    assert not np.any(fit(key=jax.random.key(4)).sample(jax.random.key(9), 5) == first)


def test_double_precision(x64):
    posterior = uivi.fit(log_density, 2, key=jax.random.key(0), **implicit_settings(3))
    assert posterior.status is uivi.Status.DONE
    leaves = jax.tree.leaves((posterior.family, posterior.sample(jax.random.key(1), 3)))
    assert {x.dtype for x in leaves} == {np.dtype("float64")}


def test_init_of_another_precision():
    init = {"a": jnp.zeros(2, jnp.float16)}
    with jax.numpy_dtype_promotion("standard"):
        posterior = fit(log_density=lambda z: log_density(z["a"]), dim=None, init=init, num_steps=2)
        assert posterior.sample(jax.random.key(1), 3)["a"].shape == (3, 2)


def test_a_fit_learns():
    """Not evidence of a right gradient: that the parts are joined the right way round."""
    draws = fit(num_steps=2_000).sample(jax.random.key(1), 4_000)
    np.testing.assert_allclose(draws.mean(0), [1, -1], atol=0.1)
    np.testing.assert_allclose(draws.std(0), [1, 0.5], rtol=0.1)


def cliff(z):
    return jnp.where(jnp.sum(z) > 8, jnp.nan, 1.0) * (3 * jnp.sum(z) - 0.01 * jnp.sum(z**2))


def test_a_broken_fit_says_so_and_gives_no_nan():
    posterior = fit(log_density=cliff, num_steps=4_000)
    assert posterior.status is uivi.Status.NONFINITE
    assert np.all(np.isfinite(posterior.sample(jax.random.key(1), 100)))
    summary = " ".join(posterior.summary().split())
    assert "stopped: gradients or parameters" in summary
    assert "the fit broke down: lower the learning rate" in summary
    assert posterior.check().skipped > 0


def test_progress_goes_to_standard_error(capsys):
    fit(progress=True, check=True, num_steps=3)
    out, err = capsys.readouterr()
    assert out == ""
    assert "done" in err
    assert "updates" in err
    assert "verdict: " in err
    fit(num_steps=3)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("progress", [True, False])
@pytest.mark.parametrize("check", [True, False])
def test_check_and_not_progress_decides_whether_a_fit_is_judged(check, progress, monkeypatch, capsys):
    bound = BoundValue("ELBO", "lower", 0.0, 0.0, 1)
    weights = Weights(0.0, 0.0, 1.0, 0.0, 1.0, 1)
    found = Check(uivi.Status.DONE, 2, bound, bound, None, weights, 0.0, 0.0)
    judged = []
    monkeypatch.setattr(uivi.Posterior, "check", lambda self: judged.append(self) or found)
    fit(progress=progress, check=check, num_steps=3)
    assert len(judged) == check
    assert ("verdict: " in capsys.readouterr().err) == (check and progress)


def test_a_fit_starts_at_every_mode(tmp_path):
    """Two modes of different weights and widths, far apart. The weights are right from the first update on."""

    def log_density(z):
        left = jnp.log(0.7) + jnp.sum(jax.scipy.stats.norm.logpdf(z, -8.0, 1.0))
        return jnp.logaddexp(left, jnp.log(0.3) + jnp.sum(jax.scipy.stats.norm.logpdf(z, 8.0, 0.8)))

    posterior = uivi.fit(log_density, 2, key=jax.random.key(0), num_steps=20, check=False, progress=False)
    assert isinstance(posterior.family.conditional, uivi.families.AtModes)
    weights = np.exp(np.asarray(posterior.family.conditional.log_weights()))
    np.testing.assert_allclose(np.sort(weights), [0.3, 0.7], atol=0.02)
    posterior.save(tmp_path / "modes.uivi")
    draws = [x.sample(jax.random.key(1), 8) for x in (posterior, uivi.load(tmp_path / "modes.uivi"))]
    np.testing.assert_array_equal(*draws)
