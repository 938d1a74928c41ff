"""The aggregated posterior as prior, with the row that has made z counted exactly."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.priors.table import encoder
from uivi.families import MLP, ExplicitGaussian, SemiImplicit, Uniform
from uivi.priors import Bounded, Implicit, Normal, RowConditional, VampPrior, WithOwnRow
from uivi.targets import BernoulliVAE, Observed, Rows
from uivi.testing import assert_mean, assert_not_mean, make_linear_prior

IMAGES = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1]], np.uint8)
OWN = 2


def narrow() -> ExplicitGaussian:
    """The encoder with a hundredth of its scales, so that rows hardly overlap."""
    return eqx.tree_at(lambda e: e.encoder.layers[-1].bias, encoder(), replace_fn=lambda b: b.at[2:].add(-4.6))


def model(images=IMAGES, at=encoder) -> BernoulliVAE:
    prior = Implicit(SemiImplicit(Uniform(1), RowConditional(at(), Rows.create(images))))
    return BernoulliVAE(MLP.create(jax.random.key(0), 2, 3, width=7), Rows.create(images), 3, prior)


def ratios(key, target, exact, z, number):
    """Independent draws of the estimate of p(z) by that of a bound, divided by the exact density."""
    own = jnp.asarray(IMAGES[OWN], float)
    one = lambda key: jnp.exp(target.log_prior_at(key, z, own) - exact.log_prob(z))
    return jax.jit(jax.vmap(one))(jax.random.split(key, number))


def test_the_estimate_of_the_density_is_unbiased(x64, getkey):
    exact = VampPrior(encoder(), Rows.create(IMAGES))
    z = encoder().parameters(jnp.asarray(IMAGES[OWN], float))[0]
    assert_mean(ratios(getkey(), WithOwnRow(model(), 3), exact, z, 20_000), 1.0, max_stderr=0.01)
    # The control: with its own row among the random ones as well, z counts it twice.
    naive = ratios(getkey(), Bounded(model(), 3), exact, z, 20_000)
    itself = jnp.exp(encoder().log_prob(z, jnp.asarray(IMAGES[OWN], float)) - exact.log_prob(z)) / len(IMAGES)
    assert_not_mean(naive + itself, 1.0)


def test_a_row_that_is_there_twice_leaves_a_lower_bound(x64, getkey):
    twice = np.concatenate([IMAGES, IMAGES[OWN][None]])
    exact = VampPrior(encoder(), Rows.create(twice))
    z = encoder().parameters(jnp.asarray(IMAGES[OWN], float))[0]
    found = ratios(getkey(), WithOwnRow(model(twice), 3), exact, z, 20_000)
    missing = jnp.exp(encoder().log_prob(z, jnp.asarray(IMAGES[OWN], float)) - exact.log_prob(z)) / len(twice)
    assert_mean(found, 1.0 - float(missing), max_stderr=0.01)
    assert_not_mean(found, 1.0)


def test_narrow_rows_need_no_luck(x64, getkey):
    """Where rows hardly overlap, the density at z is that of its own row, which random rows miss."""
    exact = VampPrior(narrow(), Rows.create(IMAGES))
    z = narrow().parameters(jnp.asarray(IMAGES[OWN], float))[0]
    own, random = (
        ratios(getkey(), target(model(at=narrow), 3), exact, z, 500) for target in (WithOwnRow, Bounded)
    )
    np.testing.assert_allclose(own, 1.0, rtol=1e-3)
    assert jnp.mean(random < 1e-3) > 0.3


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: WithOwnRow(model(), 0), ValueError, "`num_draws` to be a positive whole number, got 0"),
        (
            lambda: WithOwnRow(Observed(lambda z: jnp.zeros(()), Implicit(make_linear_prior()))),
            TypeError,
            "a prior of rows, with a RowConditional, got LinearGaussian: use uivi.priors.Bounded",
        ),
        (
            lambda: WithOwnRow(Observed(lambda z: jnp.zeros(()), Normal(2))),
            TypeError,
            "implicit prior, got Normal",
        ),
    ],
)
def test_refusals(make, error, message, unchecked):
    with pytest.raises(error, match=message):
        make()
