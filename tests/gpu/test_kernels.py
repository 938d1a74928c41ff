"""The fused HMC moves: the kernel in Triton's interpreter, the reference, the effect of rounding."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.gpu.interpreter import assert_same, interpret, lane, needs_triton
from tests.gpu.kernel_inputs import bfloat16, crude_force, make_inputs, moments, rounded_force, stiff_inputs
from uivi.families import MLP, Gaussian, LogScale, SemiImplicit, StandardNormal
from uivi.gpu import MoveInputs, Tiling, fused_moves, is_available, misfit, reference_moves
from uivi.gpu.launch import NUM_PROCESSORS, over_lanes
from uivi.gpu.moves import _tiling
from uivi.reverse import HMC, FixedStep
from uivi.reverse.hmc import _noise
from uivi.testing import assert_mean, assert_not_mean, compiled_reverse, draw_pairs

run_reference = jax.jit(reference_moves, static_argnums=(1, 2))


# (T, N, E, H, D), leapfrog steps, tiling: sizes other than powers of two, chains that do not fill a tile.
@needs_triton
@pytest.mark.parametrize(
    ("shape", "num_leapfrog", "tiling"),
    [
        ((1, 21, 3, 70, 5), 2, Tiling(rows=8, held=2, resident=1, num_warps=4)),
        ((2, 19, 17, 100, 33), 1, Tiling(rows=16, held=7, resident=7)),
        ((2, 5, 10, 200, 10), 2, None),
    ],
)
def test_kernel_equals_the_reference(shape, num_leapfrog, tiling, getkey):
    """The rounded forces, judged by the reference's exact energies."""
    inputs = make_inputs(getkey(), shape)
    rounded = reference_moves(inputs, num_leapfrog, force=rounded_force(inputs))
    for energy in ("f16x3", "tf32x3"):
        moves = interpret(lane(inputs), num_leapfrog, energy=energy, tiling=tiling)
        # Sums in another order: rarely, a value rounds to its other neighbour.
        assert_same(moves, lane(rounded), 3e-4)
        assert np.median(np.abs(moves.eps[0] - rounded.eps)) < 5e-6
    exact = run_reference(inputs, num_leapfrog)
    assert np.median(np.abs(rounded.eps - exact.eps)) > 1e-5, "no rounding took place"


@needs_triton
def test_energies_have_the_accuracy_of_float32(getkey):
    """Interpreted, "tf32x3" is float32. 17 bits would miss by 5e-3.

    The last force may differ where it rounds to its other neighbour.
    """
    inputs = stiff_inputs(getkey(), (1, 32, 10, 200, 10), step=0.015)
    cheap, exact = (interpret(lane(inputs), 1, energy=energy).probability for energy in ("f16x3", "tf32x3"))
    visible = (exact > 0.01) & (exact < 1)
    assert np.sum(visible) > 10
    gap = np.abs(np.log(cheap[visible]) - np.log(exact[visible]))
    assert np.median(gap) < 3e-4
    assert np.max(gap) < 3e-3


def test_rounded_force_costs_little_acceptance(getkey):
    """Even for a stiff conditional, where bfloat16 would cost much."""
    inputs = stiff_inputs(getkey(), (3, 500, 10, 100, 10), step=0.01)
    acceptance = lambda force: np.mean(
        jax.jit(lambda i: reference_moves(i, 5, force=force(i)))(inputs).probability
    )
    exact = np.mean(run_reference(inputs, 5).probability)
    assert 0.5 < exact < 0.99
    np.testing.assert_allclose(acceptance(rounded_force), exact, atol=0.03)
    assert acceptance(lambda inputs: rounded_force(inputs, bfloat16)) < exact - 0.1


def test_reference_is_the_hmc_of_the_library(x64, getkey):
    net = MLP.create(getkey(), 3, 2, context_dim=4, width=10)
    family = SemiImplicit(StandardNormal(3), Gaussian(net, LogScale.create(2, 0.4)))
    contexts = jax.random.normal(getkey(), (30, 4))
    pairs = draw_pairs(getkey(), family, 30, contexts)
    sampler = HMC(num_burnin=2, num_draws=4, num_leapfrog=3, step_size=FixedStep(0.4))
    key = getkey()
    run = compiled_reverse(key, sampler, family, pairs, contexts, sampler.init(key, family))
    keys = jax.vmap(lambda k: jax.random.split(k, 6), out_axes=1)(jax.random.split(key, 30))
    momenta, uniforms = jax.vmap(jax.vmap(_noise), in_axes=(0, None))(keys, pairs.eps)
    first, second, last = net.layers
    inputs = MoveInputs(
        eps=pairs.eps,
        momenta=momenta,
        uniforms=uniforms,
        step=jnp.asarray(0.4),
        first_bias=first.bias[None] + contexts @ net.context_weight.T,
        w1=first.weight,
        w2=second.weight,
        b2=second.bias,
        w3=last.weight,
        centre=pairs.z - last.bias[None],
        precision=family.conditional.scale() ** -2,
    )
    moves = run_reference(inputs, 3)
    np.testing.assert_allclose(jnp.swapaxes(moves.eps[2:], 0, 1), run.draws.eps, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(jnp.mean(moves.probability, 0), run.info.acceptance, rtol=1e-9)
    assert 0.3 < np.mean(moves.accepted) < 0.95
    assert not np.any(moves.bad)


EXACT_MOMENTS = np.repeat([0.0, 1.0, 1.0, 0.0], 2)
"""(ε, z) starts at the joint; a kernel that leaves q(ε|z) invariant keeps it there."""


@pytest.mark.parametrize("force", [rounded_force, crude_force])
def test_any_force_leaves_the_distribution_invariant(force, getkey):
    inputs = make_inputs(getkey(), (5, 20_000, 2, 16, 2), step=0.5)
    moves = jax.jit(lambda inputs: reference_moves(inputs, 3, force=force(inputs)))(inputs)
    assert 0.3 < np.mean(moves.probability) < 0.95
    assert_mean(moments(inputs, moves), EXACT_MOMENTS, max_stderr=0.02)


def test_without_the_energies_it_is_not_invariant(getkey):
    """Control: uniform numbers of 0 accept everything."""
    inputs = make_inputs(getkey(), (5, 20_000, 2, 16, 2), step=0.5)
    moves = reference_moves(inputs._replace(uniforms=0 * inputs.uniforms), 3, force=rounded_force(inputs))
    assert_not_mean(moments(inputs, moves), EXACT_MOMENTS)


def test_vmap_folds_all_lanes_into_one_launch(getkey):
    """Nested maps and inputs without a lane axis; the kernel's place is taken by the reference."""
    launches = []

    def launch(lanes):
        launches.append(lanes.eps.shape[0])
        return jax.vmap(lambda inputs: reference_moves(inputs, 2))(lanes)

    def one(eps, step):
        moves = over_lanes(launch)(lane(inputs._replace(eps=eps, step=step)))
        return jax.tree.map(lambda array: array[0], moves)

    inputs = make_inputs(getkey(), (2, 4, 3, 10, 2))
    eps = jax.random.normal(getkey(), (2, 3, 4, 3))
    steps = jnp.array([0.1, 0.2, 0.3])
    moves = jax.jit(jax.vmap(jax.vmap(one), in_axes=(0, None)))(eps, steps)
    assert launches[-1] == 6
    for i, j in np.ndindex(2, 3):
        expected = run_reference(inputs._replace(eps=eps[i, j], step=steps[j]), 2)
        assert_same(jax.tree.map(lambda array, at=(i, j): array[at], moves), expected, 1e-6)


@needs_triton
@pytest.mark.slow
def test_every_lane_has_its_own_program(getkey):
    shape = (1, 18, 3, 20, 2)
    lanes = jax.vmap(lambda key: make_inputs(key, shape))(jax.random.split(getkey(), 2))
    expected = jax.vmap(lambda inputs: reference_moves(inputs, 2, force=rounded_force(inputs)))(lanes)
    assert_same(interpret(lanes, 2), expected, 3e-4)


@needs_triton
@pytest.mark.parametrize("energy", ["f16x3", "tf32x3"])
def test_density_that_overflows_is_rejected_and_counted(energy, getkey):
    inputs = make_inputs(getkey(), (2, 5, 3, 20, 2))
    inputs = inputs._replace(momenta=inputs.momenta.at[0, 1].set(1e25), centre=inputs.centre.at[3].set(jnp.nan))
    moves, expected = interpret(lane(inputs), 2, energy=energy), run_reference(inputs, 2)
    bad = np.zeros((2, 5), bool)
    bad[0, 1] = bad[:, 3] = True
    for result in (jax.tree.map(lambda array: array[0], moves), expected):
        np.testing.assert_array_equal(result.bad, bad)
        assert not np.any(np.asarray(result.accepted + result.probability)[bad])
        np.testing.assert_array_equal(result.eps[0, 1], inputs.eps[1])
        assert np.all(np.isfinite(result.eps))


@needs_triton
@pytest.mark.parametrize("energy", ["f16x3", "tf32x3"])
def test_force_beyond_the_range_of_float16_is_rejected(energy, getkey):
    """The first move ends where activations exceed 65504: it is bad only if its value is not finite."""
    inputs = make_inputs(getkey(), (2, 5, 3, 20, 2))
    inputs = inputs._replace(momenta=inputs.momenta.at[0, 1].set(1e6))
    moves, expected = interpret(lane(inputs), 1, energy=energy), run_reference(inputs, 1)
    bad = np.zeros((2, 5), bool)
    bad[0, 1] = energy == "f16x3"
    np.testing.assert_array_equal(moves.bad[0], bad)
    assert not np.any(expected.bad)
    assert moves.probability[0, 0, 1] == 0
    np.testing.assert_array_equal(moves.eps[0, 0, 1], inputs.eps[1])
    assert np.all(np.isfinite(moves.eps))
    assert np.any(moves.accepted[0, 1])


def test_more_chains_than_processors_take_larger_tiles(getkey):
    inputs = jax.eval_shape(lambda key: make_inputs(key, (1, 100, 10, 200, 10)), getkey())
    lanes = lambda number: jax.tree.map(lambda a: jax.ShapeDtypeStruct((number, *a.shape), a.dtype), inputs)
    tilings = [_tiling(lanes(number), "f16x3", NUM_PROCESSORS) for number in (1, 10, 11)]
    assert tilings == [Tiling(8, 13, 12), Tiling(8, 13, 12), Tiling(16, 6, 2)]


def test_sizes_that_do_not_fit_are_refused(getkey):
    assert not misfit(64, 64, 128) + misfit(16, 16, 256)
    assert misfit(16, 17, 129) == "expected D of at most 16 (for H = 129), got 17"
    assert misfit(3, 2, 257) == "expected H of at most 256 (for H = 257), got 257"
    with pytest.raises(ValueError, match="expected E of at most 64"):
        fused_moves(jax.eval_shape(lambda key: make_inputs(key, (1, 4, 65, 20, 2)), getkey()), 1)


def test_wrong_inputs_are_refused(getkey):
    inputs = make_inputs(getkey(), (1, 4, 3, 20, 2))
    with pytest.raises(ValueError, match="expected `centre` of shape"):
        fused_moves(inputs._replace(centre=inputs.centre[:, :1]), 1)
    with pytest.raises(ValueError, match="expected `w2` in float32, got float16"):
        fused_moves(inputs._replace(w2=inputs.w2.astype(jnp.float16)), 1)
    with pytest.raises(ValueError, match="did you mean 'tf32x3'"):
        fused_moves(inputs, 1, energy="tf32")
    with pytest.raises(ValueError, match="map over lanes with jax.vmap"):
        fused_moves(lane(inputs), 1)


def test_importing_needs_neither_triton_nor_a_gpu():
    code = "import sys; sys.modules.update(triton=None, jax_triton=None); import uivi.gpu"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    assert not is_available()
