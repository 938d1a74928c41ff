"""The fused moves of collapsed densities: the kernel in Triton's interpreter against the reference."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.gpu.collapsed_inputs import collapsed_force, make_collapsed, residual_moments
from tests.gpu.interpreter import assert_same, interpret_call, lane, needs_triton
from tests.gpu.kernel_inputs import bfloat16
from uivi.gpu import (
    Adaptation,
    CollapsedInputs,
    CollapsedTiling,
    Moves,
    collapsed_misfit,
    collapsed_moves,
    log_density,
    reference_moves,
)
from uivi.gpu import launch as launch_module
from uivi.gpu.collapsed import kernel_call
from uivi.testing import assert_mean, assert_not_mean

RULE = Adaptation(2, rate=0.5, target=0.9)


def interpret(lanes, num_leapfrog, adaptation=None, *, tiling=None, arrived=None) -> Moves:
    return interpret_call(kernel_call(lanes, num_leapfrog, adaptation, tiling=tiling), arrived)


def rounded_moves(lanes, num_leapfrog, adaptation=None, rounded=None) -> Moves:
    options = (rounded,) if rounded else ()
    one = lambda inputs: reference_moves(
        inputs, num_leapfrog, adaptation, force=collapsed_force(inputs, *options)
    )
    return jax.jit(jax.vmap(one))(lanes)


# (T, N, E, H, D), leapfrog steps, step size, tiling: sizes other than multiples of 16, more chains than a
# program has.
CASES = {
    "paper": ((2, 1, 100, 200, 400), 2, 0.05, None),
    "odd": ((2, 3, 19, 70, 90), 3, 0.2, CollapsedTiling(8, 1, 2)),
    "wide": ((1, 10, 7, 250, 300), 2, 0.04, CollapsedTiling(16, 0, 3)),
}


@needs_triton
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "odd" else pytest.mark.slow) for name in CASES]
)
def test_kernel_equals_the_reference(name, getkey):
    """The rounded forces, judged by the reference's exact energies. Forces of 8 bits would be noticed."""
    shape, num_leapfrog, step, tiling = CASES[name]
    lanes = lane(make_collapsed(getkey(), shape, step))
    moves, expected = interpret(lanes, num_leapfrog, tiling=tiling), rounded_moves(lanes, num_leapfrog)
    # Sums in another order: rarely, a value rounds to its other neighbour.
    assert_same(moves, expected, 3e-4)
    assert np.median(np.abs(moves.eps - expected.eps)) < 1e-5
    crude = rounded_moves(lanes, num_leapfrog, rounded=bfloat16)
    assert np.median(np.abs(moves.eps[0, 0] - crude.eps[0, 0])) > 2e-5
    assert np.any(moves.accepted)


@needs_triton
def test_energies_have_the_accuracy_of_float32(getkey):
    """Also where the Gram matrix exceeds float16's range. Float16 alone would miss by more than the gains."""
    inputs = make_collapsed(getkey(), (1, 16, 10, 40, 200), 2e-4, sharpness=500.0)
    assert np.max(inputs.gram) > 65504
    moves = interpret(lane(inputs), 1)
    expected = rounded_moves(lane(inputs), 1)
    visible = (expected.probability > 0.01) & (expected.probability < 1)
    assert np.sum(visible) >= 4
    gap = np.abs(np.log(moves.probability[visible]) - np.log(expected.probability[visible]))
    assert np.median(gap) < 3e-3
    assert np.max(gap) < 2e-2


@needs_triton
@pytest.mark.slow
def test_lanes_and_their_steps(getkey):
    """Two lanes of one program each; without adaptation the moves differ."""
    keys = jax.random.split(getkey(), 2)
    lanes = jax.vmap(lambda key: make_collapsed(key, (4, 5, 3, 20, 30), 0.5))(keys)
    expected = rounded_moves(lanes, 2, RULE)
    assert len(np.unique(expected.step)) > 2
    assert_same(interpret(lanes, 2, RULE), expected, 3e-4)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(interpret(lanes, 2).eps, expected.eps, atol=1e-2)


@needs_triton
def test_programs_of_a_lane_share_their_acceptance(getkey):
    """The first program of two, where the other has arrived in all moves and added its accepted moves."""
    lanes = lane(make_collapsed(getkey(), (3, 13, 3, 20, 30), 0.5))
    expected = rounded_moves(lanes, 2, RULE)
    others = np.asarray(expected.accepted[0, :2, 8:]).sum(-1) + 2**16
    arrived = np.concatenate([[0], others]).astype(np.int32)
    moves = interpret(lanes, 2, RULE, arrived=arrived)
    own = lambda moves: Moves(*(array[:, :, :8] for array in moves[:4]), moves.step)
    assert_same(own(moves), own(expected), 3e-4)
    accepted = np.asarray(expected.accepted[0, :2]).sum(-1)
    np.testing.assert_array_equal(arrived, np.concatenate([[1], 2 * 2**16 + accepted]))


@needs_triton
def test_density_that_overflows_is_rejected_and_counted(getkey):
    inputs = make_collapsed(getkey(), (2, 3, 3, 20, 30))
    inputs = inputs._replace(momenta=inputs.momenta.at[0, 1].set(1e25), slope=inputs.slope.at[2].set(jnp.nan))
    moves = interpret(lane(inputs), 2)
    bad = np.array([[False, True, True], [False, False, True]])
    np.testing.assert_array_equal(moves.bad[0], bad)
    assert not np.any((moves.accepted + moves.probability)[0][bad])
    np.testing.assert_array_equal(moves.eps[0, 0, 1], inputs.eps[1])
    assert np.all(np.isfinite(moves.eps))


def test_reference_is_the_density_before_the_collapse(x64, getkey):
    """With z = A φ(ε) + r: the difference of two points' log densities."""
    keys = jax.random.split(getkey(), 4)
    inputs = make_collapsed(getkey(), (1, 6, 4, 10, 50))
    readout, noise = jax.random.normal(keys[0], (50, 10)), jax.random.normal(keys[1], (6, 50))
    inputs = inputs._replace(slope=noise @ readout, gram=readout.T @ readout)

    def features(eps):
        first = jax.nn.relu(eps @ inputs.w1.T + inputs.first_bias)
        return jax.nn.relu(first @ inputs.w2.T + inputs.b2[None])

    def before(eps):
        rest = features(inputs.eps) @ readout.T + noise - features(eps) @ readout.T
        return -0.5 * jnp.sum(rest**2, 1) - 0.5 * jnp.sum(eps**2, 1)

    other = jax.random.normal(keys[2], (6, 4))
    gain = lambda density: density(other) - density(inputs.eps)
    np.testing.assert_allclose(gain(lambda eps: log_density(inputs, eps)), gain(before), rtol=1e-6)


EXACT = np.concatenate([np.zeros(2), np.ones(6)])


def test_rounded_forces_leave_the_distribution_invariant(getkey):
    """The control: without the energies (uniform numbers of 0 accept everything) they do not."""
    inputs = make_collapsed(getkey(), (4, 20_000, 2, 16, 40), 0.15)
    run = jax.jit(lambda inputs: reference_moves(inputs, 3, force=collapsed_force(inputs)))
    moves = run(inputs)
    assert 0.2 < np.mean(moves.probability) < 0.95
    assert_mean(residual_moments(inputs, moves), EXACT, max_stderr=0.02)
    assert_not_mean(residual_moments(inputs, run(inputs._replace(uniforms=0 * inputs.uniforms))), EXACT)


@pytest.mark.slow
def test_lanes_share_a_launch_and_many_chains_take_several(monkeypatch, getkey):
    """The reference in the kernel's place, under vmap."""
    made = []

    def launch(call):
        num_lanes = len(call.arrays[0])
        if num_lanes == 2:
            made.append(call)
        here = jax.tree.map(lambda array: array[:num_lanes], lanes)
        last = dict(zip(("eps", "momenta", "uniforms", "step"), call.arrays, strict=False))
        rule = Adaptation(*(call.constants[name] for name in ("ADAPTED", "RATE", "TARGET")))
        return jax.vmap(lambda inputs: reference_moves(inputs, 2, rule))(here._replace(**last))

    monkeypatch.setattr(launch_module, "launch", launch)
    lanes = jax.vmap(lambda key: make_collapsed(key, (3, 9, 3, 20, 30)))(jax.random.split(getkey(), 2))
    run = jax.vmap(lambda inputs: collapsed_moves(inputs, 2, RULE))
    expected = jax.vmap(lambda inputs: reference_moves(inputs, 2, RULE))(lanes)
    assert_same(run(lanes), expected, 1e-5)
    assert [call.grid for call in made] == [(4,)]
    monkeypatch.setattr(launch_module, "MOST_WAITING", 1)
    assert_same(run(lanes), expected, 1e-5)
    assert [call.constants["T"] for call in made[1:]] == [1, 1, 1]


def test_wrong_inputs_are_refused(getkey):
    assert not collapsed_misfit(128, 256)
    assert collapsed_misfit(129, 20) == "expected E of at most 128, got 129"
    shapes = lambda *shape: jax.eval_shape(lambda key: make_collapsed(key, shape), getkey())
    with pytest.raises(ValueError, match="expected H of at most 256"):
        collapsed_moves(shapes(1, 2, 3, 257, 30), 1)
    inputs = shapes(1, 2, 3, 20, 30)
    assert isinstance(inputs, CollapsedInputs)
    with pytest.raises(ValueError, match="expected `slope` of shape"):
        collapsed_moves(inputs._replace(slope=inputs.origin.update(shape=(3, 20))), 1)
    with pytest.raises(ValueError, match="map over lanes with jax.vmap"):
        collapsed_moves(jax.tree.map(lambda a: a.update(shape=(1, *a.shape)), inputs), 1)
