"""Softmax regression and the VAE: values against NumPy, minibatches that add up, data that stay."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from uivi.estimators import IWHVI, PVI, SIVI, Explicit
from uivi.families import (
    MLP,
    AtParticles,
    ExplicitGaussian,
    Gaussian,
    LogScale,
    SemiImplicit,
    StandardNormal,
    TwoNetGaussian,
    Uniform,
)
from uivi.targets import BernoulliVAE, Rows, SoftmaxRegression, log_density_at
from uivi.training.optimisers import adam_cosine
from uivi.training.update import Method, initial_state, run_updates, sites_key

FEATURES, CLASSES = 3, 4


def regression_data(num_rows):
    rng = np.random.default_rng(num_rows)
    features = rng.normal(size=(num_rows, FEATURES)).astype(np.float32)
    return features, rng.integers(0, CLASSES, num_rows)


def make_regression(num_rows=12, batch_size=4, **settings):
    data = regression_data(num_rows)
    return SoftmaxRegression.create(*data, num_classes=CLASSES, batch_size=batch_size, **settings)


def draw_weights(scale=0.7):
    return scale * jax.random.normal(jax.random.key(1), ((FEATURES + 1) * CLASSES,))


def direct_log_density(features, labels, z):
    """Value and gradient of log p(y, z|x) by NumPy, in double precision."""
    weights = np.asarray(z, np.float64).reshape(FEATURES + 1, CLASSES)
    inputs = np.concatenate([features, np.ones((len(features), 1))], 1).astype(np.float64)
    log_p = scipy.special.log_softmax(inputs @ weights, 1)
    value = log_p[np.arange(len(labels)), labels].sum() + scipy.stats.norm.logpdf(weights).sum()
    gradient = inputs.T @ (np.eye(CLASSES)[labels] - np.exp(log_p)) - weights
    return value, gradient.ravel()


@pytest.mark.parametrize(("num_rows", "batch_size"), [(12, 4), (13, 4), (12, 12), (7, 5)])
def test_log_density_is_the_sum_over_all_rows(num_rows, batch_size):
    target, z = make_regression(num_rows, batch_size), draw_weights()
    value, gradient = jax.jit(jax.value_and_grad(target.log_density))(z)
    expected, slope = direct_log_density(*regression_data(num_rows), z)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    np.testing.assert_allclose(gradient, slope, rtol=1e-4, atol=1e-4)


def test_log_density_leaves_padding_out():
    """As when data sets of different lengths run side by side."""
    features, labels = regression_data(7)
    rows = Rows.create(features, 11), Rows.create(labels, 11)
    padded = SoftmaxRegression(*rows, num_classes=CLASSES, batch_size=4)
    z = draw_weights()
    np.testing.assert_allclose(padded.log_density(z), direct_log_density(features, labels, z)[0], rtol=1e-5)


def epoch_of(target, num_batches):
    sites = jax.vmap(lambda step: target.sites(jax.random.key(2), step))(jnp.arange(num_batches))
    return jax.tree.map(lambda x: x[:, 0], sites)


def test_minibatches_of_an_epoch_average_to_the_whole():
    """Value and gradient of (N/B) Σ_batch log p + log p(z), over the three batches."""
    target, z = make_regression(), draw_weights()
    one = jax.value_and_grad(target.log_joint)
    values, gradients = jax.jit(jax.vmap(one, (None, 0)))(z, epoch_of(target, 3))
    expected, slope = direct_log_density(*regression_data(12), z)
    np.testing.assert_allclose(values.mean(), expected, rtol=1e-5)
    np.testing.assert_allclose(gradients.mean(0), slope, rtol=1e-4, atol=1e-4)
    assert np.ptp(values) > 1.0


def test_sites_are_rows_of_the_data():
    target = make_regression()
    features, labels = regression_data(12)
    x, y = (np.asarray(v) for v in epoch_of(target, 3))
    assert x.shape == (3, 4, FEATURES)
    found = {(row.tobytes(), int(label)) for row, label in zip(x.reshape(12, -1), y.ravel(), strict=True)}
    assert found == {(row.tobytes(), int(label)) for row, label in zip(features, labels, strict=True)}
    assert (target.num_sites, target.dim) == (1, 16)
    assert target.context(jax.tree.map(lambda v: v[0], epoch_of(target, 1))) is None


def test_pixels_are_divided_as_they_are_used():
    pixels = np.arange(0, 240, 20, dtype=np.uint8).reshape(4, 3)
    target = SoftmaxRegression.create(pixels, np.arange(4), num_classes=CLASSES, batch_size=2, divisor=255.0)
    assert target.features[0].dtype == jnp.uint8
    z = draw_weights()
    expected = direct_log_density(pixels / np.float32(255), np.arange(4), z)[0]
    np.testing.assert_allclose(target.log_density(z), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": np.array([0, 1, 4])}, "expected whole labels from 0 to 3, got int64 from 0 to 4: subtract"),
        ({"labels": np.array([-1, 1, 2])}, "from -1 to 2"),
        ({"labels": np.array([0.0, 1.0, 2.0])}, "got float64"),
        ({"labels": np.array([0, 1])}, r"got \(3, 2\) and \(2,\): give one label per row"),
        ({"features": np.zeros(3)}, r"features of shape \(N, F\)"),
        ({"features": np.full((3, 2), np.nan)}, "expected finite data"),
        ({"batch_size": 4}, r"expected a batch_size of at most 3 \(the rows of data\), got 4"),
        ({"batch_size": 0}, "`batch_size` to be a positive whole number, got 0"),
        ({"num_classes": 0}, "`num_classes` to be a positive whole number"),
        ({"divisor": 0.0}, "`divisor` to be positive"),
    ],
)
def test_bad_regression(changes, message):
    settings = {"features": np.zeros((3, 2)), "labels": np.arange(3), "num_classes": 4, "batch_size": 2}
    with pytest.raises(ValueError, match=message):
        SoftmaxRegression.create(**(settings | changes))


PIXELS, LATENT = 5, 2
IMAGES = (np.random.default_rng(3).random((6, PIXELS)) < 0.4).astype(np.uint8)


def make_vae(batch_size=3, outputs=PIXELS):
    decoder = MLP.create(jax.random.key(0), LATENT, outputs, width=7)
    return BernoulliVAE(decoder, Rows.create(IMAGES), batch_size)


def test_vae_log_joint():
    target, z = make_vae(), jnp.array([0.8, -1.3])
    image = target.sites(jax.random.key(1), jnp.asarray(0))[1]
    probability = scipy.special.expit(np.asarray(target.decoder(z), np.float64))
    expected = scipy.stats.bernoulli.logpmf(np.asarray(image), probability).sum()
    np.testing.assert_allclose(target.log_likelihood(z, image), expected, rtol=1e-5)
    np.testing.assert_allclose(target.decode(z), probability, rtol=1e-5)
    prior = scipy.stats.norm.logpdf(np.asarray(z)).sum()
    np.testing.assert_allclose(target.log_joint(z, image), expected + prior, rtol=1e-5)
    assert (target.dim, target.num_sites) == (LATENT, 3)
    np.testing.assert_array_equal(target.context(image), image)


def test_vae_sites_are_the_images_once_an_epoch():
    target = make_vae()
    sites = jax.vmap(lambda step: target.sites(jax.random.key(1), step))(jnp.arange(2))
    assert sites.shape == (2, 3, PIXELS)
    assert sites.dtype == jnp.float32
    found = np.asarray(sites, np.uint8).reshape(6, PIXELS)
    assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, IMAGES.tolist()))


def test_the_vae_has_no_single_log_density():
    with pytest.raises(
        TypeError, match="expected a target with a single site, got BernoulliVAE, which has many"
    ):
        log_density_at(make_vae(), jnp.zeros((1, LATENT)))


def encoders():
    keys = jax.random.split(jax.random.key(4), 3)
    semi = MLP.create(keys[0], 2, LATENT, context_dim=PIXELS, width=7)
    nets = [MLP.create(key, PIXELS, LATENT, width=7) for key in keys[1:]]
    gaussian = Gaussian(semi, LogScale.create(LATENT))
    return {
        "explicit": (Explicit(2), TwoNetGaussian(*nets)),
        "sivi": (SIVI(2, 3), SemiImplicit(StandardNormal(2), gaussian)),
        "iwhvi": (IWHVI(2, 3), SemiImplicit(StandardNormal(2), gaussian)),
        "pvi": (PVI(1), SemiImplicit(Uniform(1), AtParticles.create(keys[0], 3, gaussian))),
    }


@pytest.mark.parametrize("name", encoders())
def test_a_fit_trains_the_decoder_and_leaves_the_images(name):
    estimator, family = encoders()[name]
    method, target = Method(estimator, adam_cosine(10)), make_vae()
    state, info = run_updates(method, initial_state(jax.random.key(0), method, family, target), 3)
    fitted = state.target
    assert isinstance(fitted, BernoulliVAE)
    assert info.skipped == 0
    before, after = (jax.tree.leaves(eqx.filter(t.decoder, eqx.is_array)) for t in (target, fitted))
    for x, y in zip(before, after, strict=True):
        assert np.all(np.isfinite(y))
        assert np.any(x != y)
    assert fitted.images[0].dtype == jnp.uint8
    assert np.asarray(fitted.images[:]).tobytes() == IMAGES.tobytes()
    assert fitted.images.count == 6
    # No optimiser state for the images either.
    assert IMAGES.shape not in {
        leaf.shape for leaf in jax.tree.leaves(eqx.filter(state.opt_state, eqx.is_array))
    }


def test_floats_of_a_regression_survive_a_fit_bit_by_bit():
    """And all updates of a fit shuffle with one key, so that its epochs are those of `minibatch`."""
    target = make_regression()
    method, family = Method(Explicit(2), adam_cosine(10)), ExplicitGaussian.create(target.dim)
    state, _ = run_updates(method, initial_state(jax.random.key(0), method, family, target), 3)
    assert isinstance(state.target, SoftmaxRegression)
    features, labels = regression_data(12)
    assert np.asarray(state.target.features[np.arange(12)]).tobytes() == features.tobytes()
    np.testing.assert_array_equal(state.target.labels[np.arange(12)], labels)
    starts = (initial_state(jax.random.key(seed), method, family, target) for seed in (0, 1))
    same, other = (jax.random.key_data(sites_key(start)).tolist() for start in starts)
    assert jax.random.key_data(sites_key(state)).tolist() == same != other


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"outputs": 4}, r"expected a decoder with 5 outputs \(the pixels of an image\), got 4"),
        ({"batch_size": 7}, r"expected a batch_size of at most 6 \(the rows of data\), got 7"),
    ],
)
def test_bad_vae(settings, message):
    with pytest.raises(ValueError, match=message):
        make_vae(**settings)
