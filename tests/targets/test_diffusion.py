"""The conditioned diffusion: its density against SciPy, its evidence and marginals against known numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from uivi.paper.samplers import BENCHMARKS
from uivi.targets import ConditionedDiffusion, log_density_at
from uivi.testing import z_threshold


def log_joint(target, z):
    """State by state."""
    found, before = 0.0, 0.0
    for i, now in enumerate(z, 1):
        drift = 10 * (before - before**3) / (1 + before**2)
        found += scipy.stats.norm(before + 0.01 * drift, 0.1).logpdf(now)
        if i % 5 == 0:
            found += scipy.stats.norm(now, 0.1).logpdf(target.observations[i // 5 - 1])
        before = now
    return found


def test_density(x64):
    target = ConditionedDiffusion()
    z = np.random.default_rng(0).normal(size=target.dim)
    assert target.dim == 100
    np.testing.assert_allclose(target.log_joint(jnp.asarray(z)), log_joint(target, z), rtol=1e-10)


@pytest.mark.parametrize("name", ["diffusion", "diffusion-paper"])
def test_the_evidence_is_the_published_one(name):
    """To the digits of ORIGIN: an exact filter, written independently of this one."""
    exact = BENCHMARKS[name].make().exact()
    assert exact.log_evidence == pytest.approx(BENCHMARKS[name].evidence.log_z, abs=1e-5)
    width = exact.grid[1] - exact.grid[0]
    np.testing.assert_allclose(exact.densities.sum(1) * width, 1.0, rtol=1e-10)


def test_density_and_filter_belong_together(x64):
    """Importance sampling from a Gaussian with the exact moments of a linear diffusion around a start."""
    target = ConditionedDiffusion(observations=(0.3, -0.2, 0.4), every=2)
    exact = target.exact()
    mode, rng = np.array(exact.mean), np.random.default_rng(1)
    precision = -np.asarray(jax.hessian(target.log_joint)(jnp.asarray(mode)))
    proposal = scipy.stats.multivariate_t(mode, np.linalg.inv(precision), df=30)
    z = proposal.rvs(20_000, random_state=rng)
    logs = np.asarray(log_density_at(target, jnp.asarray(z))) - proposal.logpdf(z)
    weights = np.exp(logs - exact.log_evidence)
    stderr = weights.std(ddof=1) / np.sqrt(len(weights))
    assert stderr < 0.003
    assert abs(weights.mean() - 1) < z_threshold(1) * stderr
    moments = (weights[:, None] * z).mean(0)
    errors = (weights[:, None] * (z - exact.mean)).std(0, ddof=1) / np.sqrt(len(z))
    assert np.all(np.abs(moments - weights.mean() * exact.mean) < z_threshold(target.dim) * errors)
    # Not so with the evidence of other observations.
    other = ConditionedDiffusion(observations=(0.3, -0.2, 0.5), every=2).exact().log_evidence
    assert abs(np.mean(np.exp(logs - other)) - 1) > z_threshold(1) * stderr


def test_bad_settings():
    with pytest.raises(ValueError, match="`every` to be a positive whole number, got 0"):
        ConditionedDiffusion(every=0)
    with pytest.raises(ValueError, match="expected at least one observation"):
        ConditionedDiffusion(observations=())
