"""The checks of the roles notice each fault: one change to a method that keeps its promises."""

import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uivi.estimators import AbstractEstimator, Explicit
from uivi.families import AbstractAutodiffConditional, ExplicitGaussian
from uivi.reverse import AbstractPerDrawSampler, Exact, from_mixing
from uivi.testing import (
    Stuck,
    assert_draws_follow_density,
    assert_reparameterised,
    check_conditional,
    check_estimator,
    check_reverse_sampler,
    make_oracle,
)


class Wrapped(AbstractEstimator):
    """`Explicit` with a change to its key, its estimate, or its state."""

    change: object = eqx.field(static=True)
    first_state: object = eqx.field(static=True, default=lambda: jnp.zeros(()))

    def init(self, key, family, target):
        return self.first_state()

    def estimate(self, key, params, sites, step, state):
        found = Explicit(2).estimate
        return self.change(
            lambda key=key: found(key, params, sites, step, ())._replace(state=state), key, state
        )

    def fitted_proposal(self, state):
        return from_mixing()


def check(change, **rest):
    check_estimator(
        jax.random.key(3), Wrapped(change, **rest), ExplicitGaussian.create(2), make_oracle().target
    )


def host_number():
    return np.float32(time.perf_counter() % 1)


def shaken(estimate, key, state):
    """Noise from the host."""
    found = estimate()
    noise = jax.pure_callback(host_number, jax.ShapeDtypeStruct((), jnp.float32), vmap_method="sequential")
    return found._replace(grads=jax.tree.map(lambda g: g + noise, found.grads))


@jax.custom_batching.custom_vmap
def across(x):
    """The mean over the axis of fits."""
    return x


@across.def_vmap
def _(size, batched, x):
    del size, batched
    return jnp.broadcast_to(jnp.mean(x, 0), x.shape), True


def mixed(estimate, key, state):
    found = estimate()
    return found._replace(grads=jax.tree.map(across, found.grads))


FAULTS = {
    "no estimate": (
        lambda estimate, key, state: tuple(estimate()),
        "`estimate` of Wrapped to return an Estimate",
    ),
    "no gradient": (
        lambda estimate, key, state: estimate()._replace(grads=(None, None)),
        r"expected float32\[4\] at \[0\].encoder of the gradient of Wrapped, got nothing",
    ),
    "other state": (
        lambda estimate, key, state: estimate()._replace(state=jnp.zeros(2)),
        r"expected float32\[\] at its root of the state of Wrapped after an update, got float32\[2\]",
    ),
    "vector in info": (
        lambda estimate, key, state: estimate()._replace(info=estimate().info._replace(jump=jnp.zeros(3))),
        r"expected float32\[\] at .jump of the info of Wrapped, got float32\[3\]",
    ),
    "not finite": (
        lambda estimate, key, state: estimate()._replace(
            grads=jax.tree.map(lambda g: g / 0.0, estimate().grads)
        ),
        "a gradient of Wrapped is not finite",
    ),
    "its own randomness": (shaken, "the same key gave other numbers at .*: take all randomness from `key`"),
    "one key": (lambda estimate, key, state: estimate(jax.random.key(0)), "another key gave the same numbers"),
    "mixed fits": (mixed, "a fit depends on the fit beside it"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_promise_of_an_estimator_is_noticed(name, unchecked):
    change, message = FAULTS[name]
    with pytest.raises(AssertionError, match=message):
        check(change)


def test_an_estimator_that_keeps_its_promises_passes():
    check(lambda estimate, key, state: estimate()._replace(state=state + 1))


class Changed(AbstractPerDrawSampler):
    """`Exact` with a change to its draws, and the number of updates as its state."""

    change: object = eqx.field(static=True)

    def init(self, key, family):
        return jnp.zeros((), jnp.int32)

    def kernel(self, key, family, draw, context, state):
        found, info, memo = Exact(2).kernel(key, family, draw, context, ())
        return self.change(found), info, memo

    def adapt(self, state, draws, contexts, memos):
        return state + 1

    def fitted_proposal(self, state):
        return from_mixing()


SAMPLER_FAULTS = {
    "stuck": (Stuck(), "another key gave the same draws: use `key`"),
    "weights": (
        Changed(lambda d: d._replace(weights=2 * d.weights)),
        "expected weights of Changed that sum to one, got .*2.",
    ),
    "no last": (
        Changed(lambda d: d._replace(last=d.eps)),
        r"expected float32\[7, 2\] at .last of the draws of Changed, got float32\[7, 2, 2\]",
    ),
    "its own randomness": (
        Changed(
            lambda d: d._replace(
                eps=d.eps
                + jax.pure_callback(
                    host_number, jax.ShapeDtypeStruct((), jnp.float32), vmap_method="sequential"
                )
            )
        ),
        "the same key gave other numbers at .*: take all randomness from `key`",
    ),
}


@pytest.mark.parametrize("name", SAMPLER_FAULTS)
def test_a_broken_promise_of_a_sampler_is_noticed(name, unchecked):
    sampler, message = SAMPLER_FAULTS[name]
    with pytest.raises(AssertionError, match=message):
        check_reverse_sampler(jax.random.key(3), sampler, make_oracle().family)


def test_a_sampler_that_keeps_its_promises_passes():
    check_reverse_sampler(jax.random.key(3), Changed(lambda d: d), make_oracle().family)


class Normal(AbstractAutodiffConditional):
    """N(ε + shift, I), with a fault."""

    shift: jax.Array
    fault: str = eqx.field(static=True, default="")

    @property
    def dim(self):
        return self.shift.size

    @property
    def noise_dim(self):
        return self.shift.size

    @property
    def context_dim(self):
        return 3 if self.fault == "context" else 0

    def sample(self, key, eps, context=None):
        shift = jax.lax.stop_gradient(self.shift) if self.fault == "held" else self.shift
        scale = 1.1 if self.fault == "wide" else 1.0
        return (
            eps
            + shift
            + scale * jax.random.normal(jax.random.key(0) if self.fault == "key" else key, eps.shape)
        )

    def log_prob(self, z, eps, context=None):
        constant = 0.2 if self.fault == "mass" else 0.0
        return jnp.sum(jax.scipy.stats.norm.logpdf(z - eps - self.shift)) + constant

    def log_prob_of(self, z, context=None):
        return lambda eps: self.log_prob(z, eps) + (1.0 if self.fault == "of" else 0.0)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("context", "expected `context_dim` of Normal to be 0, got 3"),
        ("key", "another key gave the same draw of Normal: use `key`"),
        ("of", "log_prob_of of Normal is not what its log_prob says"),
    ],
)
def test_a_broken_promise_of_a_conditional_is_noticed(fault, message):
    with pytest.raises(AssertionError, match=message):
        check_conditional(jax.random.key(0), Normal(jnp.zeros(2), fault))


def test_draws_and_densities_that_do_not_agree_are_noticed(x64):
    follow = lambda fault: assert_draws_follow_density(
        jax.random.key(0), Normal(jnp.zeros(1), fault), jnp.zeros(1)
    )
    follow("")
    with pytest.raises(AssertionError, match="draws of Normal do not follow its density: p = "):
        follow("wide")
    with pytest.raises(AssertionError, match="the density of Normal integrates to 1.2214 instead of one"):
        follow("mass")


def test_draws_that_do_not_move_with_the_parameters_are_noticed(x64):
    check = lambda fault: assert_reparameterised(
        jax.random.key(0), Normal(jnp.array([0.3, -0.2]), fault), jnp.zeros(2)
    )
    check("")
    with pytest.raises(AssertionError, match="the mean is off by"):
        check("held")
