"""Descriptions for results and fingerprints: by name, and different where settings differ."""

import functools
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from tests.tiny import BananaShaped, log_density
from uivi.storage import descriptions, names


def test_our_classes_and_functions_go_by_their_names():
    """A description does not change when code moves."""
    value = (
        uivi.UIVI(sampler=uivi.Compose(uivi.HMC(), uivi.ISIR())),
        uivi.presets.default_family(jax.random.key(0), 2),
        uivi.reverse.Draw(jnp.zeros(2), jnp.ones(1)),
        uivi.families.he_init,
        names.ACTIVATIONS,
    )
    text = json.dumps(descriptions.describe(value))
    for name in ("UIVI", "Compose", "HMC", "SemiImplicit", "Draw", "he_init", "relu", "float32[2]"):
        assert f'"{name}"' in text
    assert "uivi." not in text
    assert ":" not in text.replace('": ', "")


OFFSET = {"array": "float32[2]"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (BananaShaped(jnp.zeros(2)), {"module": "tests.tiny:BananaShaped", "fields": {"offset": OFFSET}}),
        (log_density, {"function": "tests.tiny:log_density"}),
        ({"a": (1, [None])}, {"dict": [["a", {"tuple": [1, {"list": [None]}]}]]}),
        (np.float32(0.5), 0.5),
        (np.zeros((2, 1)), {"array": "float64[2, 1]"}),
    ],
)  # fmt: skip
def test_descriptions(value, expected):
    assert descriptions.describe(value) == expected


def test_unknown_types_are_named():
    with pytest.raises(TypeError, match="expected modules, containers, arrays or functions, got set"):
        descriptions.describe({1, 2})


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
        (np.float64(1.0), np.float64(2.0)),
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
    assert descriptions.fingerprint(one) != descriptions.fingerprint(other)


def power(number):
    def multiply(z, times=number):
        return z * multiply(z, times - 1) if times else 1

    return multiply


def test_functions_that_call_themselves_have_a_fingerprint():
    assert descriptions.fingerprint(power(2)) == descriptions.fingerprint(power(2))
    assert descriptions.fingerprint(power(2)) != descriptions.fingerprint(power(3))


def test_values_of_arrays_do_not_change_the_fingerprint():
    family = uivi.presets.default_family(jax.random.key(0), 2)
    moved = jax.tree.map(lambda x: x + 1 if eqx.is_inexact_array(x) else x, family)
    assert descriptions.fingerprint(family) == descriptions.fingerprint(moved)
    assert descriptions.fingerprint(lambda z: z + 1) == descriptions.fingerprint(lambda z: z + 1)
