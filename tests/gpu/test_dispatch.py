"""HMC by the fused kernel gives the same chains as plain HMC; test_kernels.py tests the kernel itself."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from uivi import gpu
from uivi.families import Gaussian, Laplace, LogScale, RawScale, SemiImplicit, StandardNormal
from uivi.gpu import dispatch
from uivi.networks import MLP, Linear
from uivi.reverse import HMC, AdaptBetween, AuthorsRule
from uivi.reverse.base import sample_reverse
from uivi.targets import Banana
from uivi.testing import draw_pairs
from uivi.training.update import Method, copied, initial_state, run_updates, stack_states, unstack_states

NUM_CHAINS, CONTEXT = 7, 4
RULES = {"authors": AuthorsRule(0.3), "between": AdaptBetween(0.3)}


def make_family(key, activation=jax.nn.relu, *, dim=2, **sizes):
    options = {"width": 9, "context_dim": CONTEXT, "activation": activation} | sizes
    net = MLP.create(key, 3, dim, **options)
    return SemiImplicit(StandardNormal(3), Gaussian(net, RawScale.create(dim)))


@pytest.fixture
def pretend(monkeypatch):
    """A GPU whose kernel is the plain reference."""
    monkeypatch.setattr(dispatch, "is_available", lambda: True)
    monkeypatch.setattr(dispatch, "fused_moves", gpu.reference_moves)
    monkeypatch.setattr(dispatch, "collapsed_moves", gpu.reference_moves)


@pytest.mark.parametrize(
    ("dim", "width", "is_collapsed"),
    [(2, 9, False), (40, 9, True), (70, 20, False)],
    ids=["whole", "collapsed", "plain density, collapsed kernel"],
)
@pytest.mark.parametrize("rule", RULES)
def test_the_kernel_runs_the_same_chains(rule, dim, width, is_collapsed, pretend, getkey):
    family = make_family(getkey(), dim=dim, width=width)
    contexts = jax.random.normal(getkey(), (NUM_CHAINS, CONTEXT))
    assert family.conditional.is_collapsed == is_collapsed
    pairs, key = draw_pairs(getkey(), family, NUM_CHAINS, contexts), getkey()
    made = []
    for is_fused in (True, False):
        sampler = HMC(2, 3, 4, RULES[rule], is_fused)
        made.append(sample_reverse(key, sampler, family, pairs, contexts, sampler.init(key, family)))
    fused, plain = made
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5), fused, plain)
    assert jax.tree.map(jnp.shape, fused) == jax.tree.map(jnp.shape, plain)
    assert np.any(np.asarray(fused.draws.last) != np.asarray(pairs.eps))
    assert fused.state != sampler.init(key, family)


def test_the_papers_regression_is_collapsed_and_runs_by_the_kernel(pretend, monkeypatch, getkey):
    """One chain without a context, chosen without being asked for."""
    shapes = []

    def moves(inputs, *options):
        shapes.append((type(inputs), inputs.gram.shape, inputs.slope.shape))
        return gpu.reference_moves(inputs, *options)

    monkeypatch.setattr(dispatch, "collapsed_moves", moves)
    family = uivi.presets.regression.paper_family(getkey(), 7850)
    pairs, key = draw_pairs(getkey(), family, 1), getkey()
    run = lambda is_fused: jax.eval_shape(
        lambda pairs: sample_reverse(key, HMC(is_fused=is_fused), family, pairs, None, jnp.asarray(0.01)), pairs
    )
    assert run(None) == run(False)
    assert shapes == [(gpu.CollapsedInputs, (200, 200), (1, 200))]


def test_a_family_without_context_and_fits_side_by_side(pretend, getkey):
    family = make_family(getkey(), context_dim=0)
    method = Method(uivi.UIVI(5, HMC(1, 1, 2, AuthorsRule(0.3), True)), uivi.presets.paper_optimizer(1))
    states = [initial_state(getkey(), method, family, Banana()) for _ in range(2)]
    single, _ = run_updates(method, copied(states[1]), 3)
    both, _ = run_updates(method, stack_states(states), 3)
    weights = [state.family.conditional.net.layers[1].weight for state in (single, unstack_states(both)[1])]
    np.testing.assert_allclose(*weights, rtol=1e-3, atol=1e-5)


def paper_like(key, noise_dim):
    net = MLP.create(key, noise_dim, 40, context_dim=CONTEXT, width=9)
    return SemiImplicit(StandardNormal(noise_dim), Gaussian(net, RawScale.create(40)))


def laplace(key):
    family = make_family(key)
    return SemiImplicit(family.mixing, Laplace(family.conditional.net, family.conditional.scale))


def uneven(key):
    """Hidden layers of 9 and 5 units."""
    family = make_family(key)
    first, second, last = family.conditional.net.layers
    layers = (first, Linear(second.weight[:5], second.bias[:5]), Linear(last.weight[:, :5], last.bias))
    return eqx.tree_at(lambda f: f.conditional.net.layers, family, layers)


OBSTACLES = {
    "tanh": (lambda k: make_family(k, jnp.tanh), "exactly two hidden ReLU layers, without a skip"),
    "deep": (lambda k: make_family(k, depth=3), "exactly two hidden ReLU layers, without a skip"),
    "skip": (lambda k: make_family(k, skip=jnp.eye(2, 3)), "exactly two hidden ReLU layers, without a skip"),
    "uneven": (uneven, "different widths, 9 and 5"),
    "Laplace": (laplace, "not a Gaussian conditional with standard normal noise"),
    "wide noise": (lambda k: paper_like(k, 129), "expected E of at most 128"),
    "wide": (lambda k: make_family(k, width=300), "at most 256"),
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_what_does_not_fit_runs_plainly_or_says_why(name, pretend, getkey):
    make, message = OBSTACLES[name]
    family = make(getkey())
    contexts = jnp.zeros((NUM_CHAINS, CONTEXT))
    pairs = draw_pairs(getkey(), family, NUM_CHAINS, contexts)
    run = lambda sampler: sample_reverse(getkey(), sampler, family, pairs, contexts, jnp.asarray(0.1))
    assert run(HMC(1, 1, 1)).draws.eps.shape == (NUM_CHAINS, 1, family.noise_dim)
    with pytest.raises(ValueError, match=message):
        run(HMC(1, 1, 1, is_fused=True))


def test_without_a_gpu_the_kernel_is_not_chosen(getkey):
    family = SemiImplicit(StandardNormal(3), Gaussian(MLP.create(getkey(), 3, 2), LogScale.create(2)))
    pairs = draw_pairs(getkey(), family, NUM_CHAINS)
    if not gpu.is_available():
        with pytest.raises(ValueError, match="Hopper GPU"):
            sample_reverse(getkey(), HMC(is_fused=True), family, pairs, None, jnp.asarray(0.1))
