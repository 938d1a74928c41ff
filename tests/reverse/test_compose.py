"""Compose shows all draws to every sampler at once, so a fused HMC stays fused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uivi import gpu
from uivi.families import Gaussian, RawScale, SemiImplicit, StandardNormal
from uivi.gpu import dispatch
from uivi.networks import MLP
from uivi.reverse import HMC, ISIR, AuthorsRule, Compose, FromMixing, sample_reverse
from uivi.testing import draw_pairs

NUM_CHAINS = 6


@pytest.fixture
def launches(monkeypatch):
    """A GPU whose kernel is the plain reference; remembers the number of chains in each launch."""
    seen = []

    def moves(inputs, *options):
        seen.append(inputs.eps.shape[0])
        return gpu.reference_moves(inputs, *options)

    monkeypatch.setattr(dispatch, "is_available", lambda: True)
    monkeypatch.setattr(dispatch, "fused_moves", moves)
    return seen


def make_family(key):
    net = MLP.create(key, 3, 2, width=8)
    return SemiImplicit(StandardNormal(3), Gaussian(net, RawScale.create(2)))


def run(key, sampler, family, pairs):
    return sample_reverse(key, sampler, family, pairs, None, sampler.init(key, family))


def composed(is_fused):
    return Compose(ISIR(4, 1, FromMixing()), HMC(1, 2, 3, AuthorsRule(0.3), is_fused))


def test_a_fused_chain_inside_a_composition_is_fused(launches, getkey):
    family = make_family(getkey())
    pairs, key = draw_pairs(getkey(), family, NUM_CHAINS), getkey()
    fused = run(key, composed(True), family, pairs)
    assert launches == [NUM_CHAINS], "one launch for all chains"
    plain = run(key, composed(False), family, pairs)
    assert launches == [NUM_CHAINS], "the control: plain chains do not reach the kernel"
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5), fused, plain)


def test_a_chain_that_cannot_be_fused_is_refused_inside_a_composition(launches, getkey):
    """`is_fused=True` is not ignored."""
    net = MLP.create(getkey(), 3, 2, width=8, activation=jnp.tanh)
    family = SemiImplicit(StandardNormal(3), Gaussian(net, RawScale.create(2)))
    with pytest.raises(ValueError, match="fused kernel"):
        run(getkey(), composed(True), family, draw_pairs(getkey(), family, 2))


def test_a_composition_of_one_is_that_one(getkey):
    family = make_family(getkey())
    pairs, sampler = draw_pairs(getkey(), family, NUM_CHAINS), ISIR(4, 1, FromMixing())
    key = getkey()
    alone = jax.vmap(lambda key: jax.random.split(key, 1)[0])(jax.random.split(key, NUM_CHAINS))
    expected = sampler.sample(alone, family, pairs, None, ())[0]
    made = run(key, Compose(sampler), family, pairs).draws
    assert all(np.array_equal(a, b) for a, b in zip(made, expected, strict=True))
