"""PVI against its free energy by quadrature in one dimension, where q(z) is a mixture of three Gaussians."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uivi._types import ReverseDraws
from uivi.estimators import PVI, UIVI
from uivi.evaluation import evaluate
from uivi.families import AtParticles, LinearGaussian, SemiImplicit, StandardNormal, Uniform
from uivi.presets import methods
from uivi.reverse import ByParticle, FittedProposal, Importance
from uivi.targets import Density
from uivi.testing import assert_mean, assert_not_mean, flat, free_energy, gradient_samples
from uivi.training.update import Method, initial_state, run_updates

NUM_ESTIMATES = 6_000
CLOUD = [[-1.1], [0.2], [1.4]]


def log_density(z):
    """Skew, so that signs show."""
    return -0.3 * (z[0] - 0.5) ** 2 - jax.nn.softplus(-2.0 * z[0])


def make_conditional() -> AtParticles:
    inner = LinearGaussian(jnp.array([[1.2]]), jnp.array([0.3]), jnp.array([0.6]))
    return AtParticles(jnp.array(CLOUD), inner)


def params():
    return SemiImplicit(Uniform(1), make_conditional()), Density(log_density, 1)


def negative_elbo(conditional: AtParticles):
    return free_energy(conditional.marginal_log_prob, log_density)


def flow(conditional: AtParticles):
    """Its gradient, with that of each particle times the number of particles: the Wasserstein gradient."""
    grads = jax.grad(negative_elbo)(conditional)
    return flat(eqx.tree_at(lambda c: c.cloud, grads, len(CLOUD) * grads.cloud))


def samples_of(key, estimator):
    return gradient_samples(key, estimator, params(), NUM_ESTIMATES)


def test_gradient_of_the_free_energy(x64, getkey):
    """In the particles and in the conditional, without bias."""
    samples = samples_of(getkey(), PVI(2, regularisation=0.0))
    assert_mean(samples, flow(make_conditional()), max_stderr=0.03)
    assert_not_mean(-samples, flow(make_conditional()))


def test_uivi_with_exact_particles_has_the_same_gradient(x64, getkey):
    """One draw of the exact reverse conditional; a particle gets its part of the gradient, not M times it."""
    samples = samples_of(getkey(), UIVI(6, Importance(1, ByParticle())))
    assert_mean(samples, flat(jax.grad(negative_elbo)(make_conditional())), max_stderr=0.03)
    assert_not_mean(samples, flow(make_conditional()))


def own_particle(family, z, context):
    """Only the nearest particle counts: no credit for particles that lie apart."""
    del context
    nearest = jnp.argmax(family.conditional.log_probs(z))
    eps = family.conditional.centres()
    return ReverseDraws(eps, jnp.where(jnp.arange(len(eps)) == nearest, 1.0, 0.0), eps[0])


def uniform_particles(family, z, context):
    """The mean of the scores, not the score of the mean."""
    del z, context
    eps = family.conditional.centres()
    return ReverseDraws(eps, jnp.full(len(eps), 1 / len(eps)), eps[0])


@pytest.mark.parametrize("faulty", [own_particle, uniform_particles])
def test_wrong_weights_are_noticed(faulty, x64, getkey, monkeypatch):
    monkeypatch.setattr("uivi.estimators.pvi._all_particles", faulty)
    samples = samples_of(getkey(), PVI(2, regularisation=0.0))
    assert_not_mean(samples, flow(make_conditional()))


def test_regulariser_and_noise(x64, getkey):
    """The same draws with and without: a step h moves a particle by -h λ ψ and noise of variance 2 λ h."""
    key, strength, step = getkey(), 0.7, 0.05
    plain = samples_of(key, PVI(1, regularisation=0.0))
    noisy = samples_of(key, PVI(1, regularisation=strength, step_size=step))
    moved = -step * (noisy - plain)[:, : len(CLOUD)]
    np.testing.assert_array_equal(noisy[:, len(CLOUD) :], plain[:, len(CLOUD) :])
    drift = -step * strength * jnp.array(CLOUD)[:, 0]
    assert_mean(moved, drift, max_stderr=0.004)
    assert_mean((moved - drift[None]) ** 2, 2 * strength * step, max_stderr=0.002)
    # The control: the noise of Algorithm 1 as printed.
    assert_not_mean((moved - drift[None]) ** 2, strength * step)


def test_bounds_are_equalities(x64, getkey):
    """With the estimator's own proposal both estimates of log q are exact, with q(ε) they are not."""
    estimator = PVI()
    family, _ = params()
    state = estimator.init(getkey(), *params())
    found = evaluate(getkey(), *params(), 500, 3, estimator.fitted_proposal(state))
    exact = jax.vmap(family.conditional.marginal_log_prob)(found.z)
    np.testing.assert_allclose(found.log_q_high, exact, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.log_q_low, exact, rtol=1e-9, atol=1e-9)
    plain = evaluate(getkey(), *params(), 500, 3)
    assert np.mean(plain.log_q_high - plain.log_q_low) > 0.1


def test_the_proposal_is_the_reverse_conditional(x64, getkey):
    """Its draws fall into the cells with the exact shares, and its density integrates to one."""
    family, _ = params()
    z = jnp.array([0.4])
    proposal = FittedProposal(ByParticle(), ()).at(family, z, None)
    cells = np.floor(3 * np.asarray(proposal.sample(getkey(), 20_000))[:, 0])
    log_probs = family.conditional.log_probs(z)
    shares = np.exp(log_probs) / np.sum(np.exp(log_probs))
    assert_mean(1.0 * (cells[:, None] == np.arange(3)[None]), shares, max_stderr=0.005)
    assert_not_mean(1.0 * (cells[:, None] == np.arange(3)[None]), shares[::-1])
    grid = jnp.linspace(0.0, 1.0, 3_001)[:-1, None]
    np.testing.assert_allclose(jnp.mean(jnp.exp(jax.vmap(proposal.log_prob)(grid))), 1.0, rtol=1e-6)


def test_every_particle_has_an_equal_cell():
    conditional = make_conditional()
    pick = jax.vmap(conditional.particle)
    np.testing.assert_array_equal(pick(conditional.centres()), conditional.cloud)
    eps = jnp.array([[-5.0], [0.0], [0.33], [0.34], [0.99], [1.0], [1e20]])
    np.testing.assert_array_equal(pick(eps)[:, 0], np.array(CLOUD, np.float32)[[0, 0, 0, 1, 2, 2, 2], 0])


@eqx.filter_jit
def energies(family):
    return negative_elbo(family.conditional)


def test_particles_and_conditional_move_at_their_rates(x64):
    """One update by the preset's optimiser: particles by the flow times h, the rest by RMSProp."""
    method = Method(PVI(2_000, 0.0, 0.05), methods.particle_optimizer(1e-3, 0.05))
    before = initial_state(jax.random.key(0), method, *params())
    first = before.family.conditional.cloud + 0
    after, info = run_updates(method, before, 1)
    assert info.skipped == 0
    moved = after.family.conditional.cloud - first
    np.testing.assert_allclose(moved[:, 0], -0.05 * flow(make_conditional())[: len(CLOUD)], atol=0.004)
    assert energies(after.family) < energies(params()[0])


def test_the_preset_family_fits(getkey):
    family = methods.particle_family(getkey(), 2, num_particles=7, width=8)
    method = Method(methods.paper_pvi(3), methods.particle_optimizer())
    state, info = run_updates(method, initial_state(getkey(), method, family, Density(_normal, 2)), 3)
    assert info.skipped == 0
    assert state.family.conditional.num_particles == 7


def _normal(z):
    return -0.5 * jnp.sum(z**2)


def test_wrong_families_and_arguments(getkey):
    wrong = SemiImplicit(StandardNormal(1), make_conditional())
    with pytest.raises(TypeError, match="under Uniform.1. for PVI, got AtParticles under StandardNormal: use"):
        PVI().init(getkey(), wrong, params()[1])
    plain = SemiImplicit(Uniform(1), make_conditional().inner)
    with pytest.raises(TypeError, match="for ByParticle, got LinearGaussian under Uniform: use"):
        ByParticle().init(getkey(), plain)
    with pytest.raises(ValueError, match="expected `cloud` of shape .3, 1., got .3, 2."):
        AtParticles(jnp.zeros((3, 2)), make_conditional().inner)
    with pytest.raises(ValueError, match="`regularisation` to be positive and finite, got -1.0"):
        PVI(regularisation=-1.0)
