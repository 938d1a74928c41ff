"""Both sides of the ELBO with an implicit prior, against closed forms, with controls that must fail."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from tests.evaluation.test_likelihood import (
    GAIN,
    IMAGES,
    MATRIX,
    NOISE,
    OFFSET,
    Q_COVARIANCE,
    SHIFT,
    semi_implicit,
)
from tests.priors.table import rows, vamp
from uivi.evaluation import evaluate_doubly, learn_proposal
from uivi.evaluation.doubly import tangent_and_jensen
from uivi.families import ExplicitGaussian, LinearGaussian, SemiImplicit, StandardNormal
from uivi.priors import GaussianMixture, Implicit
from uivi.reverse import Learned
from uivi.targets import AbstractPrior, AbstractPriorTarget, Observed
from uivi.testing import (
    assert_mean,
    assert_not_mean,
    make_doubly_oracle,
    make_linear_prior,
    make_oracle,
    negative_doubly_elbo,
    z_threshold,
)

NUM_DRAWS = 2**14
FEW, MANY = 12, 96
"""Numbers of proposals."""
WIDE = Learned(width=16, learning_rate=1e-2, prior_share=0.1, inflation=1.1)


def elbo():
    return -negative_doubly_elbo((make_doubly_oracle().family.conditional, make_linear_prior().conditional))


def evaluate(key, num, prior_proposal=None):
    budget = {"num_draws": NUM_DRAWS, "num_mixing": num, "num_prior": num}
    return evaluate_doubly(key, *make_doubly_oracle(), prior_proposal=prior_proposal, **budget)


def assert_positive(samples):
    samples = np.ravel(samples)
    assert samples.mean() > z_threshold(1) * samples.std(ddof=1) / np.sqrt(samples.size)


def learned(key):
    return learn_proposal(key, Implicit(make_linear_prior()), WIDE, 500)


def test_the_sides_bracket_the_elbo_and_close(x64, getkey):
    proposal, gaps = learned(getkey()), []
    for num in (FEW, MANY):
        evaluated = evaluate(getkey(), num, proposal)
        lower, upper = evaluated.elbo()
        assert (lower.side, upper.side) == ("lower", "upper")
        assert max(lower.stderr, upper.stderr) < 0.04
        assert lower.mean <= elbo() + z_threshold(2) * lower.stderr
        assert upper.mean >= elbo() - z_threshold(2) * upper.stderr
        assert_positive(evaluated.log_prior_high - evaluated.log_prior_low)
        assert evaluated.unsure == 0
        gaps.append(upper.mean - lower.mean)
    assert 0 < 4 * gaps[1] < gaps[0]
    assert gaps[1] < 0.1


def test_the_sides_bracket_the_elbo_of_a_mixture_and_close(x64, getkey):
    """At the same draws of z, which leaves no other error. Swapped sides are the control."""
    family, key = ExplicitGaussian(jnp.array([0.2, -0.4, -0.3, 0.1])), getkey()
    make = lambda prior: Observed(lambda z: -0.5 * jnp.sum((z - 0.5) ** 2), prior)
    exact = evaluate_doubly(key, family, make(GaussianMixture.of_rows(vamp())), num_draws=4_000)
    assert exact.elbo()[0].mean == exact.elbo()[1].mean
    few, many = (
        evaluate_doubly(key, family, make(Implicit(rows())), num_draws=4_000, num_prior=num)
        for num in (FEW, MANY)
    )
    np.testing.assert_array_equal(few.log_likelihood, exact.log_likelihood)
    assert_positive(few.log_prior_high - exact.log_prior_high)
    assert_positive(exact.log_prior_low - few.log_prior_low)
    with pytest.raises(AssertionError):
        assert_positive(few.log_prior_low - exact.log_prior_low)
    for side in (many.log_prior_high, many.log_prior_low):
        assert_mean((side - exact.log_prior_low).T, 0.0, max_stderr=0.002, bias=0.005)
    gap = lambda made: made.elbo()[1].mean - made.elbo()[0].mean
    assert 0 < 4 * gap(many) < gap(few)


def errors(values, exact):
    return np.ravel(values)[:, None] - exact


def test_each_side_of_the_prior_is_on_its_side_of_the_exact_density(x64, getkey):
    """At two points, with many repetitions, and with the power to see it; the other order is the control."""
    proposal = learned(getkey())
    for z in jnp.array([[0.3, 0.8], [1.4, -0.6]]):
        family = ExplicitGaussian(jnp.concatenate([z, jnp.full(2, -20.0)]))
        target = make_doubly_oracle().target
        budget = {"num_draws": 20_000, "num_prior": 6}
        made = evaluate_doubly(getkey(), family, target, prior_proposal=proposal, **budget)
        exact = make_linear_prior().conditional.marginal_log_prob(z)
        assert_positive(made.log_prior_high - exact)
        assert_positive(exact - made.log_prior_low)
        assert_mean(np.exp(errors(made.log_prior_low, exact)), 1.0, max_stderr=0.02)


def test_without_the_generating_noise_the_lower_side_is_not_lower(x64, getkey):
    """Must-fail control. The prior's own bound is tight here, so that it does not hide the fault."""
    proposal = learned(getkey())
    budget = {"num_draws": NUM_DRAWS, "num_mixing": 3, "num_prior": MANY}
    made = evaluate_doubly(getkey(), *make_doubly_oracle(), prior_proposal=proposal, **budget)
    faulty = made.log_likelihood + made.log_prior_low - made.log_q_low
    assert_not_mean(faulty[0][:, None], elbo())
    assert np.mean(faulty) > elbo()
    assert made.elbo()[0].mean < elbo()


def test_weights_that_are_not_left_out_give_no_upper_side(x64, getkey):
    """Must-fail control: h and the weight of the tangent must be independent.

    With h of all draws it is Jensen's side again.
    """
    log_weights = 0.8 * jax.random.normal(getkey(), (20_000, 6)) - 0.32
    high, low = jax.vmap(tangent_and_jensen)(log_weights)
    assert_positive(high)
    assert_positive(-low)
    h = jnp.mean(jnp.exp(log_weights), 1)
    faulty = jnp.mean(jnp.log(h)[:, None] + jnp.exp(log_weights) / h[:, None] - 1, 1)
    assert_positive(-faulty)


def test_the_tangent_leaves_out_each_weight_in_turn():
    log_weights = np.random.default_rng(0).normal(size=5)
    each = []
    for k in range(5):
        others = np.mean(np.exp(np.delete(log_weights, k)))
        each.append(np.log(others) + np.exp(log_weights[k]) / others - 1)
    high, low = tangent_and_jensen(jnp.asarray(log_weights))
    np.testing.assert_allclose(high, np.mean(each), rtol=1e-5)
    np.testing.assert_allclose(low, np.log(np.mean(np.exp(log_weights))), rtol=1e-5)


def test_a_side_without_weights_is_infinite():
    high, low = tangent_and_jensen(jnp.array([-jnp.inf, 0.0, -jnp.inf]))
    assert high == jnp.inf
    assert np.isfinite(low)
    assert tangent_and_jensen(jnp.full(3, -jnp.inf)) == (jnp.inf, -jnp.inf)


def test_a_learned_proposal_is_tighter(x64, getkey):
    """At the same draws. Draws from p(ζ) miss some z: they are counted, and the upper side is useless."""
    proposal, key = learned(getkey()), getkey()
    good, plain = evaluate(key, FEW, proposal), evaluate(key, FEW)
    assert np.array_equal(good.log_likelihood, plain.log_likelihood)
    assert_positive(good.log_prior_low - plain.log_prior_low - 0.1)
    gap = lambda made: np.mean(made.log_prior_high - made.log_prior_low)
    assert gap(good) < 0.02 < 1 < gap(plain)
    assert good.unsure == 0
    assert plain.unsure > 0.01


def test_known_densities_are_exact(x64, getkey):
    """An explicit q and a prior with a density: both sides are the ELBO, as for the same prior by its draws."""
    family = ExplicitGaussian(jnp.array([0.2, -0.4, -0.3, 0.1]))
    likelihood = lambda z: -0.5 * jnp.sum((z - 0.5) ** 2)
    known = Observed(likelihood, vamp())
    made = evaluate_doubly(getkey(), family, known, num_draws=4_000)
    assert made.elbo()[0].mean == made.elbo()[1].mean
    implicit = Observed(likelihood, Implicit(rows()))
    same = evaluate_doubly(getkey(), family, implicit, num_draws=4_000, num_prior=400)
    lower, upper = same.elbo()
    exact = made.elbo()[0]
    error = lambda bound: np.hypot(bound.stderr, exact.stderr)
    assert lower.mean < exact.mean + z_threshold(2) * error(lower)
    assert upper.mean > exact.mean - z_threshold(2) * error(upper)
    assert upper.mean - lower.mean < 0.02


class LinearModel(AbstractPriorTarget):
    """z ~ prior, x ~ N(MATRIX z + OFFSET, NOISE² I); a site is one x."""

    prior: AbstractPrior

    dim = 2
    num_sites = 2

    def sites(self, key, step):
        return jnp.asarray(IMAGES)

    def context(self, site):
        return site

    def log_likelihood(self, z, site):
        return jnp.sum(jax.scipy.stats.norm.logpdf(site, jnp.asarray(MATRIX) @ z + jnp.asarray(OFFSET), NOISE))


def exact_log_marginal():
    """Mean of log p(x) over the images."""
    centre, spread = (np.asarray(x) for x in make_linear_prior().conditional.marginal())
    covariance = MATRIX @ spread @ MATRIX.T + NOISE**2 * np.eye(3)
    return np.mean(scipy.stats.multivariate_normal(MATRIX @ centre + OFFSET, covariance).logpdf(IMAGES))


def exact_elbo():
    """Mean of the ELBO over the images."""
    centre, spread = (np.asarray(x) for x in make_linear_prior().conditional.marginal())
    entropy = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * Q_COVARIANCE)[1]
    values = []
    for image in IMAGES:
        mean = GAIN @ (image - OFFSET) + SHIFT
        normal = scipy.stats.multivariate_normal
        likelihood = normal(MATRIX @ mean + OFFSET, NOISE**2 * np.eye(3)).logpdf(image)
        likelihood -= 0.5 * np.trace(MATRIX.T @ MATRIX @ Q_COVARIANCE) / NOISE**2
        prior = normal(centre, spread).logpdf(mean) - 0.5 * np.trace(np.linalg.solve(spread, Q_COVARIANCE))
        values.append(likelihood + prior + entropy)
    return np.mean(values)


def test_sites_and_contexts_and_log_p(x64, getkey):
    """An amortised family at two sites: log p(x) is approached from below, and beats the ELBO."""
    target = LinearModel(Implicit(make_linear_prior()))
    sites = jnp.asarray(IMAGES)
    budget = {"num_draws": 4_000, "num_mixing": 200, "num_prior": 200}
    made = evaluate_doubly(getkey(), semi_implicit(), target, sites, **budget)
    assert made.log_likelihood.shape == (2, 4_000)
    value, (lower, upper) = made.log_marginal(), made.elbo()
    assert value.side == "lower"
    assert value.stderr < 0.03
    assert abs(value.mean - exact_log_marginal()) < z_threshold(1) * value.stderr + 0.02
    assert upper.mean < value.mean
    assert lower.mean < exact_elbo() + z_threshold(2) * lower.stderr
    assert upper.mean > exact_elbo() - z_threshold(2) * upper.stderr
    assert upper.mean - lower.mean < 0.3
    few = [evaluate_doubly(key, semi_implicit(), target, sites, num_draws=2, num_mixing=2, num_prior=2)
           for key in jax.random.split(getkey(), 60)]  # fmt: skip
    assert_positive(exact_log_marginal() - np.array([x.log_marginal().mean for x in few]))


def gaussian(mean, scale):
    """N(mean, scale² + 0.9²) in one dimension, made implicit."""
    conditional = LinearGaussian(jnp.full((1, 1), scale), jnp.full(1, mean), jnp.full(1, 0.9))
    return SemiImplicit(StandardNormal(1), conditional)


def averages(key, q, draws, num, own):
    """Log of the mean of q(z|ψ) over `num` fresh ψ; with `own` also over the ψ that made z."""

    def one(key, draw):
        psi = jax.vmap(q.mixing.sample)(jax.random.split(key, num))
        logs = jax.vmap(q.conditional.log_prob_of(draw.z))(psi)
        return jax.nn.logsumexp(jnp.append(logs, q.conditional.log_prob(draw.z, draw.eps) if own else -jnp.inf))

    return jax.vmap(one)(jax.random.split(key, len(draws.z)), draws) - np.log(num + own)


def ratio_bound(key, q, p, sizes, own=False):
    """Terms of 1 + E_q g - E_p exp(g) for g, the log ratio of means over fresh noise."""

    def one(key, family, keep):
        draw_key, q_key, p_key = jax.random.split(key, 3)
        draws = jax.vmap(family.sample)(jax.random.split(draw_key, 20_000))
        return averages(q_key, q, draws, sizes[0], keep) - averages(p_key, p, draws, sizes[1], False)

    above, below = (
        one(k, *args) for k, args in zip(jax.random.split(key), ((q, own), (p, False)), strict=True)
    )
    return np.asarray(1 + above - jnp.exp(below))[:, None]


def test_the_ratio_bound_of_the_divergence_needs_the_same_noise_on_both_sides(x64, getkey):
    """1 + E_q g - E_p exp(g) is at most KL(q‖p) if g's noise has one law given z under q and under p.

    The control puts the ψ that made z among the noise under q: the value then exceeds the divergence.
    """
    q, p = gaussian(0.3, 0.5), gaussian(0.0, 0.6)
    variances = 0.5**2 + 0.9**2, 0.6**2 + 0.9**2
    ratio = variances[0] / variances[1]
    divergence = 0.5 * (ratio + 0.3**2 / variances[1] - 1 - np.log(ratio))
    for sizes in ((4, 8), (20, 20)):
        assert_positive(divergence - ratio_bound(getkey(), q, p, sizes))
    assert_mean(ratio_bound(getkey(), q, p, (100, 100)), divergence, max_stderr=0.01, bias=0.03)
    assert_positive(ratio_bound(getkey(), q, p, (1, 100), own=True) - divergence)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_prior": 0}, "`num_prior` to be a positive whole number, got 0"),
        ({"num_mixing": -1}, "`num_mixing` to be a positive whole number, got -1"),
        ({"num_draws": 0}, "`num_draws` to be a positive whole number, got 0"),
        ({"num_prior": 1}, "`num_draws` and `num_prior` of at least 2, got 1000 and 1"),
        ({"num_draws": 1}, "of at least 2, got 1 and 1000"),
    ],
)
def test_counts_are_checked(settings, message, unchecked):
    with pytest.raises(ValueError, match=message):
        evaluate_doubly(jax.random.key(0), *make_doubly_oracle(), **settings)


def test_parts_that_do_not_go_together_are_refused(unchecked):
    key = jax.random.key(0)
    with pytest.raises(ValueError, match=r"a family on 2 dimensions .the target's., got one on 3"):
        evaluate_doubly(key, ExplicitGaussian.create(3), make_doubly_oracle().target)
    with pytest.raises(TypeError, match="a target with a prior, got Density"):
        evaluate_doubly(key, *make_oracle())
    with pytest.raises(ValueError, match="`num_updates` to be a positive whole number, got 0"):
        learn_proposal(key, Implicit(make_linear_prior()), WIDE, 0)
