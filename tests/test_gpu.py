"""The fused kernel on a real GPU (`make gpu-test`): the same moves, the same law, the same fits."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import assert_mean, draw_pairs
from tests.kernel_inputs import make_inputs, rounded_force
from uivi import kernels, loop, metrics, presets
from uivi.estimators import UIVI
from uivi.presets import vae
from uivi.reverse import HMC, AdaptBetween, FixedStep
from uivi.reverse.base import sample_reverse
from uivi.targets import Banana

pytestmark = pytest.mark.skipif(not kernels.is_available(), reason="needs a Hopper GPU and uivi[gpu]")
PAPER = (10, 100, 10, 200, 10)
SHAPES = {"paper": PAPER, "odd": (3, 37, 3, 50, 2), "wide noise": (2, 20, 40, 100, 5)}


@pytest.fixture(autouse=True)
def float32_products():
    """The reference must not be rounded."""
    with jax.default_matmul_precision("highest"):
        yield


@pytest.mark.parametrize("energy", ["f16x3", "tf32x3"])
@pytest.mark.parametrize("name", SHAPES)
def test_the_first_move_is_that_of_the_reference(name, energy, getkey):
    """Later moves may part: an acceptance probability next to its uniform number falls to either side."""
    inputs = make_inputs(getkey(), SHAPES[name], 0.1)
    moves = jax.jit(lambda i: kernels.fused_moves(i, 5, energy=energy))(inputs)
    expected = jax.jit(lambda i: kernels.reference_moves(i, 5, rounded_force(i)))(inputs)
    np.testing.assert_allclose(moves.probability[0], expected.probability[0], atol=2e-3)
    same = np.asarray(moves.accepted[0] == expected.accepted[0])
    assert same.mean() > 0.95
    gap = np.abs(np.asarray(moves.eps[0] - expected.eps[0]))[same]
    assert gap.max() < 5e-3
    assert abs(float(moves.probability.mean() - expected.probability.mean())) < 0.02


def test_lanes_of_one_launch_are_those_of_several(getkey):
    lanes = [make_inputs(getkey(), PAPER, 0.1) for _ in range(3)]
    run = jax.jit(lambda i: kernels.fused_moves(i, 5))
    together = jax.jit(jax.vmap(lambda i: kernels.fused_moves(i, 5)))(
        jax.tree.map(lambda *x: jnp.stack(x), *lanes)
    )
    for number, lane in enumerate(lanes):
        np.testing.assert_array_equal(together.eps[number], run(lane).eps)


def test_pairs_keep_their_law(getkey):
    """Moments of (z, ε′) minus those of (z, ε), pair by pair, for the paper's family."""
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


def test_fits_end_at_the_same_place():
    """KL of five banana fits each, with the kernel and without."""
    found = []
    for is_fused in (True, False):
        sampler = HMC(5, 5, 5, AdaptBetween(), is_fused=is_fused)
        method = loop.Method(UIVI(64, sampler), presets.default_optimizer(3_000))
        family = lambda key: presets.paper_family(key, 2)
        keys = jax.random.split(jax.random.key(7), 5)
        state = loop.stack([loop.init(key, method, family(key), Banana()) for key in keys])
        ended, _ = loop.run(method, state, 3_000)
        found.append([metrics.kl_quadrature(fit.family, Banana()).kl for fit in loop.unstack(ended)])
    fused, plain = np.array(found)
    stderr = np.sqrt((fused.var(ddof=1) + plain.var(ddof=1)) / 5)
    assert abs(fused.mean() - plain.mean()) < 4 * stderr, (fused, plain)
