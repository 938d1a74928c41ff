"""What every estimator promises, whatever it does."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, PyTree

from uivi._types import Estimate, Info, Key
from uivi.estimators.base import AbstractEstimator, Params, RepeatedSites
from uivi.families.base import AbstractFamily
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.proposals import FittedProposal
from uivi.targets.base import AbstractTarget
from uivi.testing.promises import Counter, differing, require, require_same_structure, restored
from uivi.trainable import trained
from uivi.training.update import (
    ChunkInfo,
    FitState,
    Method,
    initial_state,
    run_updates,
    stack_states,
    unstack_states,
)

OPTIMIZER = optax.sgd(1e-3)


def check_estimator(
    key: Key, estimator: AbstractEstimator, family: AbstractFamily, target: AbstractTarget
) -> Info:
    """Runs an estimator as `uivi.fit` does, and raises an AssertionError that names the promise it breaks.

    Gradients have the structure of the trained arrays, and are finite. Info is made of scalars in the precision
    of the family. The state keeps its structure. Two fits run side by side, compiled once: the same key gives
    the same numbers, another key gives others, and neither fit sees the other. Two updates are one update, a
    checkpoint and one more.

    This says nothing about bias: see `assert_unbiased`.

    Args:
        key: random key.
        estimator: the method.
        family: a family that suits it.
        target: a target that suits it.

    Returns:
        The info of the first fit's updates, averaged.
    """
    _check_structure(key, estimator, (family, target))
    traces = Counter()
    method = Method(_Counted(estimator, traces), OPTIMIZER)
    first_key, second_key, other_key = jax.random.split(key, 3)

    def start(*keys: Key) -> FitState:
        return stack_states([initial_state(key, method, family, target) for key in keys])

    def two_updates(*keys: Key) -> tuple[list[FitState], ChunkInfo]:
        ended, info = run_updates(method, start(*keys), 2)
        return unstack_states(ended), info

    fits, info = two_updates(first_key, second_key)
    num_traces = traces.count
    require(not np.any(info.skipped), f"a gradient of {type(estimator).__name__} is not finite")
    place = differing(fits, two_updates(first_key, second_key)[0])
    require(not place, f"the same key gave other numbers at {place}: take all randomness from `key`")

    others, _ = two_updates(first_key, other_key)
    place = differing(fits[0], others[0])
    require(not place, f"a fit depends on the fit beside it, at {place}: average over the axes of one fit only")
    params = lambda fit: (fit.family, fit.target, fit.est_state)
    require(differing(params(fits[1]), params(others[1])), "another key gave the same numbers: use `key`")

    half, _ = run_updates(method, start(first_key, second_key), 1)
    whole, _ = run_updates(method, restored(half), 1)
    place = differing(fits, unstack_states(whole))
    require(
        not place,
        "two updates are not one update, a checkpoint and one more: they differ at "
        f"{place}; carry what lasts in the state, as JAX arrays",
    )
    require(traces.count == num_traces, "updates with arrays of equal shapes were compiled again")
    return Info(*(x[0] for x in info.mean))


class _Counted(AbstractEstimator):
    """An estimator that counts how often it is traced."""

    estimator: AbstractEstimator
    traces: Counter = eqx.field(static=True)

    def init(self, key: Key, family: AbstractFamily, target: AbstractTarget) -> PyTree:
        return self.estimator.init(key, family, target)

    def estimate(self, key: Key, params: Params, sites: PyTree, step: Array, state: PyTree) -> Estimate:
        self.traces.count += 1
        return self.estimator.estimate(key, params, sites, step, state)

    def fitted_proposal(self, state: PyTree) -> FittedProposal:
        return self.estimator.fitted_proposal(state)


def _check_structure(key: Key, estimator: AbstractEstimator, params: Params) -> None:
    """Traces one estimate, which compiles nothing."""
    name, family = type(estimator).__name__, params[0]

    def one(key: Key, params: Params):
        family, target = params
        state, sites = estimator.init(key, *params), target.sites(key, jnp.asarray(0))
        estimate = estimator.estimate(key, params, sites, jnp.asarray(0), state)
        require(isinstance(estimate, Estimate), f"expected `estimate` of {name} to return an Estimate")
        proposed = _proposed(key, estimator, params, sites, state) if isinstance(family, SemiImplicit) else ()
        grads = trained(tuple(estimate.grads)), trained(params)
        return grads, (state, estimate.state), estimate.info, proposed

    grads, states, info, proposed = eqx.filter_eval_shape(one, key, params)
    require_same_structure(f"the gradient of {name}", grads[1], grads[0])
    require_same_structure(f"the state of {name} after an update", *states)
    dtype = jnp.result_type(*jax.tree.leaves(trained(family)))
    scalar: Any = jax.ShapeDtypeStruct((), dtype)
    require_same_structure(f"the info of {name}", Info(*[scalar] * len(Info._fields)), info)
    if isinstance(family, SemiImplicit):
        expected = jax.ShapeDtypeStruct((3, family.noise_dim), dtype), scalar
        require_same_structure(f"draws and log density of the proposal of {name}", expected, proposed)


def _proposed(key: Key, estimator: AbstractEstimator, params: Params, sites: PyTree, state: PyTree) -> tuple:
    """Returns three draws of the fitted proposal at one z, and the log density of one."""
    family, target = params
    assert isinstance(family, SemiImplicit)
    contexts = RepeatedSites.create(target, sites, 1).contexts
    context = None if contexts is None else contexts[0]
    proposal = estimator.fitted_proposal(state).at(family, family.sample(key, context).z, context)
    eps = proposal.sample(key, 3)
    return eps, proposal.log_prob(eps[0])
