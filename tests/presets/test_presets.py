"""The two recipes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from uivi import presets
from uivi.fitting.starts.search import Start


def draws(family, key, num=2_000):
    return jax.vmap(lambda k: family.sample(k).z)(jax.random.split(key, num))


@pytest.mark.parametrize(("dim", "noise_dim"), [(1, 3), (2, 3), (10, 10), (22, 3), (201, 3), (4_001, 10)])
def test_the_default_family_grows_with_dim(dim, noise_dim, getkey):
    family = presets.default_family(getkey(), dim)
    assert (family.dim, family.noise_dim, family.context_dim) == (dim, noise_dim, 0)
    full = isinstance(family.conditional, uivi.families.Affine)
    assert full == (dim <= presets.FULL_COVARIANCE_UP_TO)
    layers = family.conditional.inner if full else family.conditional
    assert isinstance(layers, uivi.families.Layered) == (10 < dim <= 200)
    assert isinstance(layers, uivi.families.Sheared) == (200 < dim <= 4_000)


@pytest.mark.parametrize(
    ("dim", "kl", "layered"), [(4, 1.6, True), (4, 1.4, False), (4, np.nan, False), (3, 9.0, False)]
)
def test_a_small_posterior_has_layers_if_it_is_far_from_its_start(dim, kl, layered, getkey):
    start = Start(jnp.zeros(dim), jnp.eye(dim), kl=kl)
    family = presets.default_family(getkey(), dim, start=start)
    assert isinstance(family.conditional.inner.inner, uivi.families.Layered) == layered


@pytest.mark.parametrize("dim", [3, 201])
def test_the_default_family_starts_near_a_normal_at_start(dim, getkey):
    loc = 500 + jnp.arange(dim, dtype=float) / dim
    factor = 100 * (jnp.ones(dim) if dim > presets.FULL_COVARIANCE_UP_TO else jnp.eye(dim))
    family = presets.default_family(getkey(), dim, start=Start(loc, factor))
    z = np.asarray(draws(family, getkey()))
    np.testing.assert_allclose(z.mean(0), loc, atol=50)
    np.testing.assert_allclose(z[:, :3].std(0), 100, atol=35)


def test_noise_and_latent_are_tied_at_the_start(getkey):
    """ε must be visible in z, or the first gradients of the network would vanish."""
    family = presets.default_family(getkey(), 3)
    pairs = jax.vmap(family.sample)(jax.random.split(getkey(), 2_000))
    for i in range(3):
        assert np.corrcoef(pairs.z[:, i], pairs.eps[:, i])[0, 1] > 0.5


def test_default_estimators(getkey):
    assert isinstance(presets.default_estimator(uivi.ExplicitGaussian.create(2)), uivi.StickingTheLanding)
    for dim, num_proposals in ((2, 100), (10, 100), (11, 32), (201, 32)):
        estimator = presets.default_estimator(presets.default_family(getkey(), dim))
        assert isinstance(estimator, uivi.UIVI)
        assert isinstance(estimator.sampler, uivi.ISIR)
        assert estimator.sampler.num_proposals == num_proposals
        every = presets.default_estimators(presets.default_family(getkey(), dim))
        assert every[0].sampler.num_proposals == 32
        assert every[-1] == estimator


def test_the_papers_constants(getkey):
    family = presets.paper_family(getkey(), 2)
    net, scale = family.conditional.net, family.conditional.scale
    assert [layer.weight.shape for layer in net.layers] == [(50, 3), (50, 50), (2, 50)]
    assert net.activation is jax.nn.relu
    assert net.skip is None
    np.testing.assert_array_equal(scale(), [0.5, 0.5])
    uivi_ = presets.paper_uivi()
    assert uivi_.num_draws == 1
    sampler = uivi_.sampler
    assert (sampler.num_burnin, sampler.num_draws, sampler.num_leapfrog) == (5, 5, 5)
    assert presets.paper_sivi().num_draws == 1


def test_default_sivi_costs_as_many_network_evaluations_as_default_uivi():
    method, sivi = presets.default_uivi(), presets.default_sivi()
    assert method.num_draws == sivi.num_draws
    assert method.sampler.num_proposals * method.sampler.num_rounds == sivi.num_mixing


def test_priors_of_the_vae(getkey):
    """A network of noise that begins near N(0, I), and an encoder at 500 images."""
    drawn = jax.vmap(presets.vae.implicit_prior(getkey()).sample)(jax.random.split(getkey(), 4_000)).z
    np.testing.assert_allclose(np.cov(drawn.T), np.eye(10), atol=0.5)
    np.testing.assert_allclose(np.mean(drawn, 0), 0, atol=0.5)
    images = (np.random.default_rng(0).random((600, 784)) < 0.2).astype(np.uint8)
    prior = presets.vae.vamp_prior(getkey(), images)
    assert (prior.dim, prior.num_rows) == (10, 500)
    assert {row.tobytes() for row in np.asarray(prior.rows, np.uint8)} <= {row.tobytes() for row in images}
    assert np.isfinite(prior.log_prob(jnp.zeros(10)))
    assert presets.vae.vamp_prior(getkey(), images[:7]).num_rows == 7


def test_the_settings_of_other_methods():
    iwhvi = presets.methods.paper_iwhvi()
    assert (iwhvi.num_draws, iwhvi.num_proposals, iwhvi.learning_rate) == (1, 50, 1e-3)
    assert iwhvi.proposal == uivi.reverse.Amortised(width=300, depth=2)
    assert presets.methods.paper_ksivi() == uivi.estimators.KSIVI(500)
    sivism = presets.methods.paper_sivism()
    assert (sivism.num_draws, sivism.num_inner, sivism.width, sivism.learning_rate) == (500, 1, 128, 2e-3)
    aisivi, bsivi = presets.methods.paper_aisivi(), presets.methods.paper_bsivi()
    assert (aisivi.num_draws, aisivi.sampler.num_draws) == (128, 8_192)
    proposal = aisivi.sampler.proposal
    assert isinstance(proposal, uivi.reverse.LearnedFlow)
    assert (proposal.num_layers, proposal.prior_share, proposal.learning_rate) == (6, 0.0, 1e-2)
    assert bsivi.sampler == uivi.Importance(1_000, uivi.reverse.FromMixing())
    pvi = presets.methods.paper_pvi()
    assert (pvi.num_draws, pvi.regularisation, pvi.step_size) == (250, 1e-8, 1e-2)
    family = presets.methods.particle_family(jax.random.key(0), 2)
    assert (family.conditional.num_particles, family.noise_dim, family.dim) == (100, 1, 2)
