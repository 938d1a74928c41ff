"""Mixing distributions, networks, the oracle's closed forms, and what the constructors refuse."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from tests.families.table import FAMILIES, MIXINGS, SCALES
from uivi.families import (
    MLP,
    AbstractSimpleConditional,
    Affine,
    ExplicitGaussian,
    Gamma,
    Gaussian,
    Laplace,
    LinearGaussian,
    LogScale,
    NetGaussian,
    SemiImplicit,
    Standardised,
    StandardNormal,
    TwoNetGaussian,
    Uniform,
    authors_init,
    he_init,
    small_init,
)
from uivi.testing import FAILURE_RATE, assert_mean, assert_not_mean, draw_pairs, make_oracle


@pytest.mark.parametrize("name", MIXINGS)
def test_mixing_draws_and_density(name, getkey):
    make, distribution = MIXINGS[name]
    mixing = make(3)
    eps = np.asarray(jax.vmap(mixing.sample)(jax.random.split(getkey(), 4_000)), np.float64)
    assert scipy.stats.kstest(eps.ravel(), distribution.cdf).pvalue > FAILURE_RATE
    assert scipy.stats.kstest(eps.ravel() * 1.1, distribution.cdf).pvalue < FAILURE_RATE
    expected = distribution.logpdf(eps[:5]).sum(1)
    np.testing.assert_allclose(jax.vmap(mixing.log_prob)(jnp.asarray(eps[:5], float)), expected, rtol=1e-5)
    assert mixing.variance() == pytest.approx(distribution.var())


def test_uniform_has_no_density_outside_the_box():
    assert Uniform(2).log_prob(jnp.array([0.5, 1.1])) == -jnp.inf


@pytest.mark.parametrize("name", SCALES)
def test_scales_start_where_told(name):
    np.testing.assert_allclose(SCALES[name].create(3, 0.7)(), np.full(3, 0.7), rtol=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_families_draw_their_size(name, getkey):
    family = FAMILIES[name]()
    context = jnp.ones(family.context_dim) if family.context_dim else None
    draw = eqx.filter_jit(family.sample)(getkey(), context)
    assert draw.z.shape == (family.dim,) == (2,)
    assert draw.eps.shape == (getattr(family, "noise_dim", 0),)


def test_explicit_gaussian_draws_follow_its_density(x64, getkey):
    family = ExplicitGaussian(jnp.array([0.4, -0.3, -0.5, 0.2]))
    z = jnp.array([0.1, 0.9])
    expected = scipy.stats.norm([0.4, -0.3], np.exp([-0.5, 0.2])).logpdf(z).sum()
    np.testing.assert_allclose(family.log_prob(z), expected, rtol=1e-12)
    draws = draw_pairs(getkey(), family, 20_000).z
    assert_mean(draws, [0.4, -0.3], max_stderr=0.01)
    assert_mean((draws - draws.mean(0)[None]) ** 2, np.exp([-1.0, 0.4]), max_stderr=0.02)


def test_amortised_explicit_gaussian(getkey):
    family = ExplicitGaussian(MLP.create(getkey(), 3, 4, width=5))
    context = jnp.array([1.0, -1.0, 0.5])
    assert (family.dim, family.context_dim) == (2, 3)
    assert family.sample(getkey(), context).z.shape == (2,)
    other = family.log_prob(jnp.zeros(2), 2 * context)
    assert family.log_prob(jnp.zeros(2), context) != other


def test_two_nets_give_location_and_softplus_scale(x64, getkey):
    """The paper's standard VAE: N(μ(x), softplus(s(x))²)."""
    family, x, z = FAMILIES["two-nets"](), jnp.array([1.0, -1.0, 0.5]), jnp.array([0.1, 0.9])
    assert (family.dim, family.context_dim) == (2, 3)
    loc, scale = np.asarray(family.loc_net(x)), np.log1p(np.exp(np.asarray(family.scale_net(x))))
    np.testing.assert_allclose(family.log_prob(z, x), scipy.stats.norm(loc, scale).logpdf(z).sum(), rtol=1e-12)
    draws = draw_pairs(getkey(), family, 20_000, jnp.tile(x, (20_000, 1))).z
    assert_mean((draws - loc[None]) / scale[None], 0.0, max_stderr=0.01)
    assert_mean(((draws - loc[None]) / scale[None]) ** 2, 1.0, max_stderr=0.02)
    with pytest.raises(ValueError, match=r"expected a context of shape \(3,\), got None"):
        family.log_prob(z)


def test_two_nets_of_different_sizes_are_refused():
    nets = small_net(2), small_net(3)
    with pytest.raises(ValueError, match=r"the same inputs and outputs, got \[\(2, 2\), \(2, 3\)\]"):
        TwoNetGaussian(*nets)


def test_linear_gaussian_closed_forms(x64, getkey):
    """Marginal and reverse conditional from the joint covariance of (z, ε), by conditioning."""
    conditional = make_oracle(noise_dim=3).conditional
    weight, z = np.asarray(conditional.weight), np.array([1.3, 0.2])
    mean, covariance = conditional.marginal()
    np.testing.assert_allclose(covariance, weight @ weight.T + np.diag(conditional.scale**2))
    gain = weight.T @ np.linalg.inv(covariance)
    reverse_mean, reverse_covariance = conditional.reverse(jnp.asarray(z))
    np.testing.assert_allclose(reverse_mean, gain @ (z - np.asarray(mean)), rtol=1e-10)
    np.testing.assert_allclose(reverse_covariance, np.eye(3) - gain @ weight, atol=1e-12)
    exact = scipy.stats.multivariate_normal(mean, covariance).logpdf(z)
    np.testing.assert_allclose(conditional.marginal_log_prob(jnp.asarray(z)), exact, rtol=1e-12)
    gradient = jax.grad(conditional.marginal_log_prob)(jnp.asarray(z))
    np.testing.assert_allclose(conditional.score(jnp.asarray(z)), gradient, rtol=1e-10)


def test_linear_gaussian_joint_draws(x64, getkey):
    oracle = make_oracle()
    pairs = draw_pairs(getkey(), oracle.family, 20_000)
    products = pairs.z[:, :, None] * pairs.eps[:, None, :]
    assert_mean(products, oracle.conditional.weight, max_stderr=0.015)
    assert_not_mean(products, oracle.conditional.weight.T)


def test_context_enters_the_first_layer_beside_the_noise(getkey):
    """`bind` folds the context into the bias; both equal the net of the joined input."""
    net = MLP.create(getkey(), 2, 3, context_dim=4, width=7)
    eps, context = jax.random.normal(getkey(), (2,)), jax.random.normal(getkey(), (4,))
    weight = jnp.concatenate([net.layers[0].weight, net.context_weight], 1)
    hidden = jax.nn.relu(weight @ jnp.concatenate([eps, context]) + net.layers[0].bias)
    expected = net.layers[2](jax.nn.relu(net.layers[1](hidden)))
    np.testing.assert_allclose(net(eps, context), expected, rtol=1e-5)
    np.testing.assert_allclose(net.bind(context)(eps), expected, rtol=1e-5)
    with pytest.raises(ValueError, match=r"expected a context of shape \(4,\), got None"):
        net(eps)


def test_skip_connection_adds_to_the_first_outputs(getkey):
    key, skip = getkey(), jnp.array([[1.0, 2.0], [3.0, 4.0]])
    plain, skipping = (MLP.create(key, 2, 4, width=5, skip=s) for s in (None, skip))
    eps = jnp.array([0.5, -1.0])
    expected = plain(eps) + jnp.array([-1.5, -2.5, 0.0, 0.0])
    np.testing.assert_allclose(skipping(eps), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("init", "is_output", "weight_sd", "bias_sd"),
    [
        (authors_init, False, 300**-0.5, 300**-0.5),
        (authors_init, True, 1.0, 1.0),
        (he_init, False, (2 / 200) ** 0.5, 0.0),
        (he_init, True, (1 / 200) ** 0.5, 0.0),
        (small_init, False, (2 / 200) ** 0.5, 0.0),
        (small_init, True, 0.1 * (1 / 200) ** 0.5, 0.0),
    ],
)
def test_initialisers(init, is_output, weight_sd, bias_sd, getkey):
    weight, bias = init(getkey(), 200, 300, is_output=is_output)
    assert weight.shape == (300, 200)
    assert bias.shape == (300,)
    assert_mean(weight.ravel()[:, None] ** 2 / weight_sd**2, 1.0, max_stderr=0.01)
    np.testing.assert_allclose(np.std(bias), bias_sd, rtol=0.2)


class WrongDraw(AbstractSimpleConditional):
    """Says it has three coordinates and draws two."""

    dim = 3
    noise_dim = 2

    def sample(self, key, eps, context=None):
        return eps + jax.random.normal(key, (2,))

    def log_prob(self, z, eps, context=None):
        return -jnp.sum((z[:2] - eps) ** 2)


class VectorDensity(AbstractSimpleConditional):
    """Forgets to sum its log density."""

    dim = 2
    noise_dim = 2

    def sample(self, key, eps, context=None):
        return eps + jax.random.normal(key, (2,))

    def log_prob(self, z, eps, context=None):
        return -((z - eps) ** 2)


def small_net(outputs):
    return MLP.create(jax.random.key(0), 2, outputs, width=4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: SemiImplicit(StandardNormal(3), Gaussian(small_net(2), LogScale.create(2))),
            r"expected `eps` of shape \(2,\).*draws \(3,\): give the mixing dim=2",
        ),
        (
            lambda: SemiImplicit(StandardNormal(2), WrongDraw()),
            r"a draw z of WrongDraw of shape \(3,\), got \(2,\): make `sample` and `log_prob`",
        ),
        (
            lambda: SemiImplicit(StandardNormal(2), VectorDensity()),
            r"log_prob of VectorDensity of shape \(\), got \(2,\)",
        ),
        (
            lambda: Gaussian(small_net(2), LogScale.create(3)),
            r"`scale` of shape \(2,\), got \(3,\): the network has 2 outputs",
        ),
        (lambda: Laplace(small_net(2), LogScale.create(3)), r"`scale` of shape \(2,\), got \(3,\)"),
        (lambda: NetGaussian(small_net(3), jnp.zeros(1)), "even number of outputs, got 3"),
        (lambda: NetGaussian(small_net(4), jnp.zeros(3)), r"`offset` of shape \(2,\), got \(3,\)"),
        (lambda: NetGaussian(small_net(4), jnp.zeros(2), bound=0.0), "`bound` to be positive"),
        (lambda: Gamma(small_net(3)), "even number of outputs, got 3: a Gamma takes"),
        (
            lambda: Affine.create(Gaussian(small_net(2), LogScale.create(2)), shift=jnp.zeros(3)),
            r"`shift` of shape \(2,\), got \(3,\)",
        ),
        (
            lambda: Affine.create(Gaussian(small_net(2), LogScale.create(2)), cholesky=jnp.eye(3)),
            r"`cholesky` of shape \(2, 2\), got \(3, 3\)",
        ),
        (
            lambda: Standardised.create(
                Gaussian(small_net(2), LogScale.create(2)), jnp.zeros(2), jnp.ones((2, 2))
            ),
            "a `factor` with an inverse",
        ),
        (
            lambda: LinearGaussian(jnp.ones((2, 2)), jnp.zeros(3), jnp.ones(2)),
            r"`bias` of shape \(2,\), got \(3,\): it must match the rows of `weight`",
        ),
        (lambda: StandardNormal(0), "`dim` to be a positive whole number, got 0"),
        (lambda: Uniform(-1), "`dim` to be a positive whole number, got -1"),
        (lambda: MLP.create(jax.random.key(0), 0, 2), "noise_dim"),
        (lambda: MLP.create(jax.random.key(0), 2, 2, width=0), "width"),
        (lambda: MLP.create(jax.random.key(0), 2, 2, depth=0), "depth"),
    ],
)
def test_bad_input(make, message, unchecked):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_factor_of_extreme_scales_is_inverted_to_single_precision():
    """As of a trend over uncentred years: standard deviations apart by 10⁵, nearly parallel."""
    factor = jnp.array([[20.0, 0.0], [-0.01, 2e-4]])
    made = Standardised.create(Gaussian(small_net(2), LogScale.create(2)), jnp.array([3.0, 0.5]), factor)
    w = jax.random.normal(jax.random.key(0), (100, 2))
    back = jax.vmap(lambda w: made.undo(made.move(w))[0])(w)
    # What is lost is the rounding of z: 0.5 / 2e-4 parts of 6e-8.
    np.testing.assert_allclose(back, w, atol=1e-3)
    np.testing.assert_allclose(made.undo(w[0])[1], np.log(20.0 * 2e-4), rtol=1e-6)
