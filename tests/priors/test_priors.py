"""Densities and draws of priors belong together; what is not trained stays; bad input is refused at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.priors.table import IMPLICIT, KNOWN, PRIORS, encoder, rows, vamp, vamp_at_data
from uivi.families import MLP, ExplicitGaussian, Gaussian, LogScale, SemiImplicit, StandardNormal
from uivi.priors import FixedImplicit, GaussianMixture, Implicit, Normal, RowConditional, VampPrior
from uivi.targets import Rows
from uivi.testing import assert_mean, assert_not_mean, make_linear_prior
from uivi.trainable import trained


@pytest.mark.parametrize("name", PRIORS)
def test_the_role_of_a_prior(name, getkey):
    """One draw has the size of z, and the noise that made it where there is some."""
    prior = PRIORS[name]()
    draw = jax.jit(lambda key: prior.sample(key))(getkey())
    assert draw.z.shape == (prior.dim,) == (2,)
    assert draw.eps.shape == ((prior.distribution().noise_dim,) if name in IMPLICIT else (0,))
    assert np.all(np.isfinite(draw.z))


@pytest.mark.parametrize("name", KNOWN)
def test_the_density_is_normalised(name, x64):
    prior = KNOWN[name]()
    axis = jnp.arange(-9.0, 9.0, 0.05)
    grid = jnp.stack(jnp.meshgrid(axis, axis), -1).reshape(-1, 2)
    mass = jnp.sum(jnp.exp(jax.lax.map(prior.log_prob, grid, batch_size=4_096))) * 0.05**2
    np.testing.assert_allclose(mass, 1.0, atol=1e-5)


def scores_at(prior, density, key, shift=0.0):
    draws = jax.vmap(prior.sample)(jax.random.split(key, 20_000)).z + shift
    return draws, jax.vmap(jax.grad(density))(draws)


def assert_belong_together(prior, density, key):
    """E ∇log p(z) = 0 and E z ∇log p(z)ᵀ = -I hold only for draws of the density; the control is shifted."""
    draws, score = scores_at(prior, density, key)
    assert_mean(score, 0.0, max_stderr=0.05)
    assert_mean(draws[:, :, None] * score[:, None, :], -np.eye(2), max_stderr=0.1)
    assert_not_mean(scores_at(prior, density, key, 0.2)[1], 0.0)


@pytest.mark.parametrize("name", KNOWN)
def test_draws_follow_the_density(name, x64, getkey):
    prior = KNOWN[name]()
    assert_belong_together(prior, prior.log_prob, getkey())


def test_a_prior_of_rows_is_the_mixture_of_their_gaussians(x64, getkey):
    """Its draws follow the density of `VampPrior`, which is also the mean of p(z|ζ) over all rows."""
    known, implicit = vamp(), Implicit(rows())
    assert_belong_together(implicit, known.log_prob, getkey())
    zeta = (jnp.arange(float(known.num_rows)) + 0.5)[:, None] / known.num_rows
    z = jnp.array([0.3, -0.8])
    each = jax.vmap(lambda e: implicit.distribution().conditional.log_prob(z, e))(zeta)
    found = jax.nn.logsumexp(each) - jnp.log(known.num_rows)
    np.testing.assert_allclose(found, known.log_prob(z), rtol=1e-12)


def test_every_row_is_as_likely(getkey):
    """The edges of ζ included."""
    prior = rows()
    assert isinstance(prior.conditional, RowConditional)
    picked = lambda eps: jnp.argmin(
        jnp.sum((prior.conditional.rows - prior.conditional._row_at(eps)[None]) ** 2, 1)
    )
    zeta = jnp.linspace(0.0, 1.0, 1_001)[:, None]
    assert np.array_equal(np.bincount(jax.vmap(picked)(zeta)), [200, 200, 200, 200, 201])


@pytest.mark.parametrize("make", [vamp, lambda: Implicit(rows())])
def test_pseudo_inputs_are_trained(make):
    shapes = [leaf.shape for leaf in jax.tree.leaves(trained(make()))]
    assert (5, 3) in shapes
    assert len(shapes) > 1


def test_rows_of_data_are_not_trained_but_their_encoder_is():
    prior = vamp_at_data()
    leaves = jax.tree.leaves(trained(prior))
    assert [x.shape for x in leaves] == [x.shape for x in jax.tree.leaves(trained(prior.encoder))]
    assert prior.row(jnp.asarray(2)).dtype == jnp.float32


@pytest.mark.parametrize("make", [vamp, vamp_at_data])
def test_the_mixture_of_rows_has_the_same_density(make, x64):
    """Padding has no part in it."""
    prior = make()
    z = jnp.array([0.3, -0.8])
    found = GaussianMixture.of_rows(prior).log_prob(z)
    np.testing.assert_allclose(found, prior.log_prob(z), rtol=1e-12)
    rows = prior.rows.stored()[:7].astype(float) if isinstance(prior.rows, Rows) else prior.rows
    each = jax.vmap(lambda row: prior.encoder.log_prob(z, row))(rows)
    np.testing.assert_allclose(found, jax.nn.logsumexp(each) - np.log(len(rows)), rtol=1e-12)


def test_draws_come_from_the_rows_without_their_padding(x64, getkey):
    conditional = RowConditional(encoder(), Rows.create(np.arange(1.0, 22.0).reshape(7, 3), pad_to=9))
    zeta = jnp.linspace(0.0, 1.0, 701)[:, None]
    picked = np.asarray(jax.vmap(conditional._row_at)(zeta))[:, 0]
    assert np.array_equal(np.unique(picked), np.arange(1.0, 22.0, 3))
    assert np.max(np.abs(np.bincount(picked.astype(int))[1::3] - 100)) <= 1


def test_a_fixed_prior_draws_the_same_and_has_no_gradient(getkey):
    prior, fixed, key = Implicit(make_linear_prior()), FixedImplicit.create(make_linear_prior()), getkey()
    assert not jax.tree.leaves(trained(fixed))
    assert len(jax.tree.leaves(trained(prior))) == 3
    for one, other in zip(prior.sample(key), fixed.sample(key), strict=True):
        assert np.array_equal(one, other)

    def density(prior, z):
        return prior.distribution().conditional.log_prob(z, jnp.ones(2))

    z = jnp.array([0.4, 0.1])
    np.testing.assert_array_equal(jax.grad(density, 1)(prior, z), jax.grad(density, 1)(fixed, z))
    assert all(not np.any(x) for x in jax.tree.leaves(jax.grad(density)(fixed, z)))
    assert all(np.any(x) for x in jax.tree.leaves(jax.grad(density)(prior, z)))


def amortised():
    net = MLP.create(jax.random.key(0), 1, 2, context_dim=3, width=4)
    return SemiImplicit(StandardNormal(1), Gaussian(net, LogScale.create(2)))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Normal(0), ValueError, "`size` to be a positive whole number, got 0"),
        (lambda: Implicit(amortised()), ValueError, "prior without context, got one with context_dim=3"),
        (lambda: FixedImplicit.create(amortised()), ValueError, "uivi.priors.RowConditional"),
        (lambda: Implicit(encoder()), TypeError, "uivi.SemiImplicit for an implicit prior, got ExplicitGauss"),
        (
            lambda: GaussianMixture(jnp.zeros((3, 2)), jnp.zeros((2, 2)), jnp.zeros(3)),
            ValueError,
            r"`log_scale` of shape \(3, 2\), got \(2, 2\)",
        ),
        (
            lambda: GaussianMixture(jnp.zeros((0, 2)), jnp.zeros((0, 2)), jnp.zeros(0)),
            ValueError,
            r"at least one row, of shape \(K, D\), got \(0, 2\)",
        ),
        (lambda: VampPrior(encoder(), jnp.zeros((0, 3))), ValueError, r"at least one row, of shape \(K, 3\)"),
        (lambda: VampPrior(encoder(), jnp.zeros((4, 2))), ValueError, r"\(K, 3\), got \(4, 2\)"),
        (
            lambda: RowConditional(ExplicitGaussian.create(2), Rows.create(np.zeros((4, 2)))),
            ValueError,
            "an encoder with a context, got ExplicitGaussian without one",
        ),
    ],
)
def test_bad_priors(make, error, message, unchecked):
    with pytest.raises(error, match=message):
        make()
