"""Annealed importance sampling, forwards and backwards: log Z from below and from above.

The integral is Z = ∫ p0(v) exp(ℓ(v)) dv, with p0 normalised and easy to draw from and ℓ a log likelihood.
Two uses: log p(x) of a latent-variable model (v = z, ℓ = log p(x|z)), and log q(z) of a semi-implicit family
(v = ε, ℓ = log q(z|ε)), where the ε that made z is an exact draw of q(ε|z).

References:
    Neal (2001), Annealed importance sampling.
    Grosse, Ghahramani & Adams (2015), Sandwiching the marginal likelihood using bidirectional Monte Carlo.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Key, Noise, Scalar
from uivi.families.mixing import AbstractMixing

LogLikelihood = Callable[[Array], Array]
"""ℓ of one vector. Wherever it is not finite the likelihood is taken to be zero."""

SHARPNESS = 4.0
"""The sigmoid of the temperatures runs over [-4, 4] (Grosse et al. 2015)."""
JITTER = 0.2
"""Each transition scales its step by a uniform number in 1 ± this, against periodic orbits."""
SHORTEST = 1e-5
"""Lowest step size, in standard deviations of p0."""


class Tuning(NamedTuple):
    """Step sizes along the schedule; they do not depend on the number of temperatures.

    Attributes:
        step_sizes: at G evenly spaced positions of the schedule, the last one at β = 1.
        acceptance: mean acceptance probability of the pilot there; far below the target, expect loose bounds.
    """

    step_sizes: Float[Array, "*B G"]
    acceptance: Float[Array, "*B G"]


class Sandwich(NamedTuple):
    """Both sides of log Z for one problem; under `vmap`, for a batch of them.

    Attributes:
        lower: log mean w over the forward chains. Side "lower": E[lower] <= log Z.
        upper: -log mean 1/w over the backward chains, or None without an exact draw. Side "upper": E[upper] >=
            log Z, the expectation being over the exact draw too.
        lower_stderr: standard error of `lower` (delta method over chains; NaN for one chain). Too small where
            few chains carry the weight.
        upper_stderr: the same of `upper`, *given* the exact draw that its chains share.
        tuning: of the chains.
    """

    lower: Float[Array, "*B"]
    upper: Float[Array, "*B"] | None
    lower_stderr: Float[Array, "*B"]
    upper_stderr: Float[Array, "*B"] | None
    tuning: Tuning


class _Point(NamedTuple):
    """A state of the chain with both log densities, so that a new β needs no new gradient."""

    v: Array
    log_prior: Array
    log_likelihood: Array
    prior_gradient: Array
    likelihood_gradient: Array

    def gradient(self, beta: Array) -> Array:
        """Of log p0 + β ℓ."""
        return self.prior_gradient + beta * self.likelihood_gradient


class AIS(eqx.Module):
    """Annealed importance sampling through p0(v) exp(β_t ℓ(v)), 0 = β_0 < ... < β_T = 1, moving by HMC.

    Forwards (Neal 2001): v_0 ~ p0, v_t ~ K_t(·|v_{t-1}) with K_t reversible for temperature β_t, and

        log w = Σ_{t=1..T} (β_t - β_{t-1}) ℓ(v_{t-1}),    E[w] = Z,    so E[log w] <= log Z.

    Backwards (Grosse et al. 2015): v_T ~ p0 exp(ℓ) / Z exactly, v_{t-1} ~ K_t(·|v_t), and for the same log w

        E[1/w] = 1/Z,    so E[log w] >= log Z.

    Methods treat one chain; `vmap` over keys for more, and over problems with ℓ closing over the data. Wrap the
    calls in `eqx.filter_jit`. A chain costs about `num_temperatures * num_leapfrog` gradients of ℓ. Where ℓ is
    minus infinity with prior probability 1 - a > 0, E[1/w] = a/Z: still an upper side, never tight.

    Attributes:
        num_temperatures: T.
        num_leapfrog: leapfrog steps a transition; one transition a temperature, identity mass.
        num_pilot: chains of the pilot run of `tune`.
        num_grid: G, temperatures of the pilot.
        num_moves: transitions at each of them; the second half gives the step size.
        target: acceptance aimed at.
        longest: upper bound of a trajectory's length in standard deviations of p0. A quarter period, π/2, gives
            independent draws of a normal p0.

    Examples:
        >>> log_likelihood = lambda v: jax.scipy.stats.norm.logpdf(1.0, v).sum()  # Z = N(1; 0, 2)
        >>> sandwich = eqx.filter_jit(AIS(num_temperatures=100).sandwich)
        >>> result = sandwich(jax.random.key(0), StandardNormal(1), log_likelihood, None, 16)
        >>> print(f"{result.lower:.1f}")
        -1.5
    """

    num_temperatures: int = eqx.field(static=True, default=1000)
    num_leapfrog: int = eqx.field(static=True, default=5)
    num_pilot: int = eqx.field(static=True, default=8)
    num_grid: int = eqx.field(static=True, default=32)
    num_moves: int = eqx.field(static=True, default=16)
    target: float = eqx.field(static=True, default=0.8)
    longest: float = eqx.field(static=True, default=math.pi / 2)

    def __check_init__(self):
        for name in ("num_temperatures", "num_leapfrog", "num_pilot", "num_grid", "num_moves"):
            _checks.positive_int(name, getattr(self, name))
        _checks.positive_float("longest", self.longest)
        if not _checks.positive_float("target", self.target) < 1:
            raise ValueError(f"expected `target` to be an acceptance rate in (0, 1), got {self.target!r}")

    def forward(self, key: Key, prior: AbstractMixing, log_likelihood: LogLikelihood, tuning: Tuning) -> Scalar:
        """Log weight of one forward chain. Side "lower": E[w] = Z.

        Minus infinity, a weight of zero, where the first draw has no likelihood.

        Args:
            key: random key.
            prior: p0.
            log_likelihood: ℓ.
            tuning: from `tune` with another key.
        """
        start_key, chain_key = jax.random.split(key)
        evaluate = _evaluator(prior, log_likelihood)
        start = evaluate(prior.sample(start_key))
        betas, increments, sizes = self._schedule(tuning, start.v.dtype)
        # v_T would not be weighed: the last transition is left out.
        trace = self._trace(chain_key, evaluate, start, betas[:-1], sizes[:-1])
        return jnp.sum(increments * trace)

    def backward(
        self, key: Key, prior: AbstractMixing, log_likelihood: LogLikelihood, start: Noise, tuning: Tuning
    ) -> Scalar:
        """Log weight of one backward chain. Side "upper": E[1/w] = 1/Z.

        NaN if `start` has no likelihood: then it is no draw of the posterior.

        Args:
            key: random key.
            prior: p0.
            log_likelihood: ℓ.
            start: an exact draw of p0(v) exp(ℓ(v)) / Z, shape (E,); from anything else the side is not known.
            tuning: from `tune`, which must not have seen `start`.
        """
        _checks.shape("`start`", start, (prior.dim,), "pass one exact draw of the posterior, vmap for more")
        evaluate = _evaluator(prior, log_likelihood)
        first = evaluate(start)
        betas, increments, sizes = self._schedule(tuning, start.dtype)
        trace = self._trace(key, evaluate, first, betas[::-1], sizes[::-1])
        log_weight = jnp.sum(increments[::-1] * trace[1:])
        return jnp.where(jnp.isfinite(first.log_likelihood), log_weight, jnp.nan)

    def tune(self, key: Key, prior: AbstractMixing, log_likelihood: LogLikelihood) -> Tuning:
        """Step sizes from a pilot forward run of a few chains that share and adapt one step size.

        The weighing runs never adapt: given the tuning their weights are exactly unbiased.
        """
        start_key, chain_key = jax.random.split(key)
        evaluate = _evaluator(prior, log_likelihood)
        starts = jax.vmap(lambda k: evaluate(prior.sample(k)))(jax.random.split(start_key, self.num_pilot))
        dtype = starts.v.dtype
        unit = math.sqrt(prior.variance())
        highest = math.log(self.longest * unit / self.num_leapfrog)
        lowest = min(math.log(SHORTEST * unit), highest)
        # The gain shrinks within each temperature, so that the average forgets the temperature before.
        gains = 1.0 / np.sqrt(1.0 + np.arange(self.num_moves))
        total = self.num_grid * self.num_moves

        def adapt(carry, xs):
            points, log_size = carry
            index, beta, gain = xs
            keys = jax.random.split(jax.random.fold_in(chain_key, index), self.num_pilot)
            move = lambda key, point: self._move(key, evaluate, point, beta, jnp.exp(log_size))
            points, probability = jax.vmap(move)(keys, points)
            alive = jnp.isfinite(points.log_likelihood).astype(dtype)
            acceptance = jnp.sum(alive * probability) / jnp.maximum(jnp.sum(alive), 1.0)
            change = jnp.where(jnp.sum(alive) > 0, gain * (acceptance - self.target), 0.0)
            return (points, jnp.clip(log_size + change, lowest, highest)), (log_size, acceptance)

        betas = np.repeat(_temperatures(np.arange(1, self.num_grid + 1) / self.num_grid), self.num_moves)
        xs = (jnp.arange(total), jnp.asarray(betas, dtype), jnp.asarray(np.tile(gains, self.num_grid), dtype))
        trace = jax.lax.scan(adapt, (starts, jnp.asarray(highest, dtype)), xs)[1]
        kept = [x.reshape(self.num_grid, self.num_moves)[:, self.num_moves // 2 :] for x in trace]
        log_size, acceptance = (jnp.mean(x, axis=1) for x in kept)
        return Tuning(jnp.exp(log_size), acceptance)

    def sandwich(
        self,
        key: Key,
        prior: AbstractMixing,
        log_likelihood: LogLikelihood,
        start: Noise | None,
        num_chains: int,
    ) -> Sandwich:
        """Tune, then bound log Z from below and, given an exact draw, from above.

        1/w has the mean 1/Z in each backward chain, whether or not they share `start`; so has the mean of 1/w,
        and -log is convex: E[-log mean 1/w] >= log Z.

        Args:
            key: random key.
            prior: p0.
            log_likelihood: ℓ.
            start: an exact draw of the posterior, or None for the lower side alone.
            num_chains: each way.
        """
        _checks.positive_int("num_chains", num_chains)
        tune_key, forward_key, backward_key = jax.random.split(key, 3)
        tuning = self.tune(tune_key, prior, log_likelihood)
        forward = lambda key: self.forward(key, prior, log_likelihood, tuning)
        lower, lower_stderr = _log_mean(jax.vmap(forward)(jax.random.split(forward_key, num_chains)))
        if start is None:
            return Sandwich(lower, None, lower_stderr, None, tuning)
        backward = lambda key: self.backward(key, prior, log_likelihood, start, tuning)
        minus, upper_stderr = _log_mean(-jax.vmap(backward)(jax.random.split(backward_key, num_chains)))
        return Sandwich(lower, -minus, lower_stderr, upper_stderr, tuning)

    def _schedule(self, tuning: Tuning, dtype) -> tuple[Array, Array, Array]:
        """β_t, β_t - β_{t-1} and the step size at β_t, for t = 1..T."""
        positions = np.arange(self.num_temperatures + 1) / self.num_temperatures
        betas = _temperatures(positions)
        grid = np.arange(1, tuning.step_sizes.shape[0] + 1) / tuning.step_sizes.shape[0]
        as_array = lambda x: jnp.asarray(x, dtype)
        log_sizes = jnp.interp(as_array(positions[1:]), as_array(grid), jnp.log(as_array(tuning.step_sizes)))
        return as_array(betas[1:]), as_array(np.diff(betas)), jnp.exp(log_sizes)

    def _trace(self, key: Key, evaluate, start: _Point, betas: Array, sizes: Array) -> Array:
        """ℓ at the start and after one transition at each of the temperatures, in their order."""

        def step(point, xs):
            index, beta, size = xs
            moved = self._move(jax.random.fold_in(key, index), evaluate, point, beta, size)[0]
            return moved, moved.log_likelihood

        trace = jax.lax.scan(step, start, (jnp.arange(betas.shape[0]), betas, sizes))[1]
        return jnp.concatenate([start.log_likelihood[None], trace])

    def _move(self, key: Key, evaluate, point: _Point, beta: Array, size: Array) -> tuple[_Point, Array]:
        """One HMC transition for log p0 + β ℓ and its acceptance probability; zero at non-finite ends."""
        momentum_key, jitter_key, accept_key = jax.random.split(key, 3)
        dtype = point.v.dtype
        momentum = jax.random.normal(momentum_key, point.v.shape, dtype)
        step = size * jax.random.uniform(jitter_key, (), dtype, 1 - JITTER, 1 + JITTER)

        def leapfrog(_, carry):
            point, momentum = carry
            momentum = momentum + 0.5 * step * point.gradient(beta)
            point = evaluate(point.v + step * momentum)
            return point, momentum + 0.5 * step * point.gradient(beta)

        end, end_momentum = jax.lax.fori_loop(0, self.num_leapfrog, leapfrog, (point, momentum))
        gain = end.log_prior - point.log_prior + beta * (end.log_likelihood - point.log_likelihood)
        gain = gain + 0.5 * jnp.sum(momentum**2 - end_momentum**2)
        probability = jnp.where(jnp.isfinite(gain), jnp.exp(jnp.minimum(gain, 0.0)), 0.0)
        accept = jax.random.uniform(accept_key, (), dtype) < probability
        return jax.tree.map(lambda new, old: jnp.where(accept, new, old), end, point), probability


def _temperatures(positions: np.ndarray) -> np.ndarray:
    """β at positions in [0, 1]: a sigmoid scaled to end at 0 and 1 (Grosse et al. 2015)."""
    sigmoid = lambda x: 1.0 / (1.0 + np.exp(-x))
    low, high = sigmoid(-SHARPNESS), sigmoid(SHARPNESS)
    return (sigmoid(SHARPNESS * (2 * positions - 1)) - low) / (high - low)


def _evaluator(prior: AbstractMixing, log_likelihood: LogLikelihood) -> Callable[[Array], _Point]:
    def evaluate(v: Array) -> _Point:
        log_prior, prior_gradient = jax.value_and_grad(prior.log_prob)(v)
        value, gradient = jax.value_and_grad(log_likelihood)(v)
        value = jnp.where(jnp.isfinite(value), value, -jnp.inf).astype(v.dtype)
        return _Point(v, log_prior, value, prior_gradient, gradient)

    return evaluate


def _log_mean(log_weights: Float[Array, "N"]) -> tuple[Scalar, Scalar]:
    """Log of the mean weight and its standard error by the delta method."""
    number = log_weights.shape[0]
    log_mean = jax.nn.logsumexp(log_weights) - math.log(number)
    relative = jnp.exp(log_weights - log_mean)
    return log_mean, jnp.std(relative, ddof=1) / math.sqrt(number)
