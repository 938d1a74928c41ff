"""Tests annealed importance sampling against closed forms and quadrature, with controls that must fail."""

import dataclasses
import doctest
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from uivi.evaluation import annealing
from uivi.evaluation.annealing import AIS, Tuning
from uivi.families import LinearGaussian, StandardNormal, Uniform
from uivi.testing import assert_mean, assert_not_mean, make_oracle, z_threshold

SHORT = AIS(num_temperatures=6, num_leapfrog=3, num_grid=8, num_moves=8)
LONG = dataclasses.replace(SHORT, num_temperatures=64)
"""SHORT has few temperatures, so that the weights vary and faults show. The inverse weights have heavier tails
and need more."""
NUM = 2**12


def chains(method, key, num=NUM):
    """Returns `method(key)` over `num` keys, compiled."""
    return jax.jit(jax.vmap(method))(jax.random.split(key, num))


def linear_gaussian():
    """Returns prior, log likelihood, log Z and a sampler of the posterior; nothing is symmetric."""
    conditional, z = make_oracle(3).conditional, jnp.array([1.4, -1.9])
    log_likelihood = lambda eps: conditional.log_prob(z, eps)
    draw = lambda key: conditional.sample_reverse(key, z)
    return StandardNormal(3), log_likelihood, conditional.marginal_log_prob(z), draw


def wave():
    """Returns a wavy ridge in two dimensions, with Z by quadrature and posterior draws by rejection.

    ℓ falls no faster than the prior: with lighter tails the variance of the inverse weights would be infinite.
    """
    distance = lambda first, second, sin: (sin(2 * first) + 0.5 * second - 0.8) / 0.5
    log_likelihood = lambda v: -0.5 * distance(v[0], v[1], jnp.sin) ** 2
    side = np.linspace(-9, 9, 1201)
    first, second = np.meshgrid(side, side, indexing="ij")
    density = np.exp(-0.5 * (distance(first, second, np.sin) ** 2 + first**2 + second**2)) / (2 * np.pi)
    log_z = math.log(density.sum() * (side[1] - side[0]) ** 2)
    assert math.exp(log_z) > 0.3

    def draw(key):
        draw_key, accept_key = jax.random.split(key)
        candidates = jax.random.normal(draw_key, (256, 2))
        accepted = jax.random.uniform(accept_key, (256,)) < jnp.exp(jax.vmap(log_likelihood)(candidates))
        return candidates[jnp.argmax(accepted)]  # each passes with probability Z > 0.3, so one does

    return StandardNormal(2), log_likelihood, log_z, draw


def half_line():
    """Returns a normal likelihood that is NaN for negative v. The posterior is a truncated normal."""
    mean, scale = 1 / 1.64, math.sqrt(0.64 / 1.64)
    below = scipy.stats.norm.cdf(-mean / scale)
    log_z = scipy.stats.norm.logpdf(1, 0, math.sqrt(1.64)) + math.log1p(-below)

    def log_likelihood(v):
        return jnp.where(v[0] > 0, jax.scipy.stats.norm.logpdf(1.0, v[0], 0.8), jnp.nan)

    def draw(key):
        u = jax.random.uniform(key, (1,))
        return mean + scale * jax.scipy.special.ndtri(below + u * (1 - below))

    return StandardNormal(1), log_likelihood, float(log_z), draw


def box():
    """Returns a uniform prior with a normal likelihood, which the box cuts off."""
    mean, scale = np.array([0.2, 1.1]), np.array([0.4, 0.5])
    low, high = scipy.stats.norm.cdf((0 - mean) / scale), scipy.stats.norm.cdf((1 - mean) / scale)
    log_z = float(np.sum(np.log(high - low)))

    def log_likelihood(v):
        return jnp.sum(jax.scipy.stats.norm.logpdf(v, jnp.asarray(mean), jnp.asarray(scale)))

    def draw(key):
        u = jax.random.uniform(key, (2,))
        return jnp.asarray(mean) + jnp.asarray(scale) * jax.scipy.special.ndtri(low + u * (high - low))

    return Uniform(2), log_likelihood, log_z, draw


PROBLEMS = [linear_gaussian, wave, half_line, box]


def tune(key, ais, prior, log_likelihood):
    return jax.jit(lambda key: ais.tune(key, prior, log_likelihood))(key)


def forward_errors(key, problem, tuning, ais=LONG, num=NUM):
    """Returns log w - log Z of forward chains."""
    prior, log_likelihood, log_z, _ = problem
    return chains(lambda key: ais.forward(key, prior, log_likelihood, tuning), key, num) - log_z


def backward_errors(key, problem, tuning, ais=LONG, num=NUM):
    """Returns log w - log Z of backward chains from draws of the posterior."""
    prior, log_likelihood, log_z, draw = problem

    def one(key):
        start_key, chain_key = jax.random.split(key)
        return ais.backward(chain_key, prior, log_likelihood, draw(start_key), tuning)

    return chains(one, key, num) - log_z


@pytest.mark.parametrize("make", PROBLEMS)
def test_weights_are_unbiased_for_z_and_inverse_weights_for_its_inverse(x64, getkey, make):
    """If half the prior mass has zero likelihood, the inverse weights only see the other half."""
    problem = make()
    tuning = tune(getkey(), LONG, *problem[:2])
    assert_mean(jnp.exp(forward_errors(getkey(), problem, tuning)), 1.0, max_stderr=0.02)
    inverse = 0.5 if make is half_line else 1.0
    assert_mean(jnp.exp(-backward_errors(getkey(), problem, tuning)), inverse, max_stderr=0.02)


def test_weighing_after_the_move_is_noticed(x64, getkey):
    prior, log_likelihood, log_z, _ = linear_gaussian()
    tuning = tune(getkey(), SHORT, prior, log_likelihood)
    evaluate = annealing._evaluator(prior, log_likelihood)
    betas, increments, sizes = SHORT._schedule(tuning, jnp.float64)

    def trace(key):
        start_key, chain_key = jax.random.split(key)
        return SHORT._trace(chain_key, evaluate, evaluate(prior.sample(start_key)), betas, sizes)

    traces = chains(trace, getkey())
    assert_mean(jnp.exp(traces[:, :-1] @ increments - log_z), 1.0, max_stderr=0.04)
    assert_not_mean(jnp.exp(traces[:, 1:] @ increments - log_z), 1.0)


def test_a_backward_chain_from_the_prior_is_noticed(x64, getkey):
    problem = linear_gaussian()
    from_prior = (*problem[:3], problem[0].sample)
    tuning = tune(getkey(), LONG, *problem[:2])
    assert_not_mean(jnp.exp(-backward_errors(getkey(), from_prior, tuning)), 1.0)


def test_a_step_tuned_for_another_density_leaves_the_weights_unbiased(x64, getkey):
    """Bad step sizes cost variance, never bias: nothing adapts while weighing."""
    prior, log_likelihood, log_z, _ = linear_gaussian()

    def both(key):
        tunings = Tuning(jnp.array([[1e-3, 1e-3], [1.2, 1.2]]), jnp.full((2, 2), jnp.nan))
        forward = lambda key, tuning: SHORT.forward(key, prior, log_likelihood, tuning)
        return jax.vmap(forward)(jax.random.split(key), tunings)

    assert_mean(jnp.exp(chains(both, getkey()) - log_z), 1.0, max_stderr=0.06)


def test_the_sides_bracket_log_z_and_close_with_more_temperatures(x64, getkey):
    problem, gaps = linear_gaussian(), []
    tuning = tune(getkey(), SHORT, *problem[:2])
    for num_temperatures in (4, 32):
        ais = dataclasses.replace(SHORT, num_temperatures=num_temperatures)
        both = (forward_errors, backward_errors)
        forward, backward = (np.asarray(f(getkey(), problem, tuning, ais, num=2048)) for f in both)
        for excess in (-forward, backward):
            assert excess.mean() > z_threshold(1) * excess.std(ddof=1) / math.sqrt(excess.size)
        gaps.append(backward.mean() - forward.mean())
    assert gaps[1] < gaps[0] / 4, gaps


def regressions(num, scale):
    """Returns regressions of 20 observations on 10 coefficients: z, the ε that generated it, and log Z."""
    weight = jax.random.normal(jax.random.key(100), (20, 10))
    conditional = LinearGaussian(weight, jnp.zeros(20), jnp.full(20, scale))
    eps = jax.random.normal(jax.random.key(101), (num, 10))
    z = jax.vmap(conditional.sample)(jax.random.split(jax.random.key(102), num), eps)
    return conditional, z, eps, jax.vmap(conditional.marginal_log_prob)(z)


def test_sandwich_over_a_batch_of_problems_in_single_precision(getkey):
    conditional, z, eps, log_z = regressions(48, scale=1.0)
    ais = AIS(num_temperatures=150, num_grid=16)

    def one(key, z, start):
        return ais.sandwich(key, StandardNormal(10), lambda v: conditional.log_prob(z, v), start, 8)

    keys = jax.random.split(getkey(), 48)
    result = jax.jit(jax.vmap(one))(keys, z, eps)
    assert result.lower.dtype == jnp.float32
    assert result.lower.shape == result.upper.shape == result.lower_stderr.shape == (48,)
    assert_mean(jnp.exp(result.lower - log_z), 1.0, max_stderr=0.1)
    assert_mean(jnp.exp(log_z - result.upper), 1.0, max_stderr=0.1)
    assert 0 < jnp.mean(result.upper - result.lower) < 0.5
    # Control: each result belongs to its own problem.
    assert jnp.std(result.lower - jnp.roll(log_z, 1)) > 5 * jnp.std(result.lower - log_z)


def test_sandwich_pools_its_chains_on_the_right_side(x64, getkey):
    """Each pooled mean stays unbiased, and its standard error matches the spread of independent sandwiches."""
    prior, log_likelihood, log_z, draw = linear_gaussian()

    def one(key):
        sandwich_key, start_key = jax.random.split(key)
        result = SHORT.sandwich(sandwich_key, prior, log_likelihood, draw(start_key), 16)
        return result.lower - log_z, log_z - result.upper, result.lower_stderr

    lower, minus_upper, stderr = chains(one, getkey(), num=256)
    assert_mean(jnp.exp(lower), 1.0, max_stderr=0.04)
    assert_mean(jnp.exp(minus_upper), 1.0, max_stderr=0.04)
    assert 0.7 < jnp.mean(stderr) / jnp.std(lower) < 1.4


def test_without_an_exact_draw_there_is_no_upper_side(getkey):
    prior, log_likelihood, _, _ = linear_gaussian()
    result = jax.eval_shape(lambda key: SHORT.sandwich(key, prior, log_likelihood, None, 4), getkey())
    assert result.upper is None
    assert result.upper_stderr is None
    assert result.lower.shape == ()


def test_tuning_reaches_its_target_and_respects_the_bound(getkey):
    conditional, z, _, _ = regressions(1, scale=0.3)
    ais = AIS(num_temperatures=10, num_pilot=32)
    log_likelihood = lambda v: conditional.log_prob(z[0], v)
    tuning = tune(getkey(), ais, StandardNormal(10), log_likelihood)
    assert tuning.step_sizes.shape == tuning.acceptance.shape == (ais.num_grid,)
    assert jnp.max(tuning.step_sizes) <= ais.longest / ais.num_leapfrog * (1 + 1e-5)
    free = tuning.step_sizes < 0.9 * ais.longest / ais.num_leapfrog
    assert jnp.sum(free) > ais.num_grid // 2
    np.testing.assert_allclose(tuning.acceptance[free], ais.target, atol=0.1)
    assert tuning.step_sizes[-1] < 0.5 * tuning.step_sizes[0]


def test_starts_without_likelihood(getkey):
    """The forward weight is zero, and the backward one NaN: the start is no draw from the posterior."""
    prior = StandardNormal(1)
    nowhere = lambda v: jnp.sum(v) - jnp.inf
    run = jax.jit(lambda key: SHORT.sandwich(key, prior, nowhere, jnp.zeros(1), 2))
    result = run(getkey())
    assert jnp.all(jnp.isfinite(result.tuning.step_sizes))
    assert result.lower == -jnp.inf
    assert jnp.isnan(result.upper)


def test_one_temperature_is_importance_sampling_from_the_prior(getkey):
    prior, log_likelihood, _, _ = linear_gaussian()
    ais, key = dataclasses.replace(SHORT, num_temperatures=1), getkey()
    weight = ais.forward(key, prior, log_likelihood, Tuning(jnp.ones(2), jnp.ones(2)))
    draw = prior.sample(jax.random.split(key)[0])
    np.testing.assert_allclose(weight, log_likelihood(draw), rtol=1e-6)


def test_the_temperatures_rise_from_zero_to_one_and_crowd_at_both_ends():
    betas = annealing._temperatures(np.linspace(0, 1, 101))
    steps = np.diff(betas)
    assert betas[0] == 0
    assert betas[-1] == 1
    assert np.all(steps > 0)
    np.testing.assert_allclose(steps, steps[::-1])
    assert steps[0] < 0.1 * steps[50]


@pytest.mark.parametrize("name", ["num_temperatures", "num_leapfrog", "num_pilot", "num_grid", "num_moves"])
def test_counts_must_be_positive(name):
    with pytest.raises(ValueError, match=f"`{name}` to be a positive whole number, got 0"):
        AIS(**{name: 0})


@pytest.mark.parametrize(("name", "value"), [("target", 1.0), ("target", -0.1), ("longest", 0.0)])
def test_settings_out_of_range_are_refused(name, value):
    with pytest.raises(ValueError, match=f"`{name}`"):
        AIS(**{name: value})


def test_calls_that_make_no_sense_are_refused(getkey):
    prior, log_likelihood, _, _ = linear_gaussian()
    with pytest.raises(ValueError, match=r"`start` of shape \(3,\), got \(2,\)"):
        SHORT.backward(getkey(), prior, log_likelihood, jnp.zeros(2), Tuning(jnp.ones(2), jnp.ones(2)))
    with pytest.raises(ValueError, match="num_chains"):
        SHORT.sandwich(getkey(), prior, log_likelihood, None, 0)


def test_the_example_runs():
    names = {"jax": jax, "eqx": eqx, "AIS": AIS, "StandardNormal": StandardNormal}
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder(recurse=False).find(AIS, "AIS", globs=names):
        runner.run(test)
    assert (runner.tries, runner.failures) == (4, 0)
