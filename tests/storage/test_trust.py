"""A user's own classes and functions: recorded by name, used by whoever passes them, refused otherwise."""

import collections
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from tests.storage import crafted
from tests.tiny import BananaShaped
from uivi.storage import decoding

KEY = jax.random.key(11)


def swoosh(x):
    """An activation of the user's own."""
    return x * jax.nn.sigmoid(2 * x)


def banana():
    family = uivi.SemiImplicit(uivi.families.StandardNormal(1), BananaShaped(jnp.array([1.0, jnp.inf])))
    return eqx.tree_at(lambda f: f.conditional.offset, family, jnp.array([1.0, 2.0]))


class OfEquinox(uivi.families.AbstractSimpleConditional):
    """A conditional with networks of Equinox in it, and an `__init__` of its own."""

    net: eqx.nn.MLP
    trusted_scale: jax.Array
    limit: float = eqx.field(static=True)

    def __init__(self, key):
        self.net = eqx.nn.MLP(1, 2, 4, 1, jnp.tanh, jax.nn.identity, key=key)
        self.trusted_scale = jnp.array([jnp.inf, 1.0])
        self.limit = float("inf")

    dim = property(lambda self: 2)
    noise_dim = property(lambda self: 1)

    def sample(self, key, eps, context=None):
        return self.net(eps) + jnp.minimum(self.trusted_scale, 2.0) * jax.random.normal(key, (2,))

    def log_prob(self, z, eps, context=None):
        return jnp.sum(
            jax.scipy.stats.norm.logpdf(z - self.net(eps), 0.0, jnp.minimum(self.trusted_scale, 2.0))
        )


def of_a_local_class():
    class Local(BananaShaped):
        pass

    return uivi.SemiImplicit(uivi.families.StandardNormal(1), Local(jnp.zeros(2)))


class Pair(NamedTuple):
    left: jax.Array
    right: jax.Array


LOCAL = of_a_local_class()
ROWS = {
    "activation": (lambda: {"family": crafted.family(swoosh)}, [swoosh]),
    "activation of JAX": (lambda: {"family": crafted.family(jnp.arctan)}, [jnp.arctan]),
    "conditional": (lambda: {"family": banana()}, [BananaShaped]),
    "local class": (lambda: {"family": LOCAL}, [type(LOCAL.conditional)]),
    "named tuple": (lambda: {"example": Pair(jnp.zeros(1), jnp.zeros(1))}, [Pair]),
    "networks of Equinox": (
        lambda: {"family": uivi.SemiImplicit(uivi.families.StandardNormal(1), OfEquinox(jax.random.key(0)))},
        [OfEquinox, eqx.nn.MLP, eqx.nn.Linear],
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_trusted_loads_and_is_named_without(name, tmp_path):
    changes, trust = ROWS[name]
    posterior = crafted.posterior(**changes())
    posterior.save(tmp_path / "file")
    again = uivi.load(tmp_path / "file", trust=[*trust, print])
    assert jax.tree.structure(again.family) == jax.tree.structure(posterior.family)
    assert jax.tree.structure(again.example) == jax.tree.structure(posterior.example)
    assert np.array_equal(again.sample_flat(KEY, 9), posterior.sample_flat(KEY, 9))
    names = ", ".join(sorted(own.__name__ for own in trust))
    for too_few in ((), (print,), trust[1:]):
        with pytest.raises(uivi.storage.ArchiveError, match="expected names that uivi knows, got ") as error:
            uivi.load(tmp_path / "file", trust=too_few)
        if too_few != trust[1:]:
            assert f"got {names}: if you trust where this file comes from" in str(error.value)
            assert f"uivi.load(path, trust=[{names}])" in str(error.value)
    assert uivi.load(tmp_path / "file", trust=(own for own in trust)).dim == 2


def test_a_file_of_uivi_needs_no_trust(tmp_path):
    crafted.posterior().save(tmp_path / "file")
    assert uivi.load(tmp_path / "file").dim == 2


def test_one_of_our_names_can_be_the_user_s_too(tmp_path):
    mine = type("Gaussian", (BananaShaped,), {"__module__": __name__})
    family = uivi.SemiImplicit(uivi.families.StandardNormal(1), mine(jnp.zeros(2)))
    crafted.posterior(family=family).save(tmp_path / "file")
    with pytest.raises(uivi.storage.ArchiveError, match=r"trust=\[Gaussian\]"):
        uivi.load(tmp_path / "file")
    assert type(uivi.load(tmp_path / "file", trust=[mine]).family.conditional) is mine


def test_the_fields_of_a_class_are_compared(tmp_path):
    crafted.posterior(family=banana()).save(tmp_path / "file")

    class Other(BananaShaped):
        weight: jax.Array

    Other.__name__ = "BananaShaped"
    with pytest.raises(
        uivi.storage.ArchiveError,
        match=r"fields of family.conditional \(BananaShaped\) to be offset, weight, got weight missing",
    ):
        uivi.load(tmp_path / "file", trust=[Other])


@pytest.mark.parametrize(
    ("trust", "error", "message"),
    [
        (swoosh, TypeError, "`trust` to be a list of classes and functions, got function"),
        (BananaShaped, TypeError, "`trust` to be a list of classes and functions, got"),
        ("swoosh", TypeError, "`trust` to be a list of classes and functions, got str 'swoosh'"),
        (["swoosh"], TypeError, "classes and functions with names, got str 'swoosh'"),
        ([3], TypeError, "classes and functions with names, got int 3"),
        ([eqx.Partial(max)], TypeError, "classes and functions with names, got Partial"),
        (
            [Pair, collections.namedtuple("Pair", "a b")],
            ValueError,
            "different names in `trust`, got 'Pair' twice",
        ),
    ],
)
def test_trust_is_a_list_of_callables_of_different_names(trust, error, message, tmp_path, unchecked):
    crafted.posterior().save(tmp_path / "file")
    with pytest.raises(error, match=message):
        uivi.load(tmp_path / "file", trust=trust)


def test_the_same_callable_may_come_twice():
    assert decoding.by_name([swoosh, swoosh]) == {"swoosh": swoosh}


def test_a_message_of_many_names_is_short(tmp_path):
    items = [{"trusted_function": f"f{i}"} for i in range(1_000)]
    path = crafted.changed(tmp_path / "file", "example", {"list": items})
    with pytest.raises(uivi.storage.ArchiveError, match=r"f0, f1, f10, .*, \.\.\.") as error:
        uivi.load(path)
    assert len(str(error.value)) < 1_000


SCRIPT = """
class Mine(BananaShaped):
    pass

def save(path):
    family = uivi.SemiImplicit(uivi.families.StandardNormal(1), Mine(jnp.full(2, 3.0)))
    crafted.posterior(family=family).save(path)
"""


def test_a_class_of_a_script_loads_in_another_script(tmp_path):
    scripts = [{"__name__": "__main__", **globals()} for _ in range(2)]
    for script in scripts:
        exec(SCRIPT, script)
    scripts[0]["save"](tmp_path / "file")
    with pytest.raises(uivi.storage.ArchiveError, match=r"trust=\[Mine\]"):
        uivi.load(tmp_path / "file")
    again = uivi.load(tmp_path / "file", trust=[scripts[1]["Mine"]])
    assert np.array_equal(again.family.conditional.offset, [3.0, 3.0])
