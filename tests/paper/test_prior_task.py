"""Models with priors are judged by their densities where there are any."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.priors.table import encoder, vamp
from uivi.families import MLP, ExplicitGaussian, SemiImplicit, Uniform
from uivi.paper.prior.task import BUDGETS, judge, summary, with_density
from uivi.priors import GaussianMixture, Implicit, RowConditional
from uivi.targets import BernoulliVAE, Rows

IMAGES = (np.random.default_rng(3).random((6, 3)) < 0.4).astype(np.uint8)


def model(prior):
    return BernoulliVAE(MLP.create(jax.random.key(0), 2, 3, width=7), Rows.create(IMAGES), 3, prior)


def aggregated():
    return Implicit(SemiImplicit(Uniform(1), RowConditional(encoder(), Rows.create(IMAGES))))


@pytest.mark.parametrize("make", [vamp, aggregated])
def test_a_prior_of_rows_is_judged_by_its_density(make):
    z, prior = jnp.array([0.4, -0.3]), make()
    found = with_density(model(prior)).prior
    assert isinstance(found, GaussianMixture)
    rows = prior.distribution().conditional.rows.stored() if isinstance(prior, Implicit) else prior.rows
    each = jax.vmap(lambda row: encoder().log_prob(z, row))(rows.astype(float))
    np.testing.assert_allclose(found.log_prob(z), jax.nn.logsumexp(each) - np.log(len(rows)), rtol=1e-5)


def test_another_prior_is_left_alone():
    plain = model(None)
    assert with_density(plain) is plain


def test_all_numbers_of_a_fit(getkey):
    """Two of them are the same for a prior with a density."""
    images, family = jnp.asarray(IMAGES, jnp.float32), ExplicitGaussian(MLP.create(getkey(), 3, 4, width=6))
    target = with_density(model(aggregated()))
    found = summary(judge(getkey(), family, target, images, BUDGETS["smoke"]))
    assert found["log_p"]["side"] == found["elbo_lower"]["side"] == "lower"
    assert found["elbo_upper"]["side"] == "upper"
    assert found["width"] == found["unsure"] == 0
    assert found["elbo_lower"]["mean"] < found["log_p"]["mean"] < 0
