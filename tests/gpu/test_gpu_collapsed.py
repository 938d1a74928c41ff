"""The kernel of collapsed densities on a real GPU (`make gpu-test`): the same moves, the same distribution."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.gpu.collapsed_inputs import collapsed_force, make_collapsed, residual_moments
from tests.gpu.kernel_inputs import bfloat16, float16
from uivi import gpu
from uivi.gpu import CollapsedTiling
from uivi.presets import regression
from uivi.reverse import HMC, FixedStep
from uivi.reverse.base import sample_reverse
from uivi.testing import assert_mean, assert_not_mean, draw_pairs

pytestmark = pytest.mark.skipif(not gpu.is_available(), reason="needs a Hopper GPU and uivi[gpu]")
# (T, N, E, H, D), step.
SHAPES = {"paper": ((10, 60, 100, 200, 800), 0.05), "odd": ((3, 37, 3, 50, 90), 0.1)}
ADAPTED = gpu.Adaptation(5, rate=0.1, target=0.5)


@pytest.fixture(autouse=True)
def float32_products():
    """The reference must not be rounded."""
    with jax.default_matmul_precision("highest"):
        yield


@pytest.mark.parametrize(
    "tiling", [CollapsedTiling(), CollapsedTiling(8, 7, 13), CollapsedTiling(16, 0, 4, ".cg")]
)
@pytest.mark.parametrize("name", SHAPES)
def test_the_first_move_equals_the_reference(name, tiling, getkey):
    """In nearly all chains: sums in another order now and then put a unit on the other side of its kink."""
    shape, step = SHAPES[name]
    inputs = make_collapsed(getkey(), shape, step)
    moves = jax.jit(lambda i: gpu.collapsed_moves(i, 5, tiling=tiling))(inputs)

    def distance(rounded):
        force = lambda i: collapsed_force(i, rounded)
        expected = jax.jit(lambda i: gpu.reference_moves(i, 5, force=force(i)))(inputs)
        same = np.asarray(moves.accepted[0] == expected.accepted[0])
        gaps = np.abs(np.asarray(moves.eps[0] - expected.eps[0]))[same]
        probabilities = np.abs(np.asarray(moves.probability[0] - expected.probability[0]))
        return same.mean(), np.median(gaps), np.quantile(probabilities, 0.9)

    same, gap, probability = distance(float16)
    assert same > 0.95
    assert gap < 5e-5
    assert probability < 5e-3
    assert 0.02 < float(moves.probability.mean()) < 0.999
    assert distance(bfloat16)[1] > 1e-4, "forces of 8 bits went unnoticed"


@pytest.mark.parametrize(("num_lanes", "num_chains"), [(1, 1), (1, 4), (5, 3), (2, 60)])
def test_steps_follow_the_acceptance_of_all_programs(num_lanes, num_chains, getkey):
    """Repeated many times: no count may be missed."""
    shape = (10, num_chains, 10, 60, 100)
    lanes = jax.vmap(lambda key: make_collapsed(key, shape, 0.1))(jax.random.split(getkey(), num_lanes))

    def run(key):
        momenta = jax.random.normal(key, lanes.momenta.shape)
        one = lambda inputs: gpu.collapsed_moves(inputs, 5, ADAPTED)
        moves = jax.vmap(one)(lanes._replace(momenta=momenta))
        return moves.accepted.mean(-1), moves.step

    keys = jax.random.split(getkey(), 200)
    share, steps = map(np.asarray, jax.jit(lambda keys: jax.lax.map(run, keys))(keys))
    expected = np.asarray(lanes.step)[None]
    for number in range(10):
        if number < ADAPTED.num_moves:
            expected = expected * (1 + 0.1 * (share[..., number] - 0.5) / 0.5)
        np.testing.assert_allclose(steps[..., number], expected, rtol=1e-5)
    assert np.std(steps[..., 0]) > 1e-5


def test_moments_stay_exact_because_of_the_energies(getkey):
    """Chains start in the joint of (ε, z), with many rejections; without rejections they drift."""
    inputs = make_collapsed(getkey(), (3, 20_000, 4, 60, 100), 0.22)
    run = jax.jit(lambda inputs: gpu.collapsed_moves(inputs, 3))
    made = run(inputs)
    exact = np.concatenate([np.zeros(4), np.ones(8)])
    assert 0.2 < float(made.probability.mean()) < 0.95
    assert_mean(residual_moments(inputs, made), exact, max_stderr=0.02)
    all_accepted = run(inputs._replace(uniforms=0 * inputs.uniforms))
    assert_not_mean(residual_moments(inputs, all_accepted), exact)


def test_the_papers_regression_uses_it_and_moves_like_plain_hmc(getkey):
    """Chosen by default. One move from the same draws with the same keys agrees in nearly all chains."""
    family = regression.paper_family(getkey(), 7850)
    pairs, key, step = draw_pairs(getkey(), family, 32), getkey(), 1e-3
    text = lambda sampler: str(jax.make_jaxpr(functools.partial(run, sampler))(pairs))

    def run(sampler, draws):
        return sample_reverse(key, sampler, family, draws, None, jnp.asarray(step)).draws.last

    chosen, plain = (HMC(0, 1, 5, FixedStep(step), is_fused) for is_fused in (None, False))
    assert "triton_kernel_call" in text(chosen)
    assert "triton_kernel_call" not in text(plain)
    moved = np.asarray(jax.jit(functools.partial(run, chosen))(pairs))
    expected = np.asarray(jax.jit(functools.partial(run, plain))(pairs))
    assert np.any(moved != np.asarray(pairs.eps))
    gaps = np.median(np.abs(moved - expected), 1) / np.median(np.abs(expected - np.asarray(pairs.eps)))
    # The forces account for about 0.2 of the distance.
    assert np.mean(gaps < 0.01) > 0.9
