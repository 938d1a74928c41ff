"""The fused kernel on a real GPU (`make gpu-test`): the same moves, the same distribution, the same fits."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi.gpu.launch
from tests.gpu.kernel_inputs import bfloat16, float16, make_inputs, moments, rounded_force
from uivi import gpu, presets
from uivi.estimators import UIVI
from uivi.evaluation import metrics
from uivi.presets import vae
from uivi.reverse import HMC, AdaptBetween, FixedStep
from uivi.reverse.base import sample_reverse
from uivi.targets import Banana
from uivi.testing import assert_mean, assert_not_mean, draw_pairs
from uivi.training.update import Method, initial_state, run_updates, stack_states, unstack_states

pytestmark = pytest.mark.skipif(not gpu.is_available(), reason="needs a Hopper GPU and uivi[gpu]")
PAPER = (10, 100, 10, 200, 10)
SHAPES = {"paper": PAPER, "odd": (3, 37, 3, 50, 2), "wide noise": (2, 20, 40, 100, 5)}


@pytest.fixture(autouse=True)
def float32_products():
    """The reference must not be rounded."""
    with jax.default_matmul_precision("highest"):
        yield


def gaps(moves, expected):
    """The first move: median distance of ends with the same decision, 90% quantile of probability gaps."""
    same = np.asarray(moves.accepted[0] == expected.accepted[0])
    assert same.mean() > 0.95
    distance = np.abs(np.asarray(moves.eps[0] - expected.eps[0]))[same]
    return np.median(distance), np.quantile(np.abs(moves.probability[0] - expected.probability[0]), 0.9)


@pytest.mark.parametrize("energy", ["f16x3", "tf32x3"])
@pytest.mark.parametrize("name", SHAPES)
def test_the_first_move_equals_the_reference(name, energy, getkey):
    """In nearly all chains.

    Sums of the tensor cores are off by 1e-6, which now and then puts a unit on the other side of its kink. The
    rest of that trajectory then moves by up to 0.01.

    Later moves diverge: an acceptance probability next to its uniform number falls to either side.
    """
    inputs = make_inputs(getkey(), SHAPES[name], 0.1)
    moves = jax.jit(lambda i: gpu.fused_moves(i, 5, energy=energy))(inputs)
    reference = lambda rounded: jax.jit(lambda i: gpu.reference_moves(i, 5, force=rounded_force(i, rounded)))(
        inputs
    )
    expected = reference(float16)
    distance, probability = gaps(moves, expected)
    assert distance < 5e-5
    assert probability < 2e-3
    assert abs(float(moves.probability.mean() - expected.probability.mean())) < 0.02
    assert gaps(moves, reference(bfloat16))[0] > 1e-4, "forces of 8 bits went unnoticed"


ADAPTED = gpu.Adaptation(5, rate=0.1, target=0.5)


def adapted_lanes(key, num_lanes):
    return jax.vmap(lambda key: make_inputs(key, PAPER, 0.3))(jax.random.split(key, num_lanes))


@pytest.mark.parametrize("num_lanes", [1, 2, 5, 6])
def test_steps_follow_the_acceptance_of_all_programs(num_lanes, getkey):
    """Repeated many times: no count may be missed."""
    lanes = adapted_lanes(getkey(), num_lanes)

    def run(key):
        momenta = jax.random.normal(key, lanes.momenta.shape)
        moves = jax.vmap(lambda inputs: gpu.fused_moves(inputs, 5, ADAPTED))(lanes._replace(momenta=momenta))
        return moves.accepted.mean(-1), moves.step

    share, steps = map(
        np.asarray, jax.jit(lambda keys: jax.lax.map(run, keys))(jax.random.split(getkey(), 200))
    )
    expected = np.asarray(lanes.step)[None]
    for number in range(PAPER[0]):
        if number < ADAPTED.num_moves:
            expected = expected * (1 + 0.1 * (share[..., number] - 0.5) / 0.5)
        np.testing.assert_allclose(steps[..., number], expected, rtol=1e-5)
    assert np.std(steps[..., 0]) > 1e-4


@pytest.mark.parametrize("num_lanes", [5, 40])
def test_one_launch_makes_the_moves_of_several(num_lanes, monkeypatch, getkey):
    """The second move of every program uses the step size that the first one chose."""
    lanes = adapted_lanes(getkey(), num_lanes)
    run = lambda rule: jax.jit(jax.vmap(lambda inputs: gpu.fused_moves(inputs, 5, rule)))(lanes)
    together, fixed = run(ADAPTED), run(None)
    monkeypatch.setattr(uivi.gpu.launch, "MOST_WAITING", 0)
    apart = run(ADAPTED)
    alike = np.all(np.asarray(together.accepted[:, 0] == apart.accepted[:, 0]), -1)
    assert np.sum(alike) >= 3
    np.testing.assert_allclose(together.step[alike, 0], apart.step[alike, 0], rtol=1e-6)

    def distances(moves):
        gap = np.abs(np.asarray(moves.eps - apart.eps))[alike, 1, :96]
        return np.median(gap.reshape(-1, 8 * 10), -1)

    assert distances(together).max() < 1e-4
    # Not in all programs: where most chains stay, a wrong step size changes little.
    assert np.mean(distances(fixed) > 1e-3) > 0.95, "a wrong step went unnoticed"


def test_lanes_of_one_launch_equal_several_launches(getkey):
    lanes = [make_inputs(getkey(), PAPER, 0.1) for _ in range(3)]
    run = jax.jit(lambda i: gpu.fused_moves(i, 5))
    together = jax.jit(jax.vmap(lambda i: gpu.fused_moves(i, 5)))(jax.tree.map(lambda *x: jnp.stack(x), *lanes))
    for number, lane in enumerate(lanes):
        np.testing.assert_array_equal(together.eps[number], run(lane).eps)


def test_pairs_keep_their_distribution(getkey):
    """Moments of (z, ε′) minus moments of (z, ε), pair by pair, for the paper's family."""
    family = vae.paper_family(getkey(), vae.LATENT_DIM)
    contexts = jax.random.bernoulli(getkey(), 0.2, (20_000, vae.PIXELS)).astype(float)
    pairs = draw_pairs(getkey(), family, contexts.shape[0], contexts)
    sampler = HMC(2, 3, 5, FixedStep(0.02), is_fused=True)
    reverse = jax.jit(functools.partial(sample_reverse, sampler=sampler, family=family))
    made = reverse(getkey(), draws=pairs, contexts=contexts, state=jnp.asarray(0.02))
    assert 0.5 < float(made.info.acceptance.mean()) < 0.999
    moments = lambda z, e: jnp.concatenate([e, e**2, jnp.sin(3 * e), jnp.outer(e, z[:3]).ravel()])
    change = jax.vmap(moments)(pairs.z, made.draws.last) - jax.vmap(moments)(*pairs)
    assert float(jnp.abs(change).mean()) > 0.1
    assert_mean(np.asarray(change), 0.0, max_stderr=0.05)


def test_moments_stay_exact_because_of_the_energies(getkey):
    """Chains start in the joint of (ε, z), with many rejections; without rejections they drift."""
    inputs = make_inputs(getkey(), (3, 20_000, 10, 200, 10), 0.5)
    run = jax.jit(lambda inputs: gpu.fused_moves(inputs, 3))
    exact = np.repeat([0.0, 1.0, 1.0, 0.0], 10)
    made = run(inputs)
    assert 0.4 < float(made.probability.mean()) < 0.8
    assert_mean(moments(inputs, made), exact, max_stderr=0.02)
    all_accepted = run(inputs._replace(uniforms=0 * inputs.uniforms))
    assert_not_mean(moments(inputs, all_accepted), exact)


def test_fits_end_at_the_same_place():
    """KL of five banana fits each, with the kernel and without."""
    found = []
    for is_fused in (True, False):
        sampler = HMC(5, 5, 5, AdaptBetween(), is_fused=is_fused)
        method = Method(UIVI(64, sampler), presets.default_optimizer(3_000))
        family = lambda key: presets.paper_family(key, 2)
        keys = jax.random.split(jax.random.key(7), 5)
        state = stack_states([initial_state(key, method, family(key), Banana()) for key in keys])
        ended, _ = run_updates(method, state, 3_000)
        found.append([metrics.kl_quadrature(fit.family, Banana()).kl for fit in unstack_states(ended)])
    fused, plain = np.array(found)
    stderr = np.sqrt((fused.var(ddof=1) + plain.var(ddof=1)) / 5)
    assert abs(fused.mean() - plain.mean()) < 4 * stderr, (fused, plain)
