"""Gradients against the closed-form ELBO of the oracle, with controls that must fail."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.estimators.table import ESTIMATORS, OTHERS, UNBIASED, explicit_family
from tests.reverse.table import LEARNED
from uivi.estimators import UIVI, Explicit, StickingTheLanding
from uivi.estimators.marginal_score import scores
from uivi.families import AbstractExplicit, ExplicitGaussian
from uivi.reverse import ISIR, Exact
from uivi.targets import Density
from uivi.testing import (
    Blind,
    Negated,
    Stuck,
    assert_mean,
    assert_not_mean,
    assert_unbiased,
    check_estimator,
    exact_gradient,
    expected_log_density,
    flat,
    gradient_samples,
    make_oracle,
    negative_conditional_elbo,
    negative_elbo,
    trained_state,
)

NUM_ESTIMATES = 6_000
MAX_STDERR = 0.04


def negative_explicit_elbo(family: ExplicitGaussian):
    """Closed form for the mean-field Gaussian."""
    loc, log_scale = family.parameters()
    entropy = jnp.sum(log_scale) + 0.5 * family.dim * jnp.log(2 * jnp.pi * jnp.e)
    return -expected_log_density(loc, jnp.diag(jnp.exp(2 * log_scale))) - entropy


def exact(family):
    if isinstance(family, ExplicitGaussian):
        return flat(jax.grad(negative_explicit_elbo)(family))
    return exact_gradient(negative_elbo, family.conditional)


def samples_of(key, estimator, family, state=None, target=None):
    target = make_oracle().target if target is None else target
    return gradient_samples(key, estimator, (family, target), NUM_ESTIMATES, state=state)


@pytest.mark.parametrize("name", UNBIASED)
def test_gradient_of_the_elbo(name, x64, getkey):
    """Short chains are biased through their start; these are long enough for none to be seen."""
    row = ESTIMATORS[name]
    family = row.family()
    samples = samples_of(getkey(), row.make(), family, target=row.target())
    assert_unbiased(samples, exact(family), control=-samples, max_stderr=MAX_STDERR)


def test_gradient_with_a_learned_proposal(x64, getkey):
    family = make_oracle().family
    sampler = ISIR(30, 3, LEARNED)
    state = trained_state(getkey(), sampler, family, 200)
    samples = samples_of(getkey(), UIVI(4, sampler), family, state)
    assert_mean(samples, exact(family), max_stderr=MAX_STDERR)


@pytest.mark.parametrize("power", [1.0, 2.0, 5.0])
def test_a_power_of_the_weight_of_the_start_recovers_the_gradient(power, x64, getkey):
    """Of the mutual information, by one round of few proposals; not so the exactly invariant form."""
    oracle = make_oracle()
    state = trained_state(getkey(), ISIR(12, 1, LEARNED), oracle.family, 200)
    samples = samples_of(getkey(), UIVI(16, ISIR(12, 1, LEARNED, start_power=power)), oracle.family, state)
    lost = exact_gradient(negative_conditional_elbo, oracle.conditional)
    gap = exact(oracle.family) - lost
    recovered = ((samples - lost[None]) @ gap / (gap @ gap))[:, None]
    if power == 1:
        assert_not_mean(recovered, 1.0)
    else:
        assert_mean(recovered, 1.0, max_stderr=0.01)


def test_stuck_sampler_gives_the_gradient_of_the_conditional_entropy(x64, getkey):
    """ε′ = ε loses the gradient of the mutual information, exactly as the theory says."""
    oracle = make_oracle()
    samples = samples_of(getkey(), UIVI(4, Stuck()), oracle.family)
    lost = exact_gradient(negative_conditional_elbo, oracle.conditional)
    assert_mean(samples, lost, max_stderr=MAX_STDERR)
    assert_not_mean(samples, exact(oracle.family))


@pytest.mark.parametrize("sampler", [Blind(), Negated()], ids=lambda s: type(s).__name__)
def test_wrong_reverse_draws_are_noticed(sampler, x64, getkey):
    family = make_oracle().family
    assert_not_mean(samples_of(getkey(), UIVI(4, sampler), family), exact(family))


def averaged_scores(family, z, reverse, contexts):
    """One score for the whole batch: its expectation is zero."""
    each = scores(family, z, reverse, contexts)
    return jnp.broadcast_to(jnp.mean(each, 0), each.shape)


def negated_scores(family, z, reverse, contexts):
    """The entropy with the wrong sign."""
    return -scores(family, z, reverse, contexts)


@pytest.mark.parametrize("faulty", [averaged_scores, negated_scores])
def test_wrong_scores_are_noticed(faulty, x64, getkey, monkeypatch):
    monkeypatch.setattr("uivi.estimators.uivi.scores", faulty)
    family = make_oracle().family
    assert_not_mean(samples_of(getkey(), UIVI(4, Exact(2)), family), exact(family))


@pytest.mark.parametrize(
    "name", ["uivi-isir", "uivi-coupled", "prior-score", "explicit", "sticking-the-landing", *OTHERS]
)
def test_the_promises_of_an_estimator(name, getkey):
    """Also that a chain's jump is known if there is a chain."""
    row = ESTIMATORS[name]
    info = check_estimator(getkey(), row.make(), row.family(), row.target())
    assert np.isfinite(info.log_joint)
    assert info.nonfinite == 0
    assert np.isfinite(info.jump) == name.startswith(("uivi", "prior-score", "aisivi", "bsivi"))


def test_path_gradient_has_no_variance_at_the_posterior(x64, getkey):
    """Where q = p the path gradient vanishes draw by draw; the full gradient does so on average only."""
    family = explicit_family()
    target = Density(lambda z: family.log_prob(z), 2)
    path = gradient_samples(getkey(), StickingTheLanding(1), (family, target), 50)
    np.testing.assert_allclose(path, 0.0, atol=1e-12)
    full = gradient_samples(getkey(), Explicit(1), (family, target), 50)
    assert np.max(np.std(full, 0)) > 0.1


def test_nonfinite_draws_are_counted(getkey):
    oracle = make_oracle()
    broken = Density(lambda z: jnp.where(z[0] > 0, jnp.nan, jnp.sum(z)), 2)
    params = (oracle.family, broken)
    estimate = eqx.filter_jit(UIVI(50, Exact(1)).estimate)(getkey(), params, (), jnp.asarray(0), ())
    assert 0 < estimate.info.nonfinite < 50


@pytest.mark.parametrize("name", ESTIMATORS)
def test_wrong_family(name, getkey):
    row = ESTIMATORS[name]
    other = make_oracle().family if isinstance(row.family(), AbstractExplicit) else explicit_family()
    with pytest.raises(TypeError, match=f"expected a .* got {type(other).__name__}: use uivi"):
        row.make().init(getkey(), other, row.target())


@pytest.mark.parametrize("make", [UIVI, Explicit, StickingTheLanding])
@pytest.mark.parametrize("value", [0, -3, True])
def test_bad_number_of_draws(make, value):
    with pytest.raises(ValueError, match=f"`num_draws` to be a positive whole number, got {value}"):
        make(num_draws=value)
