"""Every bad log density fails before any long work, with what was expected, what came and what to do."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from tests.tiny import explicit_settings, log_density
from uivi.families import MLP, Gaussian, LogScale, SemiImplicit, StandardNormal
from uivi.targets import AbstractTarget
from uivi.training import driver


@pytest.fixture(autouse=True)
def no_long_work(monkeypatch, unchecked):
    """Nothing may be updated: the check comes first, and it is the package's own."""
    monkeypatch.setattr(driver, "run_updates", lambda *_: pytest.fail("the fit began"))


def branch(z):
    return -jnp.sum(z**2) if z[0] > 0 else -jnp.sum(z**4)


def callback(z, **kwargs):
    shape = jax.ShapeDtypeStruct((), z.dtype)
    return jax.pure_callback(lambda z: -np.sum(np.square(z)).astype(z.dtype), shape, z, **kwargs)


def square_root(z):
    """Finite, with a derivative that is not."""
    return -jnp.sum(z**2) + jnp.sqrt(jnp.sum(0.0 * z**2))


def matrix(z):
    return -jnp.sum((jnp.ones((5, 3)) @ z) ** 2)


BAD = {
    "a vector": (lambda z: -(z**2), r"returns a scalar, got shape \(2,\): sum over the terms"),
    "an array of one": (lambda z: -jnp.sum(z**2, keepdims=True), r"scalar, got shape \(1,\)"),
    "a tuple": (lambda z: (jnp.sum(z), 0.0), "scalar, got tuple"),
    "nothing": (lambda z: None, "scalar, got NoneType"),
    "an integer": (lambda z: jnp.argmax(z), "returns a float, got int"),
    "NaN": (lambda z: jnp.sum(jnp.log(z - 100)), "finite log density where the fit starts, got nan at z="),
    "minus infinity": (
        lambda z: jnp.where(jnp.all(z > 100), 0.0, -jnp.inf),
        r"got -inf at z=.* \(32 of 32 draws\): start at a point with init=, or transform z",
    ),
    "infinity": (lambda z: jnp.exp(1e4 + z[0]), "finite log density where the fit starts, got inf"),
    "a branch": (branch, "JAX can trace, .* jnp.where or lax.cond instead of `if` on z"),
    "numpy": (lambda z: np.exp(z).sum(), "JAX can trace, .* use jax.numpy instead of numpy"),
    "math": (lambda z: -math.exp(z[0]), "expected a log density that JAX can trace"),
    "a callback": (
        lambda z: callback(z, vmap_method="sequential"),
        "JAX can differentiate; jax.grad failed with\nValueError: Pure callbacks do not support JVP",
    ),
    "rounding": (
        lambda z: -jnp.sum(jnp.round(3 * z) ** 2),
        "expected a differentiable log density, got a gradient of zero .* although its value varies",
    ),
    "a stopped gradient": (lambda z: -jnp.sum(jax.lax.stop_gradient(z) ** 2), "gradient of zero"),
    "a constant": (lambda z: jnp.float32(1.0), "gradient of zero at all 32 draws, and constant"),
    "a gradient of NaN": (square_root, "finite gradient of the log density .* guard square roots"),
    "another dim": (matrix, r"failed on a vector of size 2: is dim=2 right\?"),
    "a dictionary": (lambda z: -(z["a"] ** 2), r"failed on a vector of size 2: is dim=2 right\?"),
    "unpacking": (lambda z: (lambda a, b, c: a)(*z), r"is dim=2 right\?"),
    "a wrong name": (lambda z: z.no_such_name, "failed on a vector of size 2\nAttributeError: .*no_such_name"),
    "a wrong key": (lambda z: {}["a"] * z, "failed on a vector of size 2\nKeyError: 'a'"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_densities(name):
    density, message = BAD[name]
    with pytest.raises(ValueError, match=f"(?s){message}"):
        uivi.fit(density, 2, key=jax.random.key(0), **explicit_settings())


def test_a_callback_that_cannot_be_batched():
    with pytest.raises(ValueError, match="expected a log density"):
        uivi.fit(callback, 2, key=jax.random.key(0), **explicit_settings())


def test_an_index_beyond_dim():
    with pytest.raises(ValueError, match=r"is dim=2 right\?"):
        uivi.fit(lambda z: -(z[0] ** 2) - z[2] ** 2, 2, key=jax.random.key(0), **explicit_settings())


def test_a_family_of_another_dim():
    settings = explicit_settings() | {"family": uivi.ExplicitGaussian.create(3)}
    with pytest.raises(ValueError, match=r"family on 2 dimensions \(the target's\), got one on 3: change"):
        uivi.fit(log_density, 2, key=jax.random.key(0), **settings)


class WithContext(AbstractTarget):
    """A target whose one site has a context of size 4."""

    data: jax.Array = eqx.field(default_factory=lambda: jnp.ones((1, 4)))

    @property
    def dim(self):
        return 2

    @property
    def num_sites(self):
        return 1

    def sites(self, key, step):
        del key, step
        return self.data

    def context(self, site):
        return site

    def log_joint(self, z, site):
        return -jnp.sum(z**2) + jnp.sum(site)


def test_a_family_of_another_context():
    net = MLP.create(jax.random.key(0), 1, 2, context_dim=3, width=4)
    settings = explicit_settings() | {"estimator": uivi.UIVI()}
    settings["family"] = SemiImplicit(StandardNormal(1), Gaussian(net, LogScale.create(2)))
    with pytest.raises(ValueError, match=r"context_dim=4 \(the target's\), got 3"):
        uivi.fit(WithContext(), key=jax.random.key(0), **settings)
    with pytest.raises(ValueError, match=r"context_dim=0 \(the target's\), got 3"):
        uivi.fit(log_density, 2, key=jax.random.key(0), **settings)
