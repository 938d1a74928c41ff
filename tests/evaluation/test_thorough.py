"""A search from far-off points: it must see a mode that q misses, and keep quiet where there is none."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from tests.evaluation.examples import GOOD
from tests.tiny import explicit_settings
from uivi.evaluation import Check, Thorough, Verdict
from uivi.evaluation.findings import with_verdict
from uivi.evaluation.thorough import search_far
from uivi.targets import Density
from uivi.testing import make_oracle

FAR_MODE = 0.3
NUM_SEEDS = 20


def one_mode(z):
    return jnp.sum(jax.scipy.stats.norm.logpdf(z))


def two_modes(z):
    """The far mode is ten standard deviations away and has 30 % of the mass."""
    far = one_mode(z - jnp.array([10.0, 0.0]))
    return jnp.logaddexp(jnp.log(1 - FAR_MODE) + one_mode(z), jnp.log(FAR_MODE) + far)


def searched(log_density, family, estimator, state=(), log_mass=0.0):
    keys = jax.random.split(jax.random.key(1), NUM_SEEDS)
    draws = jax.vmap(family.sample)(jax.random.split(jax.random.key(0), 512)).z
    target = Density(log_density, 2)
    return [search_far(k, family, target, estimator, state, np.asarray(draws), log_mass) for k in keys]


@pytest.fixture(scope="module")
def explicit():
    return uivi.ExplicitGaussian.create(2, 1.0), uivi.Explicit()


def test_a_far_mode_is_seen(explicit):
    found = searched(two_modes, *explicit, log_mass=np.log(1 - FAR_MODE))
    shares = [each.missed for each in found]
    assert np.mean(shares) == pytest.approx(FAR_MODE, abs=0.05)
    assert min(shares) > 0.1
    assert np.mean([each.distance for each in found]) == pytest.approx(10, abs=1)


def test_a_right_fit_raises_no_alarm(explicit):
    """Not once in twenty searches: then it is less than one in six, at a confidence of 97 %."""
    assert all(each.missed == 0 and each.num_lost == 0 for each in searched(one_mode, *explicit))


def test_a_semi_implicit_fit_raises_no_alarm():
    """Log q is estimated there, with proposals from q(ε)."""
    oracle = make_oracle()
    estimator = uivi.UIVI(sampler=uivi.ISIR(proposal=uivi.reverse.FromMixing()))
    state = estimator.sampler.init(jax.random.key(0), oracle.family)
    density = lambda z: oracle.conditional.marginal_log_prob(z)
    found = searched(density, oracle.family, estimator, state)
    assert all(each.missed == 0 for each in found)


def test_a_posterior_is_searched_on_demand():
    settings = explicit_settings()
    posterior = uivi.fit(two_modes, 2, key=jax.random.key(0), **settings)
    # A family of one's own, so no path has looked around: only the thorough search can see the far mode.
    plain = posterior.check()
    assert plain.thorough is None
    assert not any("thorough" in words for words in plain.advice)
    found = posterior.check(thorough=True)
    assert found.lower == plain.lower
    assert found.verdict is Verdict.BAD
    assert any("the thorough search met a part of the posterior" in words for words in found.advice)
    assert "thorough search     2,048 particles from up to 100 sds away" in str(found)
    assert posterior.check() is found
    assert posterior.check(thorough=True) is found
    again = Check.from_json(found.to_json())
    assert again.thorough == found.thorough


@pytest.mark.parametrize(("factor", "log_mass"), [(np.nan, 0.0), (0.0, 0.0), (1.0, np.nan)])
def test_a_broken_fit_is_not_compared(factor, log_mass, explicit):
    draws = factor * np.random.default_rng(0).standard_normal((64, 2))
    found = search_far(jax.random.key(0), explicit[0], Density(one_mode, 2), explicit[1], (), draws, log_mass)
    assert found == Thorough(0, 2_048, 100.0, 0.0, 0.0)


def test_particles_that_do_not_arrive_are_counted():
    lost = dataclasses.replace(GOOD, thorough=Thorough(0, 2_048, 100.0, 0.0, 0.0))
    assert with_verdict(lost, {}).verdict is Verdict.CARE
    assert "2,048 of them in vain" in str(lost)
