"""What a fit gives back: draws, a summary, a file that samples again anywhere."""

import dataclasses
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from tests.tiny import BananaShaped, explicit_settings, implicit_settings, log_density
from uivi.storage import archive

KEY = jax.random.key(11)


@pytest.fixture(scope="module")
def explicit():
    """A fit of an explicit family, which is quick to diagnose."""
    return uivi.fit(log_density, 2, key=jax.random.key(0), **explicit_settings())


def nested_density(z):
    return log_density(z["a"][0])


@pytest.fixture(scope="module")
def implicit():
    """A UIVI fit of a pytree."""
    return uivi.fit(nested_density, init={"a": (jnp.zeros(2),)}, key=jax.random.key(0), **implicit_settings())


def test_draws(implicit):
    draws = implicit.sample(KEY, 50)["a"][0]
    assert draws.shape == (50, 2)
    assert np.array_equal(draws, implicit.sample_flat(KEY, 50))
    assert np.unique(np.asarray(draws)).size == 100


@pytest.mark.parametrize("number", [0, -3, 2.5])
def test_the_number_of_draws_must_be_positive(explicit, number, unchecked):
    with pytest.raises(ValueError, match="`num_draws` to be a positive whole number"):
        explicit.sample(KEY, number)


def test_sampling_needs_a_key(explicit, unchecked):
    with pytest.raises(TypeError, match="expected `key` to be one JAX random key"):
        explicit.sample(1, 5)


def test_summary_of_a_semi_implicit_fit(implicit):
    summary = implicit.summary(details=True)
    assert "SemiImplicit posterior on 2 dimensions (20 updates," in summary
    assert "reverse moved" not in implicit.summary()
    for words in (
        "status              all updates done", "(lower side)", "(upper side)", "k-hat", "reverse moved",
        "reverse jump", "reverse dependence", "reverse recovered", "non-finite          0 proposals",
    ):  # fmt: skip
        assert words in summary
    assert "reverse acceptance" not in summary
    found = implicit.check()
    assert found.lower.mean <= found.upper.mean
    assert f"{found.lower.mean:.4f} ± {found.lower.stderr:.4f} (lower side)" in summary
    assert implicit.check(jax.random.key(99)) is found


def test_summary_of_an_explicit_fit(explicit):
    summary = explicit.summary(details=True)
    assert "ExplicitGaussian posterior" in summary
    assert "reverse" not in summary
    assert explicit.check().lower.mean == explicit.check().upper.mean


LOAD = """
import sys, jax, numpy as np, uivi
posterior = uivi.load(sys.argv[1])
assert not any(name.startswith("tests") for name in sys.modules)
np.save(sys.argv[2], posterior.sample(jax.random.key(11), 50)["a"][0])
print(posterior.check())
"""


def test_a_file_samples_again_in_a_fresh_process(implicit, own_level, tmp_path):
    path = tmp_path / "fit.uivi"
    implicit.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["fit.uivi"]
    command = [sys.executable, "-c", LOAD, str(path), str(tmp_path / "draws.npy")]
    same_compiler = {"JAX_DISABLE_MOST_OPTIMIZATIONS": str(jax.config.read("jax_disable_most_optimizations"))}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | same_compiler)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "draws.npy"), implicit.sample(KEY, 50)["a"][0])
    assert done.stdout.strip() == str(implicit.check()).strip()


def test_round_trip(explicit, tmp_path):
    explicit.save(str(tmp_path / "fit"))
    again = uivi.load(str(tmp_path / "fit"))
    assert np.array_equal(again.sample(KEY, 9), explicit.sample(KEY, 9))
    assert again.status is explicit.status
    assert again.seconds == explicit.seconds
    np.testing.assert_equal(again.history, explicit.history)
    np.testing.assert_equal(again.check(), explicit.check())
    again.save(tmp_path / "again")
    assert np.array_equal(uivi.load(tmp_path / "again").sample(KEY, 9), explicit.sample(KEY, 9))


def test_a_file_without_a_diagnosis_says_so(explicit, tmp_path):
    bare = uivi.Posterior(explicit.family, explicit.example, explicit.status, {}, 0.0)
    bare.save(tmp_path / "fit")
    again = uivi.load(tmp_path / "fit")
    assert again.sample(KEY, 3).shape == (3, 2)
    with pytest.raises(ValueError, match=r"found none: call check\(\) before save\(\)"):
        again.check()
    assert "has not been judged" in again.summary()


def with_local_functions():
    net = uivi.families.MLP.create(jax.random.key(0), 2, 2, width=4)
    return uivi.families.Reparameterised(
        net, 2,
        sample_fn=lambda key, p: p + jax.random.normal(key, p.shape),
        log_prob_fn=lambda z, p: jnp.sum(jax.scipy.stats.norm.logpdf(z - p)),
    )  # fmt: skip


def test_what_could_not_be_loaded_is_refused_before_any_work(implicit, tmp_path):
    """A fit takes long, and so does its check: the message comes first, and no file is left."""
    family = uivi.SemiImplicit(uivi.families.StandardNormal(2), with_local_functions())
    fitted = dataclasses.replace(implicit, family=family, example=jnp.zeros(2), _check_result=None)
    with pytest.raises(
        ValueError,
        match=r"function with a name in family.conditional.sample_fn, .*lambda.* write it with `def`",
    ):
        fitted.save(tmp_path / "fit")
    assert fitted._check_result is None
    assert not list(tmp_path.iterdir())


def test_an_own_conditional_loads_with_trust(tmp_path):
    family = uivi.SemiImplicit(uivi.families.StandardNormal(1), BananaShaped(jnp.array([1.0, 2.0])))
    posterior = uivi.Posterior(family, jnp.zeros(2), uivi.Status.DONE, {}, 0.0)
    posterior.save(tmp_path / "fit")
    with pytest.raises(uivi.storage.ArchiveError, match=r"uivi.load\(path, trust=\[BananaShaped\]\)"):
        uivi.load(tmp_path / "fit")
    again = uivi.load(tmp_path / "fit", trust=[BananaShaped])
    assert np.array_equal(again.sample(KEY, 9), posterior.sample(KEY, 9))


def test_a_place_that_cannot_be_written(explicit, tmp_path):
    (tmp_path / "file").write_text("in the way")
    for place in ("file/fit.uivi", "missing/fit.uivi"):
        with pytest.raises(OSError, match="cannot write .*fit.uivi .* choose another place"):
            explicit.save(tmp_path / place)
    with pytest.raises(OSError, match="cannot write"):
        explicit.save(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "in the way"


def test_load_refuses_other_files(explicit, tmp_path):
    with pytest.raises(FileNotFoundError, match="expected a uivi posterior file at .*, found none"):
        uivi.load(tmp_path / "none")
    archive.write(tmp_path / "checkpoint", "checkpoint", {}, [])
    with pytest.raises(uivi.storage.ArchiveError, match="expected a uivi posterior file"):
        uivi.load(tmp_path / "checkpoint")


def test_reweighted_draws_are_those_of_the_posterior(getkey):
    """q = N(0, 1.5² I), p = N((0.5, -0.5), I): k-hat is small, so resampling recovers p."""
    family = uivi.ExplicitGaussian.create(2, 1.5)
    target = uivi.targets.Density(lambda z: -0.5 * ((z[0] - 0.5) ** 2 + (z[1] + 0.5) ** 2), 2)
    wide = uivi.Posterior(family, jnp.zeros(2), uivi.Status.DONE, {}, 0.0, target, uivi.Explicit(), ())
    draws = np.asarray(wide.sample(getkey(), 20_000, reweight=True))
    assert draws.shape == (20_000, 2)
    np.testing.assert_allclose(draws.mean(0), [0.5, -0.5], atol=0.06)
    assert np.all(draws.std(0) < 1.25)
    plain = np.asarray(wide.sample(getkey(), 20_000))
    assert np.all(np.abs(plain.std(0) - 1.5) < 0.05)


@pytest.mark.usefixtures("quiet_threads")
def test_reweighting_says_when_it_cannot_help(getkey):
    narrow = uivi.ExplicitGaussian.create(2, 0.2)
    target = uivi.targets.Density(lambda z: -0.5 * jnp.sum(z**2), 2)
    posterior = uivi.Posterior(narrow, jnp.zeros(2), uivi.Status.DONE, {}, 0.0, target, uivi.Explicit(), ())
    with pytest.warns(UserWarning, match="k-hat of the importance weights is .* above 0.7"):
        posterior.sample(getkey(), 500, reweight=True)
