"""(z, ε′) must have the law of (z, ε) for every kernel that claims to be invariant."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from tests.reverse.faulty import HalvesISIR, NeverRejects
from tests.reverse.table import LEARNED, SAMPLERS
from uivi.families import (
    MLP,
    LinearGaussian,
    NetGaussian,
    SemiImplicit,
    StandardNormal,
    Uniform,
)
from uivi.reverse import ISIR, Compose, sample_reverse
from uivi.testing import (
    FAILURE_RATE,
    Blind,
    Negated,
    Stuck,
    assert_mean,
    assert_not_mean,
    compiled_reverse,
    draw_pairs,
    make_oracle,
    reverse_moments,
)

INVARIANT = [name for name, row in SAMPLERS.items() if row.invariant]
NUM_PAIRS = 20_000
MAX_STDERR = 0.012


@pytest.mark.parametrize("name", INVARIANT)
def test_pairs_keep_their_law(name, x64, getkey):
    oracle = make_oracle()
    sampler = SAMPLERS[name].make(2)
    state = SAMPLERS[name].state(getkey(), sampler, oracle.family)
    for moments in reverse_moments(getkey(), sampler, state, oracle.family, NUM_PAIRS):
        assert_mean(moments, 0.0, max_stderr=MAX_STDERR)


@pytest.mark.parametrize("sampler", [NeverRejects(), Blind(), Negated()], ids=lambda s: type(s).__name__)
def test_faulty_kernels_are_noticed(sampler, x64, getkey):
    last, _ = reverse_moments(getkey(), sampler, (), make_oracle().family, NUM_PAIRS)
    assert_not_mean(last, 0.0)


def test_a_kernel_that_never_moves_is_invariant(x64, getkey):
    """Invariance alone is not enough: `tests/estimators` catches this one."""
    last, _ = reverse_moments(getkey(), Stuck(), (), make_oracle().family, NUM_PAIRS)
    assert_mean(last, 0.0, max_stderr=MAX_STDERR)


def test_proposals_in_fixed_halves_are_noticed(x64, getkey):
    """i-SIR needs independent draws of the mixture; fixed halves show for K = 2 and a poor r(ε|z)."""
    conditional = LinearGaussian(jnp.array([[0.2], [-0.2]]), jnp.zeros(2), jnp.ones(2))
    family = SemiImplicit(StandardNormal(1), conditional)
    shift, scale, rounds, num = 1.5, 0.3, 4, 3 * NUM_PAIRS
    broken = Compose(*[HalvesISIR(1, shift, scale)] * rounds)
    last, _ = reverse_moments(getkey(), broken, ((),) * rounds, family, num)
    assert_not_mean(last, 0.0)

    proper = ISIR(2, rounds, LEARNED)
    state = proper.init(getkey(), family)
    net = jax.tree.map(jnp.zeros_like, state.net)
    constant = jnp.array([shift, 5 * np.arctanh(np.log(scale) / 5), 0.0])
    net = eqx.tree_at(lambda n: n.layers[-1].bias, net, constant)
    last, _ = reverse_moments(getkey(), proper, state._replace(net=net), family, num)
    assert_mean(last, 0.0, max_stderr=MAX_STDERR)


def paired_moments(key, sampler, state, family, contexts):
    """Moments of (z, ε′) minus those of (z, ε), pair by pair: no closed form is needed."""

    def moments(z, eps):
        return jnp.concatenate([eps, eps**2, jnp.sin(3 * eps), jnp.outer(eps, z).ravel()])

    def run(key):
        draw_key, reverse_key = jax.random.split(key)
        pairs = draw_pairs(draw_key, family, NUM_PAIRS, contexts)
        draws = sample_reverse(reverse_key, sampler, family, pairs, contexts, state).draws
        return jax.vmap(moments)(pairs.z, draws.last) - jax.vmap(moments)(*pairs)

    return jax.jit(run)(key)


@pytest.mark.parametrize("name", ["hmc", "isir-trained", "compose"])
def test_pairs_keep_their_law_under_an_amortised_net(name, x64, getkey):
    net = MLP.create(getkey(), 2, 4, context_dim=1, width=8, activation=jnp.tanh)
    family = SemiImplicit(StandardNormal(2), NetGaussian(net, jnp.array([-0.7, -0.3])))
    contexts = jax.random.normal(getkey(), (NUM_PAIRS, 1))
    sampler = SAMPLERS[name].make(2)
    state = SAMPLERS[name].state(getkey(), sampler, family, contexts[:64])
    differences = paired_moments(getkey(), sampler, state, family, contexts)
    assert_mean(differences, 0.0, max_stderr=0.05)


@pytest.mark.parametrize("name", ["hmc", "isir-untrained"])
def test_uniform_mixing_keeps_the_box(name, x64, getkey):
    """Proposals outside the support of q(ε) are rejected, and the law stays that of the pairs."""
    conditional = LinearGaussian(jnp.array([[2.0], [-1.0]]), jnp.zeros(2), jnp.array([0.5, 0.8]))
    family = SemiImplicit(Uniform(1), conditional)
    sampler = SAMPLERS[name].make(1)
    state = SAMPLERS[name].state(getkey(), sampler, family)
    pairs = draw_pairs(getkey(), family, NUM_PAIRS)
    reverse = compiled_reverse(getkey(), sampler, family, pairs, None, state)
    last = np.asarray(reverse.draws.last[:, 0])
    assert scipy.stats.kstest(last, "uniform").pvalue > FAILURE_RATE
    assert_mean((reverse.draws.last - pairs.eps) * pairs.z, 0.0, max_stderr=0.01)
    assert np.all(reverse.info.nonfinite == 0)
    assert np.mean(last != np.asarray(pairs.eps[:, 0])) > 0.2
