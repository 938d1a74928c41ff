"""UIVI under BlackJAX's protocol: a drop-in for its own variational algorithms."""

import inspect

import blackjax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import uivi
from tests.tiny import implicit_family
from uivi._jax import ordinary_promotion
from uivi.families.sampling import sample_many
from uivi.integrations.blackjax import UIVIInfo, UIVIState, posterior
from uivi.testing import TARGET_COVARIANCE, TARGET_MEAN, assert_mean, assert_not_mean

PRECISION = np.linalg.inv(TARGET_COVARIANCE)
POSITION = {"level": jnp.zeros(()), "slopes": (jnp.zeros((1, 1)),)}
SMALL = uivi.UIVI(
    num_draws=4, sampler=uivi.ISIR(num_proposals=4, num_rounds=1, proposal=uivi.reverse.FromMixing())
)


def log_density(position):
    """N(TARGET_MEAN, TARGET_COVARIANCE) without its constant, on a nested position."""
    z = jnp.stack([position["level"], position["slopes"][0][0, 0]]) - jnp.asarray(TARGET_MEAN, jnp.float32)
    return -0.5 * z @ jnp.asarray(PRECISION, jnp.float32) @ z


def flat(position):
    return np.stack([position["level"], position["slopes"][0][:, 0, 0]], 1)


def run(algorithm, state, num_steps):
    """As a user of BlackJAX writes it."""
    keys = jax.random.split(jax.random.key(5), num_steps)
    return jax.jit(lambda s: jax.lax.scan(lambda s, key: algorithm.step(key, s), s, keys))(state)


def moments(draws):
    """Functions of each draw whose means are the target's mean and covariance."""
    centred = draws - TARGET_MEAN
    return np.concatenate([draws, (centred[:, :, None] * centred[:, None, :]).reshape(-1, 4)], 1)


EXPECTED = np.concatenate([TARGET_MEAN, TARGET_COVARIANCE.ravel()])


def test_a_gaussian_is_found(getkey):
    """The family contains the target. The last updates leave an error below 0.03, as declared."""
    optimizer = optax.adam(optax.cosine_decay_schedule(1e-2, 1_000))
    algorithm = uivi.integrations.blackjax.as_vi_algorithm(log_density, optimizer)
    state, info = run(algorithm, algorithm.init(POSITION, getkey()), 1_000)
    draws = algorithm.sample(getkey(), state, 20_000)
    assert_mean(moments(flat(draws)), EXPECTED, max_stderr=0.015, bias=0.03)
    assert int(state.step) == 1_000
    assert not info.skipped.any()


def test_independent_coordinates_are_noticed(getkey):
    """The control: BlackJAX's mean-field under the same loop misses the covariance."""
    with ordinary_promotion():
        algorithm = blackjax.meanfield_vi(log_density, optax.adam(1e-2), 64)
        state, _ = run(algorithm, algorithm.init(POSITION), 1_000)
        draws = algorithm.sample(getkey(), state, 20_000)
    assert_not_mean(moments(flat(draws)), EXPECTED)


@pytest.fixture(scope="module")
def small():
    return uivi.integrations.blackjax.as_vi_algorithm(
        log_density, optax.adam(1e-2), family=implicit_family(), estimator=SMALL
    )


def parameters(function):
    return list(inspect.signature(function).parameters)


def test_the_protocol_is_that_of_blackjax(small):
    own = blackjax.meanfield_vi(log_density, optax.adam(1e-2))
    assert type(small) is type(own)
    assert (
        list(parameters(uivi.integrations.blackjax.as_vi_algorithm))[:2]
        == list(parameters(blackjax.meanfield_vi.differentiable))[:2]
    )
    assert parameters(small.step) == parameters(own.step)
    assert parameters(small.sample) == parameters(own.sample)
    assert parameters(small.init)[:1] == parameters(own.init)
    assert inspect.signature(small.init).parameters["rng_key"].default is None


def test_states_infos_and_draws_are_trees_of_arrays(small, getkey):
    state = small.init(POSITION)
    assert isinstance(state, UIVIState)
    assert all(eqx.is_array(leaf) for leaf in jax.tree.leaves(state))
    new, info = jax.jit(small.step)(getkey(), state)
    assert isinstance(info, UIVIInfo)
    assert {x.shape for x in jax.tree.leaves(info)} == {()}
    assert "elbo" not in " ".join([*info._fields, *info.mean._fields])
    assert jax.tree.structure(new) == jax.tree.structure(state)
    draws = small.sample(getkey(), new, 7)
    assert jax.tree.map(jnp.shape, draws) == {"level": (7,), "slopes": ((7, 1, 1),)}
    assert np.all(np.isfinite(jax.vmap(log_density)(draws)))


def test_steps_are_functions_of_key_and_state(small, getkey):
    """A second algorithm of the same kind makes the same steps: the state holds no log density."""
    again = uivi.integrations.blackjax.as_vi_algorithm(
        log_density, optax.adam(1e-2), family=implicit_family(), estimator=SMALL
    )
    state, key = small.init(POSITION), getkey()
    first, second = jax.jit(small.step)(key, state)[0], jax.jit(again.step)(key, state)[0]
    jax.tree.map(np.testing.assert_array_equal, first, second)
    other = jax.jit(small.step)(getkey(), state)[0]
    assert not np.array_equal(
        other.family.conditional.net.layers[0].weight, first.family.conditional.net.layers[0].weight
    )


def test_old_keys_are_taken(small):
    state = small.init(POSITION, jax.random.PRNGKey(0))
    state, _ = jax.jit(small.step)(jax.random.PRNGKey(1), state)
    new = small.sample(jax.random.key(2), state, 3)
    jax.tree.map(np.testing.assert_array_equal, small.sample(jax.random.PRNGKey(2), state, 3), new)


def test_many_starts_side_by_side(getkey):
    """`init` and `step` can be mapped; q starts around its position."""
    algorithm = uivi.integrations.blackjax.as_vi_algorithm(lambda z: -0.5 * jnp.sum(z**2), estimator=SMALL)
    positions = jnp.array([[0.0, 0.0], [10.0, -10.0], [100.0, 0.0]])
    keys = jax.random.split(getkey(), 3)
    states = jax.jit(jax.vmap(algorithm.init))(positions, keys)
    draws = jax.vmap(lambda state: algorithm.sample(keys[0], state, 4_000))(states)
    assert_mean(draws[1], positions[1], max_stderr=0.02, bias=0.3)
    states, _ = jax.jit(jax.vmap(algorithm.step))(keys, states)
    np.testing.assert_array_equal(states.step, 1)


def test_draws_are_of_averaged_parameters(getkey):
    """The default, since no schedule can end a loop of unknown length."""
    algorithm = uivi.integrations.blackjax.as_vi_algorithm(log_density, estimator=SMALL)
    state, _ = run(algorithm, algorithm.init(POSITION), 3)
    averaged, key = posterior(state, log_density).family, getkey()
    expected = sample_many(key, averaged, 5).z
    np.testing.assert_array_equal(flat(algorithm.sample(key, state, 5)), expected)
    last = sample_many(key, state.family, 5).z
    assert not np.array_equal(last, expected)


def test_a_gradient_that_is_not_finite_changes_nothing(getkey):
    cliff = lambda position: log_density(position) * jnp.where(position["level"] > -1e3, jnp.nan, 1.0)
    algorithm = uivi.integrations.blackjax.as_vi_algorithm(cliff, family=implicit_family(), estimator=SMALL)
    state = algorithm.init(POSITION)
    new, info = jax.jit(algorithm.step)(getkey(), state)
    assert bool(info.skipped)
    jax.tree.map(np.testing.assert_array_equal, new.family, state.family)


def test_a_state_becomes_a_posterior(small, getkey):
    state, _ = run(small, small.init(POSITION), 20)
    made = posterior(state, log_density, SMALL)
    assert "SemiImplicit posterior on 2 dimensions (20 updates" in made.summary()
    assert made.check().lower.mean < made.check().upper.mean + 1.0
    key = getkey()
    # Two programs: XLA may round them differently.
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5)
    jax.tree.map(close, made.sample(key, 4), small.sample(key, state, 4))


def loose() -> uivi.ExplicitGaussian:
    """A family with a leaf that is not an array."""
    return eqx.tree_at(lambda family: jax.tree.leaves(family)[0], uivi.ExplicitGaussian.create(2), "loose")


@pytest.mark.parametrize(
    ("settings", "position", "error", "words"),
    [
        (
            {},
            {"n": jnp.zeros(2, jnp.int32)},
            TypeError,
            "expected `init` to hold float arrays only, got .'int32",
        ),
        ({}, POSITION | {"level": jnp.zeros(2)}, ValueError, "the log density failed on a vector of size 3"),
        (
            {"family": uivi.ExplicitGaussian.create(3)},
            POSITION,
            ValueError,
            "expected a family on 2 dimensions .* got one on 3",
        ),
        (
            {"family": uivi.ExplicitGaussian.create(2), "estimator": uivi.UIVI()},
            POSITION,
            TypeError,
            "expected a uivi.SemiImplicit family for UIVI",
        ),
        (
            {"family": loose()},
            POSITION,
            TypeError,
            "expected a family whose leaves are arrays, got .'str'.*static=True",
        ),
    ],
)
def test_what_cannot_be_fitted_is_refused(settings, position, error, words, unchecked):
    algorithm = uivi.integrations.blackjax.as_vi_algorithm(log_density, optax.adam(1e-3), **settings)
    with pytest.raises(error, match=words):
        algorithm.init(position)
