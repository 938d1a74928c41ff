"""The paper's optimiser, update by update, against a plain loop."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from uivi.families import MLP, Gaussian, LogScale, RawScale, SemiImplicit, StandardNormal, TwoNetGaussian
from uivi.training import optimisers
from uivi.training.optimisers import (
    adam_cosine,
    keep_above,
    label_parameters,
    pack,
    paper_rmsprop,
    scale_by_paper_rmsprop,
    with_average,
)


def make_params(scale=None):
    """A family (network and scale) and a target with a parameter of its own."""
    net = MLP.create(jax.random.key(0), 2, 2, width=3)
    conditional = Gaussian(net, RawScale.create(2) if scale is None else scale)
    return SemiImplicit(StandardNormal(2), conditional), {"decoder": jnp.array([0.3, -0.2])}


def reference_loop(parameter, gradients, rate, *, decay_every, floor=None):
    """`main_demo.m`: the rate falls after the updates whose number (from 1) `decay_every` divides."""
    parameter, square = np.array(parameter, np.float64), 0.0
    for number, gradient in enumerate(gradients, start=1):
        weight = 1.0 if number == 1 else 0.1
        square = weight * gradient**2 + (1 - weight) * square
        parameter = parameter - rate * gradient / (1 + np.sqrt(square))
        if floor is not None:
            parameter = np.maximum(parameter, floor)
        if number % decay_every == 0:
            rate *= 0.9
    return parameter


def test_updates_equal_the_authors_loop(x64):
    """Ten updates, two decays; three groups with a rate each."""
    params = make_params()
    optimizer = paper_rmsprop(0.3, 0.05, 0.7, decay_every=4)
    state = optimizer.init(params)
    leaves, treedef = jax.tree.flatten(params)
    rng = np.random.default_rng(0)
    gradients = [[rng.normal(size=x.shape) for x in leaves] for _ in range(10)]
    fitted = params
    update = jax.jit(optimizer.update)
    for gradient in gradients:
        gradient = jax.tree.unflatten(treedef, [jnp.asarray(g) for g in gradient])
        updates, state = update(gradient, state, fitted)
        fitted = optax.apply_updates(fitted, updates)
    rates = {"network": 0.3, "scale": 0.05, "model": 0.7}
    labels = jax.tree.leaves(label_parameters(params))
    assert set(labels) == set(rates)
    for i, (label, result) in enumerate(zip(labels, jax.tree.leaves(fitted), strict=True)):
        floor = 1e-5 if label == "scale" else None
        history = [g[i] for g in gradients]
        expected = reference_loop(leaves[i], history, rates[label], decay_every=4, floor=floor)
        # Optax computes the decayed rate in single precision.
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-7)


def test_rate_falls_after_update_3000_and_not_before(x64):
    """With a constant gradient of 1 every update is rate / 2."""
    optimizer = paper_rmsprop()
    params = {"weight": jnp.zeros(1)}

    def update(carry, _):
        params, state = carry
        updates, state = optimizer.update({"weight": jnp.ones(1)}, state, params)
        return (optax.apply_updates(params, updates), state), updates["weight"]

    _, steps = jax.lax.scan(update, (params, optimizer.init(params)), None, length=6_001)
    expected = np.repeat([0.01, 0.009, 0.0081], [3_000, 3_000, 1]) / 2
    np.testing.assert_allclose(-steps[:, 0], expected, rtol=1e-6)


def test_one_is_added_outside_the_root(x64):
    """First step: g / (1 + |g|), so the size of the gradient matters."""
    transformation = scale_by_paper_rmsprop()
    gradient = jnp.array([1e-3, -2.0, 100.0])
    scaled, _ = transformation.update(gradient, transformation.init(gradient))
    np.testing.assert_allclose(scaled, gradient / (1 + jnp.abs(gradient)), rtol=1e-12)


def test_scales_stay_above_the_floor(x64):
    params = make_params()
    optimizer = paper_rmsprop(scale_rate=10.0)
    gradient = jax.tree.map(jnp.ones_like, params)
    updates, _ = optimizer.update(gradient, optimizer.init(params), params)
    (family, _) = optax.apply_updates(params, updates)
    np.testing.assert_allclose(family.conditional.scale(), 1e-5, rtol=1e-6)


def test_the_floor_is_for_standard_deviations_not_their_logarithms():
    params = make_params(LogScale.create(2, 0.3))
    optimizer = paper_rmsprop()
    gradient = jax.tree.map(jnp.ones_like, params)
    updates, _ = optimizer.update(gradient, optimizer.init(params), params)
    (family, _) = optax.apply_updates(params, updates)
    np.testing.assert_allclose(family.conditional.scale(), 0.3, rtol=0.01)


def test_keep_above_needs_parameters():
    with pytest.raises(ValueError, match="keep_above needs the parameters"):
        keep_above(0.0).update(jnp.ones(1), optax.EmptyState())


def test_the_second_network_of_an_encoder_belongs_to_the_scale():
    """And has no floor: its outputs pass through a softplus."""
    loc_net, scale_net = (MLP.create(jax.random.key(i), 3, 2, width=4, depth=1) for i in range(2))
    params = TwoNetGaussian(loc_net, scale_net), {"decoder": jnp.zeros(2)}
    family, target = label_parameters(params)
    assert set(jax.tree.leaves(family.loc_net)) == {"network"}
    assert set(jax.tree.leaves(family.scale_net)) == {"log_scale"}
    assert target == {"decoder": "model"}
    optimizer = paper_rmsprop(0.3, 0.05, 0.7)
    gradient = jax.tree.map(jnp.ones_like, params)
    updates, _ = optimizer.update(gradient, optimizer.init(params), params)
    for tree, rate in ((updates[0].loc_net, 0.3), (updates[0].scale_net, 0.05), (updates[1], 0.7)):
        for leaf in jax.tree.leaves(tree):
            np.testing.assert_allclose(leaf, -rate / 2, rtol=1e-6)


def gradients_like(params, number, seed=0):
    """Random gradients of widely differing sizes."""
    rng = np.random.default_rng(seed)
    sizes = np.geomspace(0.1, 30.0, number)
    return [jax.tree.map(lambda p, s=s: jnp.asarray(s * rng.normal(size=p.shape)), params) for s in sizes]


def trajectory(optimizer, params, gradients):
    """The parameters after each update, and the last state of the optimiser."""
    state, update, path = optimizer.init(params), jax.jit(optimizer.update), []
    for gradient in gradients:
        updates, state = update(gradient, state, params)
        params = optax.apply_updates(params, updates)
        path.append(params)
    return path, state


def assert_same_path(one, other, rtol):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol)


def test_the_average_follows_its_recursion_and_changes_no_update(x64):
    """Weight of the old average: min(decay, (1 + t)/(10 + t)), of the parameters after each update."""
    params = {"a": jnp.array([0.5, -1.0]), "b": jnp.array(2.0)}
    gradients = gradients_like(params, 40)
    inner = optax.sgd(0.1, momentum=0.5)
    plain, inner_state = trajectory(inner, params, gradients)
    path, state = trajectory(with_average(inner, decay=0.7), params, gradients)
    assert_same_path(path, plain, 0)
    assert_same_path(state.inner, inner_state, 0)
    for name, found in pack(params)[1](state.average).items():
        average = np.asarray(params[name])
        for t, after in enumerate(plain):
            keep = min(0.7, (1 + t) / (10 + t))
            average = keep * average + (1 - keep) * np.asarray(after[name])
        np.testing.assert_allclose(found, average, rtol=1e-12)
    assert state.count == 40
    assert {(1 + t) / (10 + t) > 0.7 for t in range(40)} == {True, False}


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: paper_rmsprop(0.3, 0.05, 0.7, decay_every=4),
        lambda: with_average(adam_cosine(20, 0.03, weight_decay=0.4), 0.7),
    ],
)
def test_large_arrays_are_updated_alike(optimizer, monkeypatch, x64):
    """Wherever the line between small and large arrays is; with the gradient clipped as a whole."""
    params = make_params()
    gradients = gradients_like(params, 20)
    small, state = trajectory(optimizer(), params, gradients)
    few = len(jax.tree.leaves(state))
    average = optimisers.average_of(state, params)
    monkeypatch.setattr(optimisers, "LARGE", 5)
    assert sorted(array.ndim for array in pack(params)[0]) == [1, 2, 2, 2]
    large, state = trajectory(optimizer(), params, gradients)
    assert few < len(jax.tree.leaves(state))
    assert_same_path(large, small, 1e-12)
    assert_same_path(optimisers.average_of(state, params), average, 1e-12)


def test_packing_goes_back(monkeypatch):
    tree = {"a": jnp.arange(6.0).reshape(2, 3), "b": jnp.array(7.0), "c": jnp.arange(4.0), "d": None}
    for large in (1, 4, 5, 100):
        monkeypatch.setattr(optimisers, "LARGE", large)
        packed, unpack = pack(tree)
        assert packed[0].size == sum(x.size for x in jax.tree.leaves(tree) if x.size < large)
        back = unpack(packed)
        assert jax.tree.structure(back) == jax.tree.structure(tree)
        assert_same_path(back, tree, 0)


def test_the_average_keeps_single_precision():
    params = {"a": jnp.zeros(3)}
    _, state = trajectory(with_average(optax.sgd(0.1)), params, [{"a": jnp.ones(3)}] * 2)
    assert state.average[0].dtype == jnp.float32


def test_averaged_needs_parameters():
    optimizer = with_average(optax.sgd(0.1))
    with pytest.raises(ValueError, match="with_average needs the parameters"):
        optimizer.update(jnp.ones(1), optimizer.init(jnp.ones(1)))


def test_adam_cosine_is_optax_adam_by_default(x64):
    params = {"a": jnp.array([0.5, -1.0]), "b": jnp.array(2.0)}
    gradients = gradients_like(params, 12)
    rate = optax.cosine_decay_schedule(0.03, 20)
    expected, _ = trajectory(optax.chain(optax.clip_by_global_norm(10.0), optax.adam(rate)), params, gradients)
    found, _ = trajectory(adam_cosine(20, 0.03), params, gradients)
    assert_same_path(found, expected, 1e-12)
    assert max(optax.tree.norm(g) for g in gradients) > 10


def test_warm_up_and_weight_decay_are_those_of_adamw(x64):
    """The rate grows linearly over the first 5 updates, from a fifth; the decay shrinks with the rate."""
    params = {"a": jnp.array([0.5, -1.0]), "b": jnp.array(2.0)}
    gradients = gradients_like(params, 12)
    cosine = lambda t: 0.5 * (1 + np.cos(np.pi * t / 20))
    rates = [0.03 * cosine(t) * min(1.0, (t + 1) / 5) for t in range(12)]
    found, _ = trajectory(adam_cosine(20, 0.03, clip=jnp.inf, warmup=5, weight_decay=0.4), params, gradients)
    for name in params:
        x, first, second = np.asarray(params[name]), 0.0, 0.0
        for t, (rate, gradient) in enumerate(zip(rates, gradients, strict=True), start=1):
            g = np.asarray(gradient[name])
            first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
            step = (first / (1 - 0.9**t)) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
            x = x - rate * (step + 0.4 * x)
            # Optax computes the rate in single precision.
            np.testing.assert_allclose(found[t - 1][name], x, rtol=1e-5, err_msg=f"update {t}")


def test_adam_cosine_ends_at_zero_and_clips():
    """The last update is nothing; a huge gradient moves no more than a small one."""
    optimizer = adam_cosine(10, 0.1)
    params = jnp.zeros(2)
    state = optimizer.init(params)
    sizes = []
    for gradient in [jnp.full((2,), 1e12)] + [jnp.ones(2)] * 10:
        updates, state = optimizer.update(gradient, state, params)
        sizes.append(float(jnp.max(jnp.abs(updates))))
    assert 0.05 < sizes[0] < 0.2
    assert sizes[-1] < 1e-6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: paper_rmsprop(network_rate=0.0), "`network_rate` to be positive and finite, got 0.0"),
        (lambda: paper_rmsprop(scale_rate=-1.0), "scale_rate"),
        (lambda: paper_rmsprop(model_rate=float("inf")), "model_rate"),
        (lambda: paper_rmsprop(decay_every=0), "`decay_every` to be a positive whole number, got 0"),
        (lambda: adam_cosine(0), "`num_steps` to be a positive whole number, got 0"),
        (lambda: adam_cosine(-5), "num_steps"),
        (lambda: adam_cosine(10, 0.0), "`rate` to be positive"),
        (lambda: with_average(optax.sgd(0.1), 1.0), "expected `decay` between 0 and 1, got 1.0"),
        (lambda: with_average(optax.sgd(0.1), 0.0), "expected `decay` between 0 and 1, got 0.0"),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()
