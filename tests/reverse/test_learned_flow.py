"""The flow proposal: an exact density, its draws, several modes, and what the constructor refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.reverse.table import FLOW
from uivi.evaluation import bounds
from uivi.families import MLP, Gaussian, LogScale, SemiImplicit, StandardNormal
from uivi.networks import Linear
from uivi.reverse import ISIR, Coupled, Learned, LearnedFlow
from uivi.reverse.proposals import FittedProposal
from uivi.testing import assert_mean, assert_not_mean, draw_pairs, make_oracle, trained_state

Z = jnp.array([0.4, -0.9])
PROPOSALS = {
    "even": FLOW,
    "odd": LearnedFlow(num_layers=3, width=8),
    "mixed": LearnedFlow(num_layers=2, width=8, prior_share=0.3, inflation=1.4),
}


def bent(key, proposal, noise_dim=2):
    """The proposal at one z with random weights, so that it is far from N(0, I)."""
    family = make_oracle(noise_dim).family
    state = proposal.init(key, family)
    leaves, structure = jax.tree.flatten(state.net)
    leaves = [x + 0.15 * jax.random.normal(jax.random.fold_in(key, i), x.shape) for i, x in enumerate(leaves)]
    state = state._replace(net=jax.tree.unflatten(structure, leaves))
    return proposal.at(family, Z.astype(float), None, state)


@pytest.mark.parametrize("name", PROPOSALS)
def test_the_density_is_that_of_the_draws(name, x64, getkey):
    """Its integral is one, and means by quadrature are those of draws; not so of another flow's."""
    key = getkey()
    axis = np.linspace(-15, 15, 601)
    grid = jnp.asarray(np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2))
    moments = lambda e: jnp.concatenate([jnp.tanh(e), jnp.cos(2 * e), jnp.sin(e[:1]) * jnp.tanh(e[1:])])

    def by_quadrature(proposal):
        density = jnp.exp(jax.jit(jax.vmap(proposal.log_prob))(grid)) * (axis[1] - axis[0]) ** 2
        return density.sum(), density @ jax.vmap(moments)(grid)

    proposal, other = bent(key, PROPOSALS[name]), bent(getkey(), PROPOSALS[name])
    total, means = by_quadrature(proposal)
    np.testing.assert_allclose(total, 1.0, atol=2e-3)
    samples = jax.vmap(moments)(proposal.sample(getkey(), 40_000))
    assert_mean(samples, means, max_stderr=0.01, bias=1e-3)
    assert_not_mean(samples, by_quadrature(other)[1])


@pytest.mark.parametrize("num_layers", [2, 3])
def test_the_volume_is_that_of_the_jacobian(num_layers, x64, getkey):
    """In three dimensions, where the halves differ in size."""
    proposal = bent(getkey(), LearnedFlow(num_layers=num_layers, width=8, inflation=1.3), noise_dim=3)
    u = jax.random.normal(getkey(), (3,))
    push = lambda u: proposal.image.from_normal(u[None])[0]
    volume = jnp.linalg.slogdet(jax.jacobian(push)(u))[1]
    expected = jax.scipy.stats.norm.logpdf(u).sum() - volume
    np.testing.assert_allclose(proposal.log_prob(push(u)), expected, rtol=1e-9)


def folded_family() -> SemiImplicit:
    """z = (|ε₁|, ε₂) and noise: the reverse conditional has two modes."""
    up = jnp.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    down = jnp.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
    net = MLP((Linear(up, jnp.zeros(4)), Linear(down, jnp.zeros(2))), None, None, jax.nn.relu)
    return SemiImplicit(StandardNormal(2), Gaussian(net, LogScale.create(2, 0.3)))


def held_out(key, proposal, family, num_updates):
    """Log densities of new ε, given their z, after so many updates."""
    train_key, pair_key = jax.random.split(key)
    state = trained_state(train_key, ISIR(1, 1, proposal), family, num_updates)
    pairs = draw_pairs(pair_key, family, 10_000)
    one = lambda z, eps: proposal.at(family, z, None, state).log_prob(eps)
    return jax.jit(jax.vmap(one))(pairs.z, pairs.eps)


def test_two_modes_are_learned_better_than_by_a_gaussian(getkey):
    """By 0.15 nats at least; the Gaussian is mixed with almost none of q(ε), which would cost it more."""
    family, key = folded_family(), getkey()
    gaussian = Learned(width=32, learning_rate=1e-2, prior_share=1e-4)
    flow = LearnedFlow(num_layers=6, width=32, learning_rate=1e-2)
    gain = held_out(key, flow, family, 2_000) - held_out(key, gaussian, family, 2_000)
    assert np.mean(gain) - 4.5 * np.std(gain) / len(gain) ** 0.5 > 0.15


def test_bounds_with_the_flow_are_tighter_than_with_the_prior(x64, getkey):
    family, target = make_oracle()
    sampler = ISIR(3, 1, FLOW)
    state = trained_state(getkey(), sampler, family, 300)
    width = {}
    for name, proposal in (("flow", FittedProposal(FLOW, state)), ("prior", None)):
        found = bounds.evaluate(getkey(), family, target, 2_000, 8, *([proposal] if proposal else []))
        gap = found.log_q_high - found.log_q_low
        width[name] = np.mean(gap)
        assert width[name] > 0
    assert 3 * width["flow"] < width["prior"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LearnedFlow(num_layers=1), "`num_layers` of at least 2, got 1"),
        (lambda: LearnedFlow(width=0), "`width` to be a positive whole number, got 0"),
        (lambda: LearnedFlow(prior_share=1.0), "`prior_share` from 0 to below 1, got 1.0"),
        (lambda: LearnedFlow(learning_rate=0.0), "`learning_rate` to be positive and finite"),
        (lambda: LearnedFlow(inflation=-1.0), "`inflation` to be positive and finite"),
        (lambda: Coupled(4, LearnedFlow(inflation=0.8)), "got inflation=0.8: narrow proposals"),
        (
            lambda: LearnedFlow().init(jax.random.key(0), make_oracle(noise_dim=1).family),
            "two coordinates or more for LearnedFlow, got 1: use uivi.reverse.Learned",
        ),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
