"""A prior with the family's own encoder: the gradient of both uses, and copies that stay equal."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.priors.table import encoder, vamp
from uivi.estimators import SIVI, UIVI, Explicit, PriorScore, SharedEncoder, lend
from uivi.families import MLP, ExplicitGaussian, SemiImplicit, Uniform
from uivi.priors import Bounded, Implicit, RowConditional, VampPrior
from uivi.reverse import FromMixing, Importance
from uivi.targets import BernoulliVAE, Rows
from uivi.testing import flat
from uivi.trainable import trained
from uivi.training.optimisers import adam_cosine
from uivi.training.update import Method, initial_state, run_updates

IMAGES = (np.random.default_rng(3).random((6, 3)) < 0.4).astype(np.uint8)


def other():
    return ExplicitGaussian(MLP.create(jax.random.key(9), 3, 4, width=6))


def make_target(kind):
    """A VAE whose prior is a VampPrior, or the aggregated posterior by draws of its rows."""
    if kind == "vamp":
        return vae(VampPrior(encoder(), 0.5 * jnp.ones((4, 3))))
    at_data = RowConditional(encoder(), Rows.create(IMAGES))
    return Bounded(vae(Implicit(SemiImplicit(Uniform(1), at_data))), 5)


def vae(prior):
    return BernoulliVAE(MLP.create(jax.random.key(0), 2, 3, width=7), Rows.create(IMAGES), 3, prior)


METHODS = {
    "vamp": Explicit(2),
    "aggregated, bound": Explicit(2),
    "aggregated, score": PriorScore(Explicit(2), Importance(5, FromMixing()), num_pairs=4),
}


@pytest.mark.parametrize("kind", METHODS)
def test_the_gradient_is_that_of_both_uses(kind, x64, getkey):
    """The sum of two gradients: of the family with the prior held, and of the prior with the family held."""
    inner, family, target, key = METHODS[kind], other(), lend(make_target(kind), other()), getkey()
    sites, step = target.sites(key, jnp.asarray(0)), jnp.asarray(0)
    shared = SharedEncoder(inner)
    found = shared.estimate(key, (family, target), sites, step, shared.init(key, family, target)).grads
    plain = inner.estimate(key, (family, target), sites, step, inner.init(key, family, target)).grads
    prior = plain[1].prior if kind == "vamp" else plain[1].target.prior.family.conditional
    expected = flat(plain[0]) + flat(prior.encoder)
    np.testing.assert_allclose(flat(found[0]), expected, rtol=1e-10)
    assert np.max(np.abs(flat(prior.encoder))) > 1e-3
    decoder = lambda grads: flat((grads[1] if kind == "vamp" else grads[1].target).decoder)
    np.testing.assert_array_equal(decoder(found), decoder(plain))


@pytest.mark.parametrize("kind", METHODS)
def test_both_copies_stay_equal_bit_by_bit(kind):
    method, family = Method(SharedEncoder(METHODS[kind]), adam_cosine(10, weight_decay=0.1)), other()
    target = lend(make_target(kind), family)
    state, info = run_updates(method, initial_state(jax.random.key(0), method, family, target), 4)
    assert info.skipped == 0
    prior = state.target.prior if kind == "vamp" else state.target.target.prior.family.conditional
    assert np.array_equal(flat(prior.encoder), flat(state.family))
    assert np.all(np.isfinite(flat(state.family)))
    assert not np.array_equal(flat(family), flat(state.family))
    if kind == "vamp":
        assert np.any(prior.rows != 0.5)


def test_without_sharing_the_copies_part():
    """The control."""
    method, family = Method(Explicit(2), adam_cosine(10)), other()
    start = initial_state(jax.random.key(0), method, family, lend(make_target("vamp"), family))
    state, _ = run_updates(method, start, 4)
    assert not np.array_equal(flat(state.target.prior.encoder), flat(state.family))


def test_lent_encoders_are_the_family():
    lent = lend(make_target("vamp"), other())
    assert np.array_equal(flat(lent.prior.encoder), flat(other()))
    assert jax.tree.structure(trained(lent)) == jax.tree.structure(trained(make_target("vamp")))


def test_a_prior_with_another_encoder_is_refused(unchecked):
    method = Method(SharedEncoder(Explicit(2)), adam_cosine(10))
    with pytest.raises(Exception, match="make the target by uivi.estimators.lend"):
        initial_state(jax.random.key(0), method, other(), make_target("vamp"))


@pytest.mark.parametrize(
    ("estimator", "family", "target", "message"),
    [
        (Explicit(2), other(), vae(None), "a prior of rows, .* got BernoulliVAE without one"),
        (Explicit(2), ExplicitGaussian.create(2), vae(vamp()), "family of the kind of the prior's encoder"),
        (UIVI(2), encoder(), vae(vamp()), "SemiImplicit family for UIVI"),
        (SIVI(2), encoder(), vae(vamp()), "SemiImplicit family for SIVI"),
    ],
)
def test_parts_that_do_not_go_together_are_refused(estimator, family, target, message, unchecked):
    with pytest.raises(TypeError, match=message):
        SharedEncoder(estimator).init(jax.random.key(0), family, target)
