"""Draws that reach further than q, against closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import uivi
from uivi.evaluation import importance
from uivi.evaluation.look import BATCH, WIDE, look
from uivi.evaluation.verdict import _gaps
from uivi.evaluation.wide import log_ratio, sample_scaled, scale_of
from uivi.families import LinearGaussian, SemiImplicit, StandardNormal
from uivi.families.mixing import Uniform
from uivi.reverse.proposals import AbstractProposal, AbstractProposalAt
from uivi.targets import Density
from uivi.testing import assert_mean, make_oracle


@pytest.mark.parametrize("mixing", [StandardNormal(3), Uniform(3)])
def test_the_ratio_of_wide_noise_integrates_to_one(mixing, getkey):
    """E over q(ε) of r(ε)/q(ε) is one, whatever the share."""
    u = jax.random.normal(getkey(), (200_000, 3))
    ratios = jax.vmap(lambda v: jnp.exp(log_ratio(mixing, mixing.from_normal(v), 0.3)))(u)
    assert_mean(ratios, 1.0, max_stderr=0.01)


def test_a_scale_of_one_draws_from_q(getkey):
    family = make_oracle().family
    key = getkey()
    np.testing.assert_array_equal(sample_scaled(key, family, jnp.float32(1.0)).z, family.sample(key).z)


class ReverseAt(AbstractProposalAt):
    """N(mean, factor factorᵀ)."""

    mean: jax.Array
    factor: jax.Array

    def sample(self, key, num):
        return self.mean[None] + jax.random.normal(key, (num, len(self.mean))) @ self.factor.T

    def log_prob(self, eps):
        u = jnp.linalg.solve(self.factor, eps - self.mean)
        log_det = jnp.linalg.slogdet(self.factor)[1]
        return -0.5 * jnp.sum(u**2) - log_det - 0.5 * len(u) * jnp.log(2 * jnp.pi)


class WideReverse(AbstractProposal):
    """The exact reverse conditional of a `LinearGaussian`, a fifth too wide."""

    def init(self, key, family):
        del key, family
        return ()

    def at(self, family, z, context, state):
        del context, state
        mean, covariance = family.conditional.reverse(z)
        return ReverseAt(mean, 1.2 * jnp.linalg.cholesky(covariance))

    def inputs(self, family, z, context):
        del family, z, context
        return ()

    def adapt(self, state, eps, inputs):
        del eps, inputs
        return state


def look_at(family, log_density, num_batches):
    estimator = uivi.UIVI(sampler=uivi.ISIR(8, 1, WideReverse()))
    return look(
        jax.random.key(1), family, Density(log_density, 2), estimator, (), num_draws=num_batches * BATCH
    )


def test_the_density_of_the_pooled_draws():
    oracle = make_oracle()
    conditional = oracle.conditional
    found = look_at(oracle.family, lambda z: jnp.sum(z), 4)
    z, _, log_q, log_r, is_wide = found.pooled
    assert is_wide.sum() == 4 * WIDE
    share, scale = WIDE / (BATCH + WIDE), scale_of(oracle.family.mixing)
    weight, loc, sd = (np.asarray(x) for x in (conditional.weight, conditional.bias, conditional.scale))
    exact_q, exact_wide = (
        scipy.stats.multivariate_normal(loc, c**2 * weight @ weight.T + np.diag(sd**2)).logpdf(z)
        for c in (1.0, scale)
    )
    exact_r = np.logaddexp(np.log1p(-share) + exact_q, np.log(share) + exact_wide)
    # The ε of a wide draw counts among 256 proposals for q. It makes log r of some draws too large.
    for ours, exact in ((log_q, exact_q), (log_r, exact_r)):
        assert np.quantile(np.abs(ours - exact), 0.95) < 0.3
        assert abs(np.mean(ours - exact)) < 0.05
    assert np.mean(exact_wide[is_wide] > exact_q[is_wide]) > 0.5, "wide draws are where q has little"
    assert np.max(np.abs(log_r - exact_q)) > 1, "the control"


def test_wide_draws_see_a_tail_that_q_hardly_visits():
    """q = N(0, I), p = 0.98 N(0, I) + 0.02 N(0, 3² I), whose standard deviations are 1.08."""
    conditional = LinearGaussian(np.sqrt(0.9) * jnp.eye(2), jnp.zeros(2), jnp.full((2,), np.sqrt(0.1)))
    family = SemiImplicit(StandardNormal(2), conditional)

    def log_density(z):
        square = jnp.sum(z**2)
        return jnp.logaddexp(jnp.log(0.98) - 0.5 * square, jnp.log(0.02 / 9) - 0.5 * square / 9)

    found = look_at(family, log_density, 16)
    exact = abs(1 / np.sqrt(0.98 + 0.02 * 9) - 1)
    pooled = _gaps(found, lambda z: z)
    assert pooled.sd_stderr < 0.02
    assert abs(pooled.sd - exact) < 3 * pooled.sd_stderr
    own = importance.moment_gaps(found.evaluated.z, found.evaluated.log_p - found.evaluated.log_q_high)
    assert own.sd < 0.7 * exact, "the control: q's own draws"
