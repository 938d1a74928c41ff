"""What is looked at while a fit runs, besides what every update reports."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from uivi.evaluation import bounds
from uivi.training.update import FitState, Method


class AbstractMonitor(eqx.Module):
    """Values of one fit, taken every `every` updates: columns of the history.

    The time it takes is not counted as time of the fit. Its randomness comes from the state, so that a resumed
    fit has the same history.
    """

    every: eqx.AbstractVar[int]

    def __call__(self, method: Method, state: FitState) -> dict[str, Array]:
        """Evaluate a single (unstacked) fit."""
        raise NotImplementedError

    def key(self, state: FitState) -> Array:
        """A key of its own for each update."""
        return jax.random.fold_in(state.key, -1 - state.step)


class ElboMonitor(AbstractMonitor):
    """A cheap ELBO from below."""

    every: int = eqx.field(static=True)
    num_draws: int = eqx.field(static=True, default=256)
    num_mixing: int = eqx.field(static=True, default=256)

    @eqx.filter_jit
    def __call__(self, method: Method, state: FitState) -> dict[str, Array]:
        """Mean and standard error."""
        proposal = method.estimator.fitted_proposal(state.est_state)
        budget = (self.num_draws, self.num_mixing)
        e = bounds.evaluate(self.key(state), state.family, state.target, *budget, proposal)
        terms = e.log_p - e.log_q_high
        return {
            "elbo_lower": jnp.mean(terms),
            "elbo_lower_stderr": jnp.std(terms) / jnp.sqrt(float(self.num_draws)),
        }
