"""Descriptions of modules: what goes in comes out, nothing is executed, settings change the fingerprint."""

import functools
import json
import pathlib
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from tests.tiny import BananaShaped
from uivi.storage import serialisation


class Pair(NamedTuple):
    left: object
    right: object


def net(out_dim=2, **kwargs):
    return uivi.families.MLP.create(jax.random.key(0), 3, out_dim, width=4, **kwargs)


def logistic_sample(key, parameters):
    return parameters + jax.random.logistic(key, parameters.shape)


def logistic_log_prob(z, parameters):
    return jnp.sum(jax.scipy.stats.logistic.logpdf(z - parameters))


CONDITIONALS = {
    "Affine": lambda: uivi.families.Affine.create(
        uivi.families.Gaussian(net(), uivi.families.LogScale.create(2))
    ),
    "Standardised": lambda: uivi.families.Standardised.create(
        uivi.families.Gaussian(net(), uivi.families.LogScale.create(2)),
        jnp.ones(2),
        jnp.array([[2.0, 0.0], [1.0, 3.0]]),
    ),
    "Warped": lambda: uivi.families.Warped.create(
        uivi.families.Gaussian(net(), uivi.families.LogScale.create(2)), jnp.ones(2)
    ),
    "Exponential": lambda: uivi.families.Exponential(net()),
    "Gamma": lambda: uivi.families.Gamma(net(4)),
    "Gaussian": lambda: uivi.families.Gaussian(net(context_dim=2), uivi.families.RawScale.create(2)),
    "Laplace": lambda: uivi.families.Laplace(net(activation=jnp.tanh), uivi.families.LogScale.create(2)),
    "LinearGaussian": lambda: uivi.families.LinearGaussian(jnp.ones((2, 3)), jnp.zeros(2), jnp.ones(2)),
    "NetGaussian": lambda: uivi.families.NetGaussian(net(4, skip=jnp.eye(2, 3)), jnp.zeros(2), 3.0),
    "Reparameterised": lambda: uivi.families.Reparameterised(net(), 2, logistic_sample, logistic_log_prob),
    "user's own": lambda: BananaShaped(jnp.array([0.5, -0.5])),
}

FAMILIES = {
    name: lambda make=make: uivi.SemiImplicit(uivi.families.StandardNormal(make().noise_dim), make())
    for name, make in CONDITIONALS.items()
} | {
    "uniform": lambda: uivi.SemiImplicit(uivi.families.Uniform(3), CONDITIONALS["Gaussian"]()),
    "explicit": lambda: uivi.ExplicitGaussian.create(3, scale=0.5),
    "encoder": lambda: uivi.ExplicitGaussian(net(4)),
    "default": lambda: uivi.presets.default_family(jax.random.key(0), 2),
}


def round_trip(value):
    """Through JSON text and back, arrays aside."""
    arrays = []
    text = json.dumps(serialisation.describe(value, arrays))
    assert all(type(a) is np.ndarray for a in arrays)
    return serialisation.rebuild(json.loads(text), arrays)


def assert_same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert getattr(x, "dtype", None) == getattr(y, "dtype", None)
        assert np.array_equal(x, y) if eqx.is_array(x) else x == y


def test_the_table_has_every_conditional():
    exported = {getattr(uivi, name) for name in uivi.__all__}
    concrete = {
        c for c in exported
        if isinstance(c, type) and issubclass(c, uivi.families.AbstractConditional) and c is not uivi.families.AbstractConditional
    }  # fmt: skip
    assert concrete == {type(make()) for make in CONDITIONALS.values()} - {BananaShaped}


@pytest.mark.parametrize("name", FAMILIES)
def test_families_come_back_the_same(name):
    family = FAMILIES[name]()
    again = round_trip(family)
    assert type(again) is type(family)
    assert_same(family, again)
    context = jnp.ones(family.context_dim) if family.context_dim else None
    key = jax.random.key(3)
    assert_same(family.sample(key, context), again.sample(key, context))


@pytest.mark.parametrize(
    "value",
    [
        {"a": (1, [2.5, None, {"b": "text"}]), "c": True},
        Pair(jnp.arange(3), Pair((), [jnp.float32(2)])),
        uivi.reverse.Draw(jnp.zeros(2), jnp.ones(1)),
        {"array": jnp.ones((2, 0)), "fields": {"items": (), "module": [1]}},
        (jnp.array(True), jnp.array(2, jnp.int8), jnp.array([1.5], jnp.float16)),
        (jax.nn.relu, jnp.tanh, uivi.families.he_init, logistic_sample, uivi.families.MLP),
        float("inf"),
    ],
)
def test_containers_come_back_the_same(value):
    again = round_trip(value)
    assert type(again) is type(value)
    assert_same(value, again)


def test_double_precision_comes_back(x64):
    assert_same(round_trip(jnp.array([1 / 3])), jnp.array([1 / 3]))


def test_keys_of_dictionaries_come_back_the_same():
    assert_same(round_trip({0: jnp.zeros(1), 10: jnp.ones(2)}), {0: jnp.zeros(1), 10: jnp.ones(2)})


def local_class():
    class Local(eqx.Module):
        size: int = 3

    return Local()


@pytest.mark.parametrize(
    "value",
    [
        lambda z: z,
        (1, {"f": functools.partial(max, 1)}),
        local_class(),
    ],
    ids=["lambda", "partial", "local class"],
)
def test_what_cannot_be_imported_is_named_on_rebuilding(value):
    arrays = []
    description = serialisation.describe(value, arrays)
    with pytest.raises(ValueError, match="top level of a module .* and save again"):
        serialisation.rebuild(description, arrays)


def test_unknown_types_are_named():
    with pytest.raises(TypeError, match="expected modules, containers, arrays or functions, got set"):
        serialisation.describe({1, 2})


@pytest.mark.parametrize(
    "description",
    [
        {"module": "pathlib:Path", "fields": {}},
        {"namedtuple": "pathlib:Path.mkdir", "items": []},
        {"opaque": "f"},
        {"unheard of": 1},
    ],
)
def test_a_description_cannot_make_anything_else(description):
    with pytest.raises(ValueError, match="expected"):
        serialisation.rebuild(description, [])


def test_a_description_cannot_call_a_function(tmp_path):
    victim = tmp_path / "made"
    with pytest.raises(ValueError, match="expected"):
        serialisation.rebuild({"namedtuple": "os:mkdir", "items": [str(victim)]}, [])
    assert not victim.exists()


def test_the_package_does_not_pickle():
    for path in pathlib.Path(uivi.__file__).parent.rglob("*.py"):
        text = path.read_text()
        assert "import pickle" not in text, path
        assert "allow_pickle=True" not in text, path


def scaled(factor):
    return lambda z: factor * z


def scaled_in_a_dictionary(factor):
    data = {"factor": np.full(2, factor)}
    return lambda z: data["factor"] * z


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, z):
        return self.factor * z

    def method(self, z):
        return self.factor * z


def with_global(factor):
    """The same code in two modules (two notebooks) whose data differ."""
    return eval("lambda z: FACTOR * z", {"FACTOR": factor})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (uivi.UIVI(num_draws=4), uivi.UIVI(num_draws=5)),
        (uivi.ISIR(num_proposals=4), uivi.Importance(num_draws=4)),
        (uivi.reverse.Learned(width=8), uivi.reverse.Learned(width=4)),
        (jnp.zeros(3), jnp.zeros(4)),
        (jnp.zeros(3), jnp.zeros(3, jnp.float16)),
        (lambda z: z + 1, lambda z: z * 2),
        ((1, 2), [1, 2]),
        (lambda z: 2.0 * z, lambda z: 3.0 * z),
        (scaled(2.0), scaled(3.0)),
        (functools.partial(max, 1), functools.partial(max, 2)),
        pytest.param(scaled_in_a_dictionary(2.0), scaled_in_a_dictionary(3.0)),
        pytest.param(Scaled(2.0), Scaled(3.0)),
        pytest.param(Scaled(2.0).method, Scaled(3.0).method),
        pytest.param(scaled(Scaled(2.0)), scaled(Scaled(3.0))),
        pytest.param(with_global(2.0), with_global(3.0)),
    ],
)  # fmt: skip
def test_settings_change_the_fingerprint(one, other):
    assert serialisation.fingerprint(one) != serialisation.fingerprint(other)


def power(number):
    def multiply(z, times=number):
        return z * multiply(z, times - 1) if times else 1

    return multiply


def test_functions_that_call_themselves_have_a_fingerprint():
    assert serialisation.fingerprint(power(2)) == serialisation.fingerprint(power(2))
    assert serialisation.fingerprint(power(2)) != serialisation.fingerprint(power(3))


def test_values_of_arrays_do_not_change_the_fingerprint():
    family = FAMILIES["default"]()
    moved = jax.tree.map(lambda x: x + 1 if eqx.is_inexact_array(x) else x, family)
    assert serialisation.fingerprint(family) == serialisation.fingerprint(moved)
    assert serialisation.fingerprint(lambda z: z + 1) == serialisation.fingerprint(lambda z: z + 1)
