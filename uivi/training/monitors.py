"""Values recorded while a fit runs, besides those that every update reports."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from uivi.evaluation import bounds
from uivi.training.update import FitState, Method


class AbstractMonitor(eqx.Module):
    """Evaluates a fit every `every` updates. Its values are columns of the history.

    The time of an evaluation does not count as time of the fit. Randomness comes from the state, so a resumed
    fit has the same history.
    """

    every: eqx.AbstractVar[int]

    @abc.abstractmethod
    def __call__(self, method: Method, state: FitState) -> dict[str, Array]:
        """Evaluates a single (unstacked) fit."""

    def key(self, state: FitState) -> Array:
        """Returns a key that differs from update to update and from every key of the fit itself."""
        return jax.random.fold_in(state.key, -1 - state.step)


class ElboMonitor(AbstractMonitor):
    """A cheap lower bound of the ELBO."""

    every: int = eqx.field(static=True)
    num_draws: int = eqx.field(static=True, default=256)
    num_mixing: int = eqx.field(static=True, default=256)

    @eqx.filter_jit
    def __call__(self, method: Method, state: FitState) -> dict[str, Array]:
        """Returns mean and standard error."""
        proposal = method.estimator.fitted_proposal(state.est_state)
        budget = (self.num_draws, self.num_mixing)
        e = bounds.evaluate(self.key(state), state.family, state.target, *budget, proposal)
        terms = e.log_p - e.log_q_high
        return {
            "elbo_lower": jnp.mean(terms),
            "elbo_lower_stderr": jnp.std(terms) / jnp.sqrt(float(self.num_draws)),
        }
