"""Hamiltonian Monte Carlo on the reverse conditional: the paper's sampler."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from uivi import _checks
from uivi._types import Draw, Key, ReverseDraws, ReverseInfo, Scalar
from uivi.families.semi_implicit import SemiImplicit
from uivi.gpu import dispatch as fused
from uivi.reverse.base import CHAINS, AbstractReverseSampler, rejected_nonfinite, uniform_log_weights
from uivi.reverse.step_size import AbstractStepSize, AdaptBetween

MOST_UNROLLED = 60


class _Chain(NamedTuple):
    eps: Array
    log_density: Array
    gradient: Array
    step_size: Array


class HMC(AbstractReverseSampler):
    """Short HMC chain: `num_burnin` transitions, then `num_draws` kept ones (paper, Section 2.3).

    The gradient at the end point is reused, so `(num_burnin + num_draws) * num_leapfrog + 1` gradients a
    chain (51 for the paper's 10 x 5). Identity mass, fixed trajectory length.

    On a GPU that has it, one kernel runs the whole chain where the conditional fits (see `uivi.gpu`);
    `is_fused` forces it on or off.
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
        """The step size."""
        del key, family
        return self.step_size.init()

    def kernel(
        self, key: Key, family: SemiImplicit, draw: Draw, context: Array | None, state: Scalar
    ) -> tuple[ReverseDraws, ReverseInfo, tuple[Scalar, Scalar]]:
        """One chain from the generating ε."""
        density = jax.value_and_grad(family.reverse_log_density(draw.z, draw.eps, context))

        def transition(chain: _Chain, xs):
            noise, is_burnin = xs
            moved, accepted, probability, end = self._move(noise, chain, density)
            adapted = self.step_size.within(chain.step_size, jax.lax.pmean(accepted, CHAINS))
            step_size = jnp.where(is_burnin, adapted, chain.step_size)
            bad = rejected_nonfinite(family, end.eps, end.log_density)
            return moved._replace(step_size=step_size), (moved.eps, probability, bad)

        total = self.num_burnin + self.num_draws
        start = _Chain(draw.eps, *density(draw.eps), state)
        noise = jax.vmap(lambda k: _noise(k, draw.eps))(jax.random.split(key, total))
        xs = (noise, jnp.arange(total) < self.num_burnin)
        unroll = total if self._is_unrolled() else 1
        end, (eps, probability, bad) = jax.lax.scan(transition, start, xs, unroll=unroll)
        weights = uniform_log_weights(self.num_draws, eps.dtype)
        acceptance = jnp.mean(probability)
        info = ReverseInfo(acceptance, jnp.full_like(acceptance, jnp.nan), jnp.sum(bad))
        memo = (end.step_size, acceptance)
        return ReverseDraws(eps[self.num_burnin :], weights, end.eps), info, memo

    def kernels(
        self, keys: Array, family: SemiImplicit, draws: Draw, contexts: Array | None, state: Scalar
    ) -> tuple[ReverseDraws, ReverseInfo, tuple[Array, Array]]:
        """All chains, by one kernel of the GPU if it can."""
        if not fused.is_chosen(family, wanted=self.is_fused):
            return super().kernels(keys, family, draws, contexts, state)
        total = self.num_burnin + self.num_draws
        move_keys = jax.vmap(lambda key: jax.random.split(key, total))(keys)
        momenta, uniforms = jax.vmap(jax.vmap(lambda key: _noise(key, draws.eps[0])))(move_keys)
        chains = fused.Chains.create(family, draws, contexts)
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
        weights = jnp.broadcast_to(uniform_log_weights(self.num_draws, eps.dtype), eps.shape[:2])
        acceptance = jnp.mean(moves.probability, 0)
        info = ReverseInfo(acceptance, jnp.full_like(acceptance, jnp.nan), jnp.sum(moves.bad, 0))
        return ReverseDraws(eps, weights, eps[:, -1]), info, (step_size, acceptance)

    def adapt(self, state: Scalar, draws: Draw, contexts: Array | None, memos) -> Scalar:
        """The step size that the chains ended with, then the rule's own change between updates."""
        del state, draws, contexts
        step_size, acceptance = memos
        return self.step_size.between(jnp.mean(step_size), jnp.mean(acceptance))

    def _is_unrolled(self) -> bool:
        """A GPU is bound by the launches of a short chain's tiny kernels; a CPU is faster with the loops."""
        steps = (self.num_burnin + self.num_draws) * self.num_leapfrog
        return jax.default_backend() != "cpu" and steps <= MOST_UNROLLED

    def _move(self, noise: tuple[Array, Array], chain: _Chain, density):
        """One transition with its momentum and its uniform number."""
        momentum, uniform = noise
        step = chain.step_size.astype(chain.eps.dtype)

        def leapfrog(_, carry):
            eps, momentum, _, gradient = carry
            momentum = momentum + 0.5 * step * gradient
            eps = eps + step * momentum
            value, gradient = density(eps)
            return eps, momentum + 0.5 * step * gradient, value, gradient

        carry = (chain.eps, momentum, chain.log_density, chain.gradient)
        eps, end_momentum, value, gradient = jax.lax.fori_loop(
            0, self.num_leapfrog, leapfrog, carry, unroll=self._is_unrolled()
        )
        gain = value - chain.log_density + 0.5 * jnp.sum(momentum**2 - end_momentum**2)
        gain = jnp.where(jnp.isfinite(gain), gain, -jnp.inf)
        probability = jnp.exp(jnp.minimum(gain, 0.0))
        accept = uniform < probability
        end = _Chain(eps, value, gradient, chain.step_size)
        moved = jax.tree.map(lambda new, old: jnp.where(accept, new, old), end, chain)
        return moved, accept.astype(eps.dtype), probability, end


def _noise(key: Key, eps: Array) -> tuple[Array, Array]:
    """Momentum and uniform number of one transition, in the order of BlackJAX's HMC."""
    momentum_key, accept_key = jax.random.split(key)
    return jax.random.normal(momentum_key, eps.shape, eps.dtype), jax.random.uniform(accept_key, (), eps.dtype)
