"""Modules as JSON: what goes in comes out; what could not come out does not go in."""

import collections
import functools
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from tests.families.table import CONDITIONALS, FAMILIES, _logistic_log_prob, _logistic_sample
from tests.tiny import BananaShaped
from uivi.integrations.flowjax import Flow, RealNVP
from uivi.storage import decoding, encoding


def round_trip(value, *trust):
    """Through JSON text and back, arrays aside."""
    descriptions, arrays = encoding.to_json({"value": value})
    assert all(type(a) is np.ndarray for a in arrays)
    text = json.dumps(descriptions)
    return decoding.from_json(json.loads(text), arrays, decoding.by_name(trust))["value"]


def assert_same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert getattr(x, "dtype", None) == getattr(y, "dtype", None)
        assert np.array_equal(x, y) if eqx.is_array(x) else x == y


def semi_implicit(conditional):
    return uivi.SemiImplicit(uivi.families.StandardNormal(conditional.noise_dim), conditional)


MADE = {
    name: lambda row=row: semi_implicit(row.make(jax.random.key(0), 2, 0)) for name, row in CONDITIONALS.items()
}
MADE |= FAMILIES | {
    "uniform": lambda: eqx.tree_at(lambda f: f.mixing, MADE["gaussian"](), uivi.families.Uniform(2)),
    "default": lambda: uivi.presets.default_family(jax.random.key(0), 2),
    "context": lambda: semi_implicit(CONDITIONALS["gaussian"].make(jax.random.key(0), 2, 3)),
    "user's own": lambda: semi_implicit(BananaShaped(jnp.array([0.5, -0.5]))),
}
OWN = (BananaShaped, _logistic_sample, _logistic_log_prob, Flow, RealNVP)


@pytest.mark.parametrize("name", MADE)
def test_families_come_back_the_same(name):
    family = MADE[name]()
    again = round_trip(family, *OWN)
    assert type(again) is type(family)
    assert_same(family, again)
    context = jnp.ones(family.context_dim) if family.context_dim else None
    key = jax.random.key(3)
    assert_same(family.sample(key, context), again.sample(key, context))


@pytest.mark.parametrize(
    "value",
    [
        {"a": (1, [2.5, None, {"b": "text"}]), "c": True},
        {"array": jnp.ones((2, 0)), "fields": {"items": (), "module": [1]}, "trusted_module": "f"},
        {0: jnp.zeros(1), 10: jnp.ones(2)},
        (jnp.array(True), jnp.array(2, jnp.int8), jnp.array([1.5], jnp.float16), jnp.ones(2, jnp.bfloat16)),
        (jax.nn.relu, jnp.tanh, jax.nn.silu),
        (2**63 - 1, -0.0, 1e-300, "\x00\ud800é"),
        (),
        None,
    ],
)
def test_containers_come_back_the_same(value):
    again = round_trip(value)
    assert type(again) is type(value)
    assert_same(value, again)


def test_the_order_of_dictionaries_comes_back():
    """JAX flattens an ordered dictionary in its order, an ordinary one by its keys."""
    ordered = collections.OrderedDict([("b", jnp.zeros(1)), ("a", jnp.ones(1))])
    again = round_trip(ordered)
    assert type(again) is collections.OrderedDict
    assert [float(x[0]) for x in jax.tree.leaves(again)] == [0.0, 1.0]


def test_double_precision_comes_back(x64):
    assert_same(round_trip(jnp.array([1 / 3])), jnp.array([1 / 3]))


def test_arrays_are_kept_as_jax_has_them():
    assert round_trip(np.array([1 / 3])).dtype == jnp.float32
    assert round_trip((np.float64(0.5), np.int64(2)))[1].dtype == jnp.int32


def test_numbers_of_numpy_in_static_fields_stay_hashable():
    family = uivi.SemiImplicit(uivi.families.StandardNormal(2), MADE["gaussian"]().conditional)
    object.__setattr__(family.mixing, "dim", np.int64(2))
    again = round_trip(family)
    assert type(again.mixing.dim) is int
    assert eqx.filter_jit(lambda f, k: f.sample(k).z)(again, jax.random.key(0)).shape == (2,)


class Callable:
    def __call__(self, z):
        return z


def two_of_one_name():
    def swoosh(z):
        return z

    return swoosh


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            lambda z: z,
            r"a class or function with a name in value, got function <function <lambda>.*write it with `def`",
        ),
        ((1, {"f": functools.partial(max, 1)}), r"with a name in value\[1\]\['f'\], got partial"),
        (jax.tree_util.Partial(max, 1), "with a name in value, got Partial"),
        (Callable(), "with a name in value, got Callable"),
        ((two_of_one_name(), two_of_one_name()), r"a second 'swoosh' in value\[1\]: rename one"),
        ({1, 2}, "made of modules, dictionaries, .* and functions, got set {1, 2}: a file cannot hold it"),
        (uivi.families.MLP, "made of modules, .* got .*MLP"),
        (uivi.Status.DONE, "made of modules, .* got Status"),
        (b"bytes", "made of modules, .* got bytes"),
        (collections.defaultdict(list), "made of modules, .* got defaultdict"),
        ({(1, 2): 3}, r"keys of value to be strings or numbers, got tuple \(1, 2\)"),
        (jax.random.key(0), r"value to be an array of bool, .* got key<fry>\[\]: .*key_data"),
        (np.array(["text"]), "value to be an array of bool"),
        (np.array([{}], object), "value to be an array of bool"),
        (jnp.array([1j]), "value to be an array of bool, .* got complex64"),
        (jnp.array([jnp.nan]), "value to be finite"),
        (float("inf"), "value to be finite"),
    ],
)
def test_what_could_not_be_loaded_is_not_written(value, message):
    with pytest.raises(ValueError, match=message):
        encoding.to_json({"value": value})
