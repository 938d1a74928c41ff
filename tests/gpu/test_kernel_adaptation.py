"""Step sizes that change after the first moves of the fused kernel, in one launch and in several."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.gpu.interpreter import assert_same, interpret, needs_triton
from tests.gpu.kernel_inputs import make_inputs, rounded_force
from uivi.gpu import Adaptation, MoveInputs, Moves, fused_moves, reference_moves
from uivi.gpu import launch as launch_module

RULE = Adaptation(2, rate=0.5, target=0.9)


def adapted_lanes(key, num_chains) -> tuple[MoveInputs, Moves]:
    """Two lanes with four moves; the first two change the step size a lot."""
    shape = (4, num_chains, 3, 20, 2)
    lanes = jax.vmap(lambda key: make_inputs(key, shape, 0.6))(jax.random.split(key, 2))
    reference = lambda inputs: reference_moves(inputs, 2, RULE, force=rounded_force(inputs))
    expected = jax.jit(jax.vmap(reference))(lanes)
    assert not np.allclose(expected.step[:, 0], expected.step[:, 1])
    np.testing.assert_array_equal(expected.step[:, 1:], expected.step[:, [1]].repeat(3, 1))
    assert np.any(expected.step[0] != expected.step[1])
    return lanes, expected


@needs_triton
@pytest.mark.slow
def test_steps_follow_the_lanes_acceptance(getkey):
    """One program per lane, with no other to wait for; without adaptation the moves differ."""
    lanes, expected = adapted_lanes(getkey(), 7)
    assert_same(interpret(lanes, 2, RULE), expected, 3e-4)
    fixed = interpret(lanes, 2)
    np.testing.assert_array_equal(fixed.step, np.asarray(lanes.step)[:, None].repeat(4, 1))
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(fixed.eps, expected.eps, atol=3e-2)


@needs_triton
def test_programs_of_a_lane_share_their_acceptance(getkey):
    """One program of two, where the other has arrived in all moves and added its accepted moves.

    The number of programs that have started decides which one it is. Three have: it is the second program of
    the second lane.
    """
    lanes, expected = adapted_lanes(getkey(), 14)
    others = np.asarray(expected.accepted[1, :2, :8]).sum(-1).astype(np.int32)
    arrived = np.concatenate([[3], [0, 0], others + 2**16]).astype(np.int32)
    moves = interpret(lanes, 2, RULE, arrived=arrived)
    own = lambda moves: Moves(*(array[1:, :, 8:] for array in moves[:4]), expected.step)
    assert_same(own(moves), own(expected), 3e-4)
    assert np.all(np.isnan(moves.eps[0]))
    assert np.all(np.isnan(moves.eps[1, :, :8]))
    accepted = np.asarray(expected.accepted[1, :2]).sum(-1)
    np.testing.assert_array_equal(arrived, np.concatenate([[4], [0, 0], 2 * 2**16 + accepted]))


@needs_triton
def test_the_first_program_of_a_lane_writes_its_steps(getkey):
    lanes, expected = adapted_lanes(getkey(), 14)
    others = np.asarray(expected.accepted[0, :2, 8:]).sum(-1).astype(np.int32)
    arrived = np.concatenate([[0], others + 2**16, [0, 0]]).astype(np.int32)
    moves = interpret(lanes, 2, RULE, arrived=arrived)
    np.testing.assert_allclose(moves.step[0], expected.step[0], rtol=1e-6)


@pytest.fixture
def launches(monkeypatch):
    """All launches; the reference takes the place of the kernel."""
    made = []

    def launch(call):
        made.append(call)
        rule = Adaptation(*(call.constants[name] for name in ("ADAPTED", "RATE", "TARGET")))
        return jax.vmap(lambda inputs: reference_moves(inputs, 2, rule))(MoveInputs(*call.arrays[:-1]))

    monkeypatch.setattr(launch_module, "launch", launch)
    return made


@pytest.mark.parametrize(
    ("num_adapted", "sizes"), [(0, [4]), (2, [1, 1, 2]), (4, [1, 1, 1, 1]), (9, [1, 1, 1, 1])]
)
def test_too_many_programs_take_a_launch_for_each_adapted_move(
    num_adapted, sizes, launches, monkeypatch, getkey
):
    monkeypatch.setattr(launch_module, "MOST_WAITING", 1)
    lanes, rule = adapted_lanes(getkey(), 18)[0], RULE._replace(num_moves=num_adapted)
    moves = jax.vmap(lambda inputs: fused_moves(inputs, 2, rule))(lanes)
    made = [call.constants for call in launches[-len(sizes) :]]
    assert [constants["T"] for constants in made] == sizes
    assert not any(constants["ADAPTED"] for constants in made)
    assert_same(moves, jax.vmap(lambda inputs: reference_moves(inputs, 2, rule))(lanes), 1e-5)


@pytest.mark.parametrize(
    ("num_lanes", "num_chains", "programs", "num_adapted"),
    [
        pytest.param(1, 100, 13, 2, id="one fit"),
        pytest.param(10, 100, 10 * 13, 2, id="ten fits"),
        pytest.param(32, 100, 32 * 7, 2, id="more programs than processors"),
        pytest.param(1, 1_000, 63, 2, id="many chains"),
        pytest.param(1, 1_100, 69, 0, id="too many chains to wait for"),
    ],
)
def test_the_programs_of_a_lane_run_all_at_once(num_lanes, num_chains, programs, num_adapted, launches, getkey):
    inputs = make_inputs(getkey(), (3, num_chains, 10, 200, 10))
    lanes = jax.tree.map(lambda array: jnp.broadcast_to(array, (num_lanes, *array.shape)), inputs)
    jax.eval_shape(jax.vmap(lambda inputs: fused_moves(inputs, 2, RULE)), lanes)
    assert launches[-1].grid == (programs,)
    assert launches[-1].constants["ADAPTED"] == num_adapted
