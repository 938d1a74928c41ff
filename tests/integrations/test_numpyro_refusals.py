"""NumPyro models that cannot be fitted as they are: the message is about the model."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

import uivi
from uivi.integrations.numpyro import minibatched, target

DATA = np.arange(5, dtype=np.float32)


def duplicate(y):
    numpyro.sample("a", dist.Normal(0, 1))
    numpyro.sample("a", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(0, 1), obs=y)


def plate(y):
    with numpyro.plate("a", 3):
        numpyro.sample("a", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(0, 1), obs=y)


def plate_afterwards(y):
    mean = numpyro.sample("a", dist.Normal(0, 1))
    with numpyro.plate("a", 5):
        numpyro.sample("y", dist.Normal(mean, 1), obs=y)


def circular(y):
    angle = numpyro.sample("angle", dist.VonMises(0.0, 1.0).expand([2]).to_event(1))
    numpyro.sample("y", dist.Normal(angle[0], 1), obs=y)


def plain(y):
    numpyro.sample("y", dist.Normal(numpyro.sample("m", dist.Normal(0, 1)), 1), obs=y)


def product(x):
    numpyro.factor("f", jnp.sum(x * numpyro.sample("m", dist.Normal(0, 1))))


def columns(y):
    mean = numpyro.sample("m", dist.Normal(0, 1).expand([5, 1]).to_event(2))
    numpyro.sample("y", dist.Normal(mean, 1), obs=y)


def nan_at_some(y):
    scale = numpyro.sample("s", dist.Normal(0, 1))
    numpyro.sample("a", dist.Normal(0, jnp.sqrt(scale)))
    numpyro.sample("y", dist.Normal(0, 1), obs=y)


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        (duplicate, DATA, "`a` duplicated\ntwo sites, or a site and a plate, have this name: rename"),
        (plate, DATA, "`a` duplicated\ntwo sites, or a site and a plate"),
        (plate_afterwards, DATA, "`a` duplicated\ntwo sites, or a site and a plate"),
        (circular, DATA, "got the circular 'angle' with a periodic density"),
        (plain, np.array(["a", "b"]), "^expected numbers as data of 'y', got strings"),
        (plain, np.array([None, 1.0]), "^expected numbers as data of 'y', got objects"),
        (plain, np.array(["2020-01-01"], "datetime64[D]"), "^expected numbers as data of 'y', got dates"),
        (plain, ["a"], "^expected numbers as data of 'y', got strings"),
        (plain, pd.Series(DATA), r"^expected numbers as data of 'y', got a Series of pandas.* y.to_numpy\(\)"),
        (plain, [[1.0], [1.0, 2.0]], "^expected numbers as data of 'y', got lists of unequal lengths"),
        (product, pd.Series(DATA), "^expected numbers as data, got a Series of pandas in argument 0"),
        (product, {"a": DATA}, r"failed: (?s:.*)called with arguments of shapes \['dict'\]"),
        (product, jax.random.key(0), r"failed: (?s:.*)called with arguments of shapes \[\(\)\]"),
    ],
)
def test_refused(model, data, message):
    with pytest.raises(ValueError, match=message):
        target(model, (data,))


@pytest.mark.usefixtures("quiet_threads")
def test_observations_that_count_several_times():
    with pytest.warns(UserWarning, match=r"'y' have shape \(5,\), but its distribution has shape \(5, 1\)"):
        target(columns, (DATA,))
    with pytest.warns(UserWarning, match=r"'y' have shape \(1,\), but its distribution has shape \(5, 1\)"):
        target(columns, (DATA[:1],))
    target(columns, (DATA[:, None],))
    target(columns, (DATA[0],))


def test_keyword_arguments_that_are_no_dictionary(unchecked):
    with pytest.raises(TypeError, match="expected `model_kwargs` to hold .* by name, got ndarray"):
        uivi.fit(plain, model_kwargs=DATA, key=jax.random.key(0))
    with pytest.raises(TypeError, match="by name, got ndarray"):
        minibatched(plain, {"y": DATA}, 2, model_kwargs=DATA)


def test_a_prior_of_nan_at_some_starts():
    with pytest.raises(ValueError, match="got nan at z=.*look for NaN in the data.*impossible parameters"):
        uivi.fit(nan_at_some, model_args=(DATA,), key=jax.random.key(0), num_steps=20, progress=False)


def test_a_single_argument_needs_no_tuple(unchecked):
    posterior = uivi.fit(
        plain, model_args=DATA, key=jax.random.key(0), num_steps=20, check=False, progress=False
    )
    assert posterior.history["step"][-1] == 20
