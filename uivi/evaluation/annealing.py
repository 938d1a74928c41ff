"""Annealed importance sampling, forwards and backwards: log Z from below and from above.

Z = ∫ p0(v) exp(ℓ(v)) dv, where p0 is normalised and easy to draw from, and ℓ is a log likelihood. It has two
uses: log p(x) of a latent-variable model (v = z, ℓ = log p(x|z)), and log q(z) of a semi-implicit family
(v = ε, ℓ = log q(z|ε)). In the second, the ε that generated z is an exact draw from q(ε|z).

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
from uivi._leapfrog import Point, leapfrog
from uivi._types import Key, Noise, Scalar
from uivi.evaluation.importance import log_mean_weight
from uivi.families.mixing import AbstractMixing

LogLikelihood = Callable[[Array], Array]
"""Maps one vector v to ℓ(v). The likelihood counts as zero wherever ℓ is not finite."""

SHARPNESS = 4.0
"""The sigmoid schedule of the temperatures runs over [-4, 4] (Grosse et al. 2015)."""
JITTER = 0.2
"""Each transition scales its step size by a uniform number in 1 ± JITTER. A fixed trajectory length could
resonate with the period of a normal direction and return to its start."""
SHORTEST = 1e-5
"""Smallest step size that tuning may choose, in standard deviations of p0."""


class Tuning(NamedTuple):
    """Step sizes along the schedule. They serve any number of temperatures.

    Attributes:
        step_sizes: step sizes at G evenly spaced positions of the schedule; the last position is β = 1.
        acceptance: mean acceptance probability of the pilot chains at the same positions. Expect loose bounds
            if it is far below the target.
    """

    step_sizes: Float[Array, "*B G"]
    acceptance: Float[Array, "*B G"]


class Sandwich(NamedTuple):
    """Both sides of log Z for one problem, or for a batch of problems under `vmap`.

    Attributes:
        lower: log mean w over the forward chains. Side "lower": E[lower] <= log Z.
        upper: -log mean 1/w over the backward chains, or None without an exact draw. Side "upper": E[upper] >=
            log Z, where the expectation includes the exact draw.
        lower_stderr: standard error of `lower` (delta method over chains; NaN for one chain). It is too small
            if few chains carry the weight.
        upper_stderr: standard error of `upper`, *given* the exact draw that its chains share.
        tuning: step sizes that the chains used.
    """

    lower: Float[Array, "*B"]
    upper: Float[Array, "*B"] | None
    lower_stderr: Float[Array, "*B"]
    upper_stderr: Float[Array, "*B"] | None
    tuning: Tuning


class _State(NamedTuple):
    """State of a chain. It keeps the terms of both densities apart: a new β then needs no new gradient."""

    v: Array
    log_prior: Array
    log_likelihood: Array
    prior_gradient: Array
    likelihood_gradient: Array

    def at(self, beta: Array) -> Point:
        """Returns the start of a trajectory on log p0 + β ℓ."""
        return Point(self.v, self.prior_gradient + beta * self.likelihood_gradient, self)


class AIS(eqx.Module):
    """Annealed importance sampling through p0(v) exp(β_t ℓ(v)), 0 = β_0 < ... < β_T = 1, with HMC transitions.

    Forwards (Neal 2001): v_0 ~ p0, v_t ~ K_t(·|v_{t-1}) with K_t reversible for temperature β_t, and

        log w = Σ_{t=1..T} (β_t - β_{t-1}) ℓ(v_{t-1}),    E[w] = Z,    so E[log w] <= log Z.

    Backwards (Grosse et al. 2015): v_T ~ p0 exp(ℓ) / Z exactly, v_{t-1} ~ K_t(·|v_t), and for the same log w

        E[1/w] = 1/Z,    so E[log w] >= log Z.

    `forward` and `backward` run one chain. Use `vmap` over keys for more chains, and over problems by letting ℓ
    close over the data. Wrap the calls in `eqx.filter_jit`. A chain costs about
    `num_temperatures * num_leapfrog` gradients of ℓ. If ℓ is minus infinity with prior probability 1 - a > 0,
    then E[1/w] = a/Z: the upper side still holds, but it is never tight.

    Attributes:
        num_temperatures: number of temperatures, T.
        num_leapfrog: number of leapfrog steps per transition. There is one transition per temperature, with
            identity mass.
        num_pilot: number of chains in the pilot run of `tune`.
        num_grid: number of temperatures in the pilot run, G.
        num_moves: number of pilot transitions at each temperature. The second half sets the step size.
        target: acceptance rate that tuning aims at.
        longest: upper bound on the length of a trajectory, in standard deviations of p0. A quarter period, π/2,
            gives independent draws from a normal p0.

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
        """Returns the log weight of one forward chain. Side "lower": E[w] = Z.

        The weight is zero (minus infinity) if the first draw has zero likelihood.

        Args:
            key: random key.
            prior: the prior p0.
            log_likelihood: the log likelihood ℓ.
            tuning: result of `tune` with a different key.
        """
        start_key, chain_key = jax.random.split(key)
        evaluate = _evaluator(prior, log_likelihood)
        start = evaluate(prior.sample(start_key))
        betas, increments, sizes = self._schedule(tuning, start.v.dtype)
        # log w ends with ℓ(v_{T-1}): the last transition, at β_T, would change nothing.
        trace = self._trace(chain_key, evaluate, start, betas[:-1], sizes[:-1])
        return jnp.sum(increments * trace)

    def backward(
        self, key: Key, prior: AbstractMixing, log_likelihood: LogLikelihood, start: Noise, tuning: Tuning
    ) -> Scalar:
        """Returns the log weight of one backward chain. Side "upper": E[1/w] = 1/Z.

        The result is NaN if `start` has zero likelihood, since it cannot be a draw from the posterior then.

        Args:
            key: random key.
            prior: the prior p0.
            log_likelihood: the log likelihood ℓ.
            start: an exact draw from p0(v) exp(ℓ(v)) / Z, shape (E,). With any other start the side is unknown.
            tuning: result of `tune`, which must not have seen `start`.
        """
        _checks.shape("`start`", start, (prior.dim,), "pass one exact draw of the posterior, vmap for more")
        evaluate = _evaluator(prior, log_likelihood)
        first = evaluate(start)
        betas, increments, sizes = self._schedule(tuning, start.dtype)
        trace = self._trace(key, evaluate, first, betas[::-1], sizes[::-1])
        # The same log w: transition K_t leads from v_t to v_{t-1}, whose ℓ gets the increment of t.
        log_weight = jnp.sum(increments[::-1] * trace[1:])
        return jnp.where(jnp.isfinite(first.log_likelihood), log_weight, jnp.nan)

    def tune(self, key: Key, prior: AbstractMixing, log_likelihood: LogLikelihood) -> Tuning:
        """Finds step sizes by a pilot forward run: a few chains share one step size and adapt it.

        Chains that are weighted never adapt, so given the tuning their weights are exactly unbiased.
        """
        start_key, chain_key = jax.random.split(key)
        evaluate = _evaluator(prior, log_likelihood)
        starts = jax.vmap(lambda k: evaluate(prior.sample(k)))(jax.random.split(start_key, self.num_pilot))
        dtype = starts.v.dtype
        unit = math.sqrt(prior.variance())
        highest = math.log(self.longest * unit / self.num_leapfrog)
        lowest = min(math.log(SHORTEST * unit), highest)
        # Robbins-Monro gains, restarted at each temperature so that the step size can follow the density.
        gains = 1.0 / np.sqrt(1.0 + np.arange(self.num_moves))
        total = self.num_grid * self.num_moves

        def adapt(carry, xs):
            states, log_size = carry
            index, beta, gain = xs
            keys = jax.random.split(jax.random.fold_in(chain_key, index), self.num_pilot)
            move = lambda key, state: self._move(key, evaluate, state, beta, jnp.exp(log_size))
            states, probability = jax.vmap(move)(keys, states)
            # A chain that started without likelihood never accepts a move; it must not shrink the step size.
            alive = jnp.isfinite(states.log_likelihood).astype(dtype)
            acceptance = jnp.sum(alive * probability) / jnp.maximum(jnp.sum(alive), 1.0)
            change = jnp.where(jnp.sum(alive) > 0, gain * (acceptance - self.target), 0.0)
            return (states, jnp.clip(log_size + change, lowest, highest)), (log_size, acceptance)

        betas = np.repeat(_temperatures(np.arange(1, self.num_grid + 1) / self.num_grid), self.num_moves)
        xs = (jnp.arange(total), jnp.asarray(betas, dtype), jnp.asarray(np.tile(gains, self.num_grid), dtype))
        trace = jax.lax.scan(adapt, (starts, jnp.asarray(highest, dtype)), xs)[1]
        # The first half of the moves at a temperature still adapts from the temperature before.
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
        """Tunes, then bounds log Z from below and, given an exact draw, from above.

        In each backward chain E[1/w] = 1/Z, whether or not the chains share `start`. The mean of 1/w has the
        same expectation, and -log is convex: E[-log mean 1/w] >= log Z.

        Args:
            key: random key.
            prior: the prior p0.
            log_likelihood: the log likelihood ℓ.
            start: an exact draw from the posterior, or None for the lower side alone.
            num_chains: number of chains in each direction.
        """
        _checks.positive_int("num_chains", num_chains)
        tune_key, forward_key, backward_key = jax.random.split(key, 3)
        tuning = self.tune(tune_key, prior, log_likelihood)
        forward = lambda key: self.forward(key, prior, log_likelihood, tuning)
        lower, lower_stderr = log_mean_weight(jax.vmap(forward)(jax.random.split(forward_key, num_chains)))
        if start is None:
            return Sandwich(lower, None, lower_stderr, None, tuning)
        backward = lambda key: self.backward(key, prior, log_likelihood, start, tuning)
        minus, upper_stderr = log_mean_weight(-jax.vmap(backward)(jax.random.split(backward_key, num_chains)))
        return Sandwich(lower, -minus, lower_stderr, upper_stderr, tuning)

    def _schedule(self, tuning: Tuning, dtype) -> tuple[Array, Array, Array]:
        """Returns β_t, β_t - β_{t-1} and the step size at β_t, for t = 1..T."""
        positions = np.arange(self.num_temperatures + 1) / self.num_temperatures
        betas = _temperatures(positions)
        grid = np.arange(1, tuning.step_sizes.shape[0] + 1) / tuning.step_sizes.shape[0]
        # The differences are taken in float64: in float32 they would cancel where the temperatures crowd.
        as_array = lambda x: jnp.asarray(x, dtype)
        log_sizes = jnp.interp(as_array(positions[1:]), as_array(grid), jnp.log(as_array(tuning.step_sizes)))
        return as_array(betas[1:]), as_array(np.diff(betas)), jnp.exp(log_sizes)

    def _trace(self, key: Key, evaluate, start: _State, betas: Array, sizes: Array) -> Array:
        """Returns ℓ at the start and after one transition at each of the temperatures, in their order."""

        def step(state, xs):
            index, beta, size = xs
            moved = self._move(jax.random.fold_in(key, index), evaluate, state, beta, size)[0]
            return moved, moved.log_likelihood

        trace = jax.lax.scan(step, start, (jnp.arange(betas.shape[0]), betas, sizes))[1]
        return jnp.concatenate([start.log_likelihood[None], trace])

    def _move(self, key: Key, evaluate, state: _State, beta: Array, size: Array) -> tuple[_State, Array]:
        """Makes one HMC transition for log p0 + β ℓ; returns the new state and the acceptance probability."""
        momentum_key, jitter_key, accept_key = jax.random.split(key, 3)
        dtype = state.v.dtype
        momentum = jax.random.normal(momentum_key, state.v.shape, dtype)
        step = size * jax.random.uniform(jitter_key, (), dtype, 1 - JITTER, 1 + JITTER)
        point_at = lambda v: evaluate(v).at(beta)
        point, end_momentum = leapfrog(state.at(beta), momentum, step, self.num_leapfrog, point_at)
        end: _State = point.value
        gain = end.log_prior - state.log_prior + beta * (end.log_likelihood - state.log_likelihood)
        gain = gain + 0.5 * jnp.sum(momentum**2 - end_momentum**2)
        # The gain is -inf if the end has no likelihood. It is +inf or NaN if the start has none: the weight of
        # that chain is zero for good, and it may as well stay.
        probability = jnp.where(jnp.isfinite(gain), jnp.exp(jnp.minimum(gain, 0.0)), 0.0)
        accept = jax.random.uniform(accept_key, (), dtype) < probability
        return jax.tree.map(lambda new, old: jnp.where(accept, new, old), end, state), probability


def _temperatures(positions: np.ndarray) -> np.ndarray:
    """Returns β at positions in [0, 1]: a sigmoid scaled to end at 0 and 1 (Grosse et al. 2015)."""
    sigmoid = lambda x: 1.0 / (1.0 + np.exp(-x))
    low, high = sigmoid(-SHARPNESS), sigmoid(SHARPNESS)
    return (sigmoid(SHARPNESS * (2 * positions - 1)) - low) / (high - low)


def _evaluator(prior: AbstractMixing, log_likelihood: LogLikelihood) -> Callable[[Array], _State]:
    def evaluate(v: Array) -> _State:
        log_prior, prior_gradient = jax.value_and_grad(prior.log_prob)(v)
        value, gradient = jax.value_and_grad(log_likelihood)(v)
        # One convention for all that is not finite: a zero likelihood, which no move accepts.
        value = jnp.where(jnp.isfinite(value), value, -jnp.inf).astype(v.dtype)
        return _State(v, log_prior, value, prior_gradient, gradient)

    return evaluate
