"""Which callables are NumPyro models, and what users see if one fails or is something else."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import uivi
from uivi.integrations import recognition
from uivi.integrations._signature import needs_arguments, takes_positional
from uivi.integrations.recognition import recognise
from uivi.targets import Banana, ModelTarget

KEY = jax.random.key(0)


def plain():
    numpyro.sample("z", dist.Normal(0.0, 1.0))


def with_arguments(x, y):
    numpyro.sample("z", dist.Normal(x, y))


def with_defaults(x=1.0, y=2.0):
    with_arguments(x, y)


def keyword_only(*, x=1.0):
    with_arguments(x, 2.0)


def variadic(*args, **kwargs):
    with_arguments(*(args or (1.0, 2.0)), **kwargs)


class Model:
    """A callable object."""

    def __call__(self):
        plain()


MODELS = {
    "function": plain,
    "defaults": with_defaults,
    "keyword-only": keyword_only,
    "*args": variadic,
    "lambda": lambda: plain(),
    "object": Model(),
    "method": Model().__call__,
    "partial": functools.partial(with_arguments, 1.0, 2.0),
    "partial by name": functools.partial(with_arguments, x=1.0, y=2.0),
    "jax.tree_util.Partial": jax.tree_util.Partial(with_arguments, 1.0, 2.0),
    "eqx.Partial": eqx.Partial(with_arguments, 1.0, 2.0),
    "handler": numpyro.handlers.condition(plain, {}),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_runs_without_arguments_is_a_model(name):
    target = recognise(MODELS[name], key=KEY)
    assert isinstance(target, ModelTarget)
    assert list(target.model.example) == ["z"]


def density(z):
    return -z @ z


class Density:
    """A callable object that takes z."""

    def __call__(self, z):
        return density(z)


NEED_ARGUMENTS = {
    "log density": density,
    "model": with_arguments,
    "object": Density(),
    "partial": functools.partial(with_arguments, 1.0),
    "jax.jit": jax.jit(density),
    "eqx.filter_jit": eqx.filter_jit(density),
    "wrapped": functools.wraps(density)(lambda *args: density(*args)),
    "without a signature": max,
}


@pytest.mark.parametrize("name", NEED_ARGUMENTS)
def test_what_needs_arguments_gets_both_offers(name):
    words = "for a log density, pass dim= .* or init= .*; for a NumPyro model, pass model_args="
    with pytest.raises(ValueError, match=words):
        uivi.fit(NEED_ARGUMENTS[name], key=KEY)


def name_error():
    numpyro.sample("z", dist.Normal(0.0, 1.0))
    return undefined


def wrong_keyword():
    numpyro.sample("z", dist.Normal(lok=0.0))


def wrong_shape():
    weights = numpyro.sample("weights", dist.Normal(0.0, 1.0).expand([5]))
    numpyro.sample("y", dist.Normal(jnp.ones((3, 4)) @ weights, 1.0), obs=jnp.ones(3))


def wrong_observations():
    """Runs, but has no log density."""
    numpyro.sample("y", dist.Normal(numpyro.sample("z", dist.Normal(0.0, 1.0)), jnp.ones(3)), obs=jnp.ones(4))


BROKEN = {
    "name": (name_error, NameError, "NameError: name 'undefined' is not defined$"),
    "keyword": (wrong_keyword, TypeError, "TypeError: .*unexpected keyword argument 'lok'$"),
    "shape": (wrong_shape, TypeError, "TypeError: .*got .4,. and .5,.[.]$"),
    "observations": (wrong_observations, Exception, ".*(broadcast|shape)"),
    "partial": (functools.partial(with_arguments, "1", 2.0), TypeError, "TypeError: .*'str'"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_model_shows_its_own_error(name):
    model, kind, words = BROKEN[name]
    with pytest.raises(ValueError, match=f"^the NumPyro model failed: {words}") as caught:
        uivi.fit(model, key=KEY)
    assert isinstance(caught.value.__cause__, kind)


def optional(z=None):
    return -jnp.sum(z**2)


@pytest.mark.parametrize("function", [optional, lambda *args: density(*args)], ids=["default", "*args"])
def test_what_may_take_z_gets_both_offers_after_it_failed(function):
    words = (
        "the NumPyro model failed: TypeError: .*\nit was called without arguments: pass model_args= .* or dim="
    )
    with pytest.raises(ValueError, match=words):
        uivi.fit(function, key=KEY)


@pytest.mark.parametrize("function", [lambda: 3.0, lambda: numpyro.deterministic("a", 1.0)])
def test_a_function_that_declares_no_variables_is_refused(function):
    with pytest.raises(ValueError, match="runs but declares no variables: declare them with numpyro.sample"):
        uivi.fit(function, key=KEY)


@pytest.mark.parametrize("place", [{}, {"dim": 2}, {"init": {"a": np.zeros(2)}}])
def test_a_class_is_refused(place):
    with pytest.raises(TypeError, match=r"got the class Banana: pass an instance, Banana\(...\)"):
        uivi.fit(Banana, key=KEY, **place)


def test_other_objects_are_left_to_the_caller():
    assert recognise(3.0, key=KEY) is None
    assert recognise(density, key=KEY) is None


def test_without_numpyro_a_function_that_may_take_z_is_a_log_density(monkeypatch):
    monkeypatch.setattr(recognition.importlib.util, "find_spec", lambda name: None)
    assert recognise(optional, key=KEY) is None


def test_signatures():
    assert [needs_arguments(f) for f in (plain, with_defaults, variadic, density, max)] == [
        False, False, False, True, True,
    ]  # fmt: skip
    assert [takes_positional(f) for f in (plain, keyword_only, with_defaults, variadic, density, max)] == [
        False, False, True, True, True, True,
    ]  # fmt: skip
