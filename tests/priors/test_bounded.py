"""The bound of log p(z) by draws of ζ, and targets with priors: the VAE and a posterior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from tests.priors.table import gaussian_mixture, rows, vamp
from uivi.estimators import SIVI, UIVI, Explicit, PriorScore
from uivi.estimators.base import RepeatedSites
from uivi.evaluation import Likelihood, evaluate_doubly
from uivi.families import (
    MLP,
    ExplicitGaussian,
    Gaussian,
    LinearGaussian,
    LogScale,
    SemiImplicit,
    StandardNormal,
)
from uivi.priors import Bounded, FixedImplicit, Implicit, Normal
from uivi.reverse import Importance, Learned
from uivi.targets import BernoulliVAE, Observed, Rows, log_density_at
from uivi.testing import assert_mean, assert_not_mean, make_doubly_oracle, make_linear_prior
from uivi.training.optimisers import adam_cosine
from uivi.training.update import Method, initial_state, run_updates

POINTS = np.array([[0.2, 0.4], [1.9, -1.0]])
FEW, MANY = 5, 200


def excess(key, prior, exact, num_draws):
    """Independent errors of the bound at two points: shape (8000, 2)."""
    target = Bounded(Observed(lambda z: jnp.zeros(()), Implicit(prior)), num_draws)
    one = lambda key: jax.vmap(lambda z: target.log_prior(key, z) - exact(z))(jnp.asarray(POINTS))
    return jax.jit(jax.vmap(one))(jax.random.split(key, 8_000))


@pytest.mark.parametrize("name", ["linear", "rows"])
def test_the_bound_is_below_and_closes(name, x64, getkey):
    prior, exact = make_linear_prior(), None
    if name == "rows":
        prior, exact = rows(), vamp().log_prob
    elif isinstance(prior.conditional, LinearGaussian):
        exact = prior.conditional.marginal_log_prob
    few, many = (excess(getkey(), prior, exact, k) for k in (FEW, MANY))
    assert_not_mean(few, 0.0)
    assert np.all(np.mean(few, 0) < 0)
    assert_mean(many, 0.0, max_stderr=0.01, bias=0.03)
    # The mean of the exponential is exact: it is the logarithm that makes the bound one.
    assert_mean(jnp.exp(few), 1.0, max_stderr=0.05)


def test_every_draw_of_a_site_has_fresh_noise(getkey):
    """A random key in a site is split among the draws, so that their errors are independent."""
    target = make_doubly_oracle().target
    batch = RepeatedSites.create(target, target.sites(getkey(), jnp.asarray(0)), 3)
    z = jnp.zeros((3, 2))
    assert len(np.unique(batch.log_joint(target, z))) == 3
    again = RepeatedSites.create(target, target.sites(getkey(), jnp.asarray(0)), 3)
    assert not np.intersect1d(again.log_joint(target, z), batch.log_joint(target, z)).size


def test_noise_is_fresh_at_every_step_and_sites_are_those_of_the_model(getkey):
    target, key = Bounded(make_vae(Implicit(latent_prior())), 4), getkey()
    one, other = (target.sites(key, jnp.asarray(step)) for step in (0, 1))
    keys = np.concatenate([jax.random.key_data(x.key) for x in (one, other)])
    assert len(np.unique(keys, axis=0)) == 6
    images = {row.tobytes() for row in np.asarray(target.target.images[:], np.float32)}
    assert {row.tobytes() for row in np.concatenate([one.site, other.site])} <= images
    assert np.array_equal(target.context(jax.tree.map(lambda x: x[0], one)), one.site[0])


PIXELS, LATENT = 5, 2
IMAGES = (np.random.default_rng(3).random((6, PIXELS)) < 0.4).astype(np.uint8)


def make_vae(prior=None):
    return BernoulliVAE(MLP.create(jax.random.key(0), LATENT, PIXELS, width=7), Rows.create(IMAGES), 3, prior)


def latent_prior():
    net = MLP.create(jax.random.key(1), 3, LATENT, width=6)
    return SemiImplicit(StandardNormal(3), Gaussian(net, LogScale.create(LATENT)))


def test_the_vae_has_a_standard_normal_prior_by_default():
    """Bit by bit as before there was a choice."""
    target, z, image = make_vae(), jnp.array([0.8, -1.3]), jnp.asarray(IMAGES[0], jnp.float32)
    assert target.prior == Normal(2)
    before = -0.5 * (jnp.sum(z**2) + z.shape[0] * jnp.log(2 * jnp.pi)).astype(z.dtype)
    assert target.log_joint(z, image) == target.log_likelihood(z, image) + before
    assert jax.tree.structure(target.prior).num_leaves == 0


def test_the_vae_with_a_mixture_prior_is_exact():
    prior, z, image = gaussian_mixture(), jnp.array([0.8, -1.3]), jnp.asarray(IMAGES[0], jnp.float32)
    target = make_vae(prior)
    np.testing.assert_allclose(
        target.log_joint(z, image), target.log_likelihood(z, image) + prior.log_prob(z), rtol=1e-6
    )


def encoder():
    net = MLP.create(jax.random.key(4), 2, LATENT, context_dim=PIXELS, width=7)
    return SemiImplicit(StandardNormal(2), Gaussian(net, LogScale.create(LATENT)))


METHODS = {
    "bound, SIVI": (SIVI(2, 3), encoder),
    "bound, explicit": (Explicit(2), lambda: ExplicitGaussian(MLP.create(jax.random.key(2), PIXELS, 4))),
    "score": (PriorScore(UIVI(2), Importance(4, Learned(width=8)), num_pairs=8), encoder),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("is_trained", [True, False])
def test_a_fit_trains_the_prior_unless_it_is_fixed(name, is_trained):
    estimator, family = METHODS[name]
    prior = Implicit(latent_prior()) if is_trained else FixedImplicit.create(latent_prior())
    method, target = Method(estimator, adam_cosine(10)), Bounded(make_vae(prior), 4)
    state, info = run_updates(method, initial_state(jax.random.key(0), method, family(), target), 3)
    assert info.skipped == 0
    assert np.isfinite(info.mean.log_joint)
    before, after = ([np.asarray(x) for x in jax.tree.leaves(t.target.prior)] for t in (target, state.target))
    changed = [np.any(x != y) for x, y in zip(before, after, strict=True)]
    assert all(changed) if is_trained else not any(changed)
    decoders = (jax.tree.leaves(t.target.decoder) for t in (target, state.target))
    assert all(np.any(x != y) for x, y in zip(*decoders, strict=True))
    assert np.asarray(state.target.target.images[:]).tobytes() == IMAGES.tobytes()


@pytest.mark.parametrize("name", ["bound, SIVI", "score"])
def test_uivi_fit_takes_a_bounded_model(name):
    estimator, family = METHODS[name]
    fitted = uivi.fit(
        Bounded(make_vae(Implicit(latent_prior())), 4),
        family=family(),
        estimator=estimator,
        optimizer=adam_cosine(4),
        num_steps=4,
        key=jax.random.key(0),
        progress=False,
    )
    assert fitted.status is uivi.Status.DONE
    assert isinstance(fitted.target, Bounded)


def test_a_bounded_vae_is_evaluated_at_images_and_not_by_the_likelihood_of_known_priors(getkey, unchecked):
    target, images = Bounded(make_vae(Implicit(latent_prior())), 4), jnp.asarray(IMAGES[:4], jnp.float32)
    budget = {"num_draws": 50, "num_mixing": 30, "num_prior": 300}
    made = evaluate_doubly(getkey(), encoder(), target, images, **budget)
    lower, upper = made.elbo()
    assert made.log_likelihood.shape == (4, 50)
    assert lower.mean < upper.mean < 0
    assert lower.mean < made.log_marginal().mean
    with pytest.raises(TypeError, match="a site with a random key, .* uivi.evaluation.evaluate_doubly"):
        Likelihood(10, 10)(getkey(), encoder(), target, images)


def test_a_posterior_with_a_known_prior_is_an_ordinary_target():
    target = Observed(lambda z: -jnp.sum(z**2), gaussian_mixture())
    z = jnp.array([[0.3, 0.1]])
    found = log_density_at(target, z)[0]
    np.testing.assert_allclose(found, -jnp.sum(z**2) + gaussian_mixture().log_prob(z[0]), rtol=1e-6)


def implicit_target():
    return Observed(lambda z: jnp.zeros(()), Implicit(make_linear_prior()))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: make_vae(Normal(3)), ValueError, "a prior on 2 dimensions .*BernoulliVAE.*, got one on 3"),
        (lambda: make_vae(make_linear_prior()), TypeError, "`prior` to be of uivi.priors.*got SemiImplicit"),
        (lambda: Bounded(implicit_target(), 0), ValueError, "`num_draws` to be a positive whole number, got 0"),
        (lambda: Bounded(make_vae()), TypeError, "implicit prior, got Normal, whose density is known"),
        (lambda: Bounded(make_linear_prior()), TypeError, "a target with a prior, .* got SemiImplicit"),
        (lambda: Observed(lambda z: z, Normal(2)), ValueError, r"log likelihood of shape \(\), got \(2,\)"),
        (
            lambda: Observed(lambda z: jnp.sum(z @ jnp.ones(3)), Normal(2)),
            ValueError,
            "a vector of size 2 .the prior's., but it failed",
        ),
        (
            lambda: Observed(lambda z: jnp.sum(z), make_linear_prior()),
            TypeError,
            "`prior` to be of uivi.priors",
        ),
        (
            lambda: implicit_target().log_joint(jnp.zeros(2), ()),
            TypeError,
            "a prior with a density, got Implicit, whose log p.z. is an integral: fit uivi.priors.Bounded",
        ),
    ],
)
def test_bad_targets(make, error, message, unchecked):
    with pytest.raises(error, match=message):
        make()


def test_uivi_fit_says_that_an_implicit_prior_needs_a_bound():
    family = SemiImplicit(StandardNormal(2), LinearGaussian(jnp.eye(2), jnp.zeros(2), jnp.ones(2)))
    with pytest.raises(ValueError, match="fit uivi.priors.Bounded"):
        uivi.fit(implicit_target(), family=family, num_steps=2, key=jax.random.key(0), progress=False)
