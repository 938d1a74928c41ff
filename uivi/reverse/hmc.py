"""Hamiltonian Monte Carlo on the reverse conditional: the paper's sampler."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from uivi import _checks
from uivi._leapfrog import Point, leapfrog
from uivi._types import Draw, Key, ReverseDraws, ReverseInfo, Scalar
from uivi.families.semi_implicit import SemiImplicit
from uivi.gpu import dispatch
from uivi.reverse.base import (
    CHAINS,
    AbstractReverseSampler,
    map_draws,
    rejected_nonfinite,
    uniform_weights,
)
from uivi.reverse.proposals import FittedProposal, from_mixing
from uivi.reverse.step_size import AbstractStepSize, AdaptBetween

MOST_UNROLLED = 60
"""Longest chain, in leapfrog steps, whose loops are unrolled on a GPU."""


class HMC(AbstractReverseSampler):
    """A short HMC chain: `num_burnin` transitions, then `num_draws` kept ones (paper, Section 2.3).

    The gradient at the end of a trajectory is reused, so a chain costs
    `(num_burnin + num_draws) * num_leapfrog + 1` gradients (51 for the paper's 10 x 5). The mass is the
    identity and the trajectory length is fixed.

    Attributes:
        num_burnin: transitions thrown away.
        num_draws: transitions kept.
        num_leapfrog: leapfrog steps in a transition.
        step_size: rule by which the step size starts and adapts.
        is_fused: whether one GPU kernel runs all chains of an update. None uses it wherever it can run; see
            `uivi.gpu.dispatch` for the conditions.
    """

    num_burnin: int = eqx.field(static=True, default=5)
    num_draws: int = eqx.field(static=True, default=5)
    num_leapfrog: int = eqx.field(static=True, default=5)
    step_size: AbstractStepSize = eqx.field(default_factory=AdaptBetween)
    is_fused: bool | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        _checks.positive_int("num_burnin + 1", self.num_burnin + 1)
        _checks.positive_int("num_draws", self.num_draws)
        _checks.positive_int("num_leapfrog", self.num_leapfrog)

    def init(self, key: Key, family: SemiImplicit) -> Scalar:
        """Returns the first step size."""
        del key, family
        return self.step_size.init()

    def sample(
        self, keys: Array, family: SemiImplicit, draws: Draw, contexts: Array | None, state: Scalar
    ) -> tuple[ReverseDraws, ReverseInfo, tuple[Array, Array]]:
        """Runs one chain from each generating ε, all of them in one GPU kernel where possible."""
        if dispatch.is_chosen(family, wanted=self.is_fused):
            return self._fused(keys, family, draws, contexts, state)
        return map_draws(self._chain, keys, family, draws, contexts, state)

    def adapt(self, state: Scalar, draws: Draw, contexts: Array | None, memos) -> Scalar:
        """Takes the step size that the chains ended with, then applies the rule's change between updates."""
        del state, draws, contexts
        step_size, acceptance = memos
        return self.step_size.between(jnp.mean(step_size), jnp.mean(acceptance))

    def fitted_proposal(self, state: Scalar) -> FittedProposal:
        """Returns q(ε): HMC learns no proposal."""
        del state
        return from_mixing()

    def _chain(
        self, key: Key, family: SemiImplicit, draw: Draw, context: Array | None, state: Scalar
    ) -> tuple[ReverseDraws, ReverseInfo, tuple[Scalar, Scalar]]:
        """Runs one chain from the generating ε; returns the last step size and the acceptance as its memo."""
        density = jax.value_and_grad(family.reverse_log_density(draw.z, draw.eps, context))

        def evaluate(eps: Array) -> Point:
            value, gradient = density(eps)
            return Point(eps, gradient, value)

        def transition(carry: tuple[Point, Scalar], xs):
            point, step_size = carry
            noise, is_burnin = xs
            moved, accepted, probability, end = self._move(noise, point, step_size, evaluate)
            adapted = self.step_size.within(step_size, jax.lax.pmean(accepted, CHAINS))
            bad = rejected_nonfinite(family, end.position, end.value)
            return (moved, jnp.where(is_burnin, adapted, step_size)), (moved.position, probability, bad)

        total = self.num_burnin + self.num_draws
        noise = jax.vmap(lambda k: _noise(k, draw.eps))(jax.random.split(key, total))
        xs = (noise, jnp.arange(total) < self.num_burnin)
        unroll = total if self._is_unrolled() else 1
        start = (evaluate(draw.eps), state)
        (end, step_size), (eps, probability, bad) = jax.lax.scan(transition, start, xs, unroll=unroll)
        weights = uniform_weights(self.num_draws, eps.dtype)
        acceptance = jnp.mean(probability)
        unknown = jnp.full_like(acceptance, jnp.nan)
        info = ReverseInfo(acceptance, unknown, unknown, jnp.sum(bad))
        return ReverseDraws(eps[self.num_burnin :], weights, end.position), info, (step_size, acceptance)

    def _fused(
        self, keys: Array, family: SemiImplicit, draws: Draw, contexts: Array | None, state: Scalar
    ) -> tuple[ReverseDraws, ReverseInfo, tuple[Array, Array]]:
        """Runs all chains in one GPU kernel, with the random numbers that `_chain` would draw."""
        total = self.num_burnin + self.num_draws
        move_keys = jax.vmap(lambda key: jax.random.split(key, total))(keys)
        momenta, uniforms = jax.vmap(jax.vmap(lambda key: _noise(key, draws.eps[0])))(move_keys)
        chains = dispatch.Chains.create(family, draws, contexts)
        adaptation = self.step_size.adaptation(self.num_burnin)
        moves = chains.move(
            momenta=momenta,
            uniforms=uniforms,
            step=state,
            num_leapfrog=self.num_leapfrog,
            adaptation=adaptation,
        )
        step_size = moves.step[-1].astype(state.dtype)
        eps = jnp.swapaxes(moves.eps[self.num_burnin :], 0, 1)
        weights = jnp.broadcast_to(uniform_weights(self.num_draws, eps.dtype), eps.shape[:2])
        acceptance = jnp.mean(moves.probability, 0)
        unknown = jnp.full_like(acceptance, jnp.nan)
        info = ReverseInfo(acceptance, unknown, unknown, jnp.sum(moves.bad, 0))
        return ReverseDraws(eps, weights, eps[:, -1]), info, (step_size, acceptance)

    def _is_unrolled(self) -> bool:
        """Whether to unroll the loops of a short chain.

        On a GPU such a chain is bound by the launches of its tiny kernels. A CPU is faster with the loops.
        """
        steps = (self.num_burnin + self.num_draws) * self.num_leapfrog
        return jax.default_backend() != "cpu" and steps <= MOST_UNROLLED

    def _move(
        self, noise: tuple[Array, Array], start: Point, step_size: Scalar, evaluate: Callable[[Array], Point]
    ) -> tuple[Point, Scalar, Scalar, Point]:
        """Makes one transition; returns the next point, whether it moved, its acceptance, and the end point."""
        momentum, uniform = noise
        step = step_size.astype(start.position.dtype)
        end, end_momentum = leapfrog(
            start, momentum, step, self.num_leapfrog, evaluate, unroll=self._is_unrolled()
        )
        gain = end.value - start.value + 0.5 * jnp.sum(momentum**2 - end_momentum**2)
        # A trajectory that leaves the support or overflows is rejected, never accepted as NaN.
        gain = jnp.where(jnp.isfinite(gain), gain, -jnp.inf)
        probability = jnp.exp(jnp.minimum(gain, 0.0))
        accept = uniform < probability
        moved = jax.tree.map(lambda new, old: jnp.where(accept, new, old), end, start)
        return moved, accept.astype(start.position.dtype), probability, end


def _noise(key: Key, eps: Array) -> tuple[Array, Array]:
    """Draws momentum and uniform number of one transition, in the order of BlackJAX's HMC."""
    momentum_key, accept_key = jax.random.split(key)
    return jax.random.normal(momentum_key, eps.shape, eps.dtype), jax.random.uniform(accept_key, (), eps.dtype)
