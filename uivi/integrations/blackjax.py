"""UIVI under BlackJAX's protocol of variational algorithms: `init`, `step`, `sample`."""

import math
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from blackjax.base import VIAlgorithm
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from uivi import _checks, presets
from uivi._types import Info, Key, Status
from uivi.estimators.base import AbstractEstimator
from uivi.families.base import AbstractFamily
from uivi.families.sampling import sample_many
from uivi.fitting.posterior import Posterior
from uivi.fitting.prechecks import check_structure
from uivi.fitting.problem import Problem, problem_of
from uivi.fitting.starts.search import Start
from uivi.training import optimisers
from uivi.training.update import FitState, Method, initial_state, one_update


class UIVIState(NamedTuple):
    """Everything the next step depends on, besides its key. Every leaf is an array.

    Attributes:
        position: zeros with the structure of one draw.
        family: the variational distribution q.
        opt_state: state of the optimiser.
        est_state: state of the estimator.
        step: number of steps done.
    """

    position: PyTree
    family: AbstractFamily
    opt_state: PyTree
    est_state: PyTree
    step: Array


class UIVIInfo(NamedTuple):
    """Diagnostics of one step. It has no ELBO, which UIVI never computes: see `posterior(...).check()`.

    Attributes:
        mean: means over the draws of the step, see `uivi.estimators.Info`.
        skipped: whether the gradient was not finite, so that the step changed nothing.
    """

    mean: Info
    skipped: Array


def as_vi_algorithm(
    logdensity_fn: Callable,
    optimizer: optax.GradientTransformation | None = None,
    *,
    family: AbstractFamily | None = None,
    estimator: AbstractEstimator | None = None,
) -> VIAlgorithm:
    """Returns UIVI as a replacement for `blackjax.meanfield_vi(logdensity_fn, optimizer)`.

    `init(position, rng_key=None)`, `step(rng_key, state)` and `sample(rng_key, state, num_samples)` are pure
    functions: compile, map and scan them as usual. `init` starts q near N(position, I) without a search. So
    choose a position and units in which the posterior has scale one, or pass your own `family`, such as
    `uivi.presets.default_family(key, dim, start=uivi.fitting.starts.search.find_start(...))`.

    Args:
        logdensity_fn: log density of one position, a pytree of float arrays.
        optimizer: an Optax optimiser; by default Adam, where `sample` draws from the averaged parameters.
        family: variational family on the flat position; by default `uivi.presets.default_family`, whose network
            is drawn with the `rng_key` of `init` (`jax.random.key(0)` without one).
        estimator: gradient estimator; by default UIVI with learned i-SIR for semi-implicit families.

    Returns:
        BlackJAX's `VIAlgorithm`, with states `UIVIState` and diagnostics `UIVIInfo`.

    Examples:
        >>> import jax, jax.numpy as jnp, optax
        >>> from uivi.integrations.blackjax import as_vi_algorithm
        >>> algorithm = as_vi_algorithm(lambda p: -0.5 * jnp.sum(p["z"] ** 2), optax.adam(1e-3))
        >>> state = algorithm.init({"z": jnp.ones(2)})
        >>> state, infos = jax.lax.scan(
        ...     lambda state, key: algorithm.step(key, state), state, jax.random.split(jax.random.key(0), 10))
        >>> algorithm.sample(jax.random.key(1), state, 5)["z"].shape
        (5, 2)
    """
    chosen = optimisers.with_average(optax.adam(presets.DEFAULT_RATE)) if optimizer is None else optimizer

    def method_of(family: AbstractFamily) -> Method:
        return Method(_estimator(estimator, family), _on_family(chosen))

    def init(position: PyTree, rng_key: Key | None = None) -> UIVIState:
        key = jax.random.key(0) if rng_key is None else _checks.prng_key(rng_key)
        family_key, check_key, run_key = jax.random.split(key, 3)
        problem = _problem(logdensity_fn, position)
        q = _near(family_key, problem) if family is None else _need_arrays(family)
        check_structure(check_key, problem.target, q)
        return _state(problem.example, initial_state(run_key, method_of(q), q, problem.target))

    def step(rng_key: Key, state: UIVIState) -> tuple[UIVIState, UIVIInfo]:
        target = _problem(logdensity_fn, state.position).target
        parts = (state.step, state.family, target, state.opt_state, state.est_state)
        before = FitState(*parts, _checks.prng_key(rng_key))
        after, info, skipped = one_update(method_of(state.family), before)
        return _state(state.position, after), UIVIInfo(info, skipped)

    def sample(rng_key: Key, state: UIVIState, num_samples: int) -> PyTree:
        z = sample_many(_checks.prng_key(rng_key), _fitted(state), num_samples).z
        return jax.vmap(ravel_pytree(state.position)[1])(z)

    return VIAlgorithm(init, step, sample)


def posterior(
    state: UIVIState, logdensity_fn: Callable, estimator: AbstractEstimator | None = None
) -> Posterior:
    """Returns the fitted q as a `Posterior`, with bounds, verdict and storage.

    Args:
        state: state after the last step.
        logdensity_fn: the log density given to `as_vi_algorithm`.
        estimator: the estimator given to `as_vi_algorithm`.
    """
    problem, family = _problem(logdensity_fn, state.position), _fitted(state)
    return Posterior(
        family=family,
        example=problem.example,
        status=Status.DONE,
        # No history is kept: BlackJAX's users collect the infos themselves.
        history={"step": [int(state.step)], "nonfinite": [math.nan]},
        seconds=0.0,
        target=problem.target,
        estimator=_estimator(estimator, family),
        est_state=state.est_state,
    )


def _problem(logdensity_fn: Callable, position: PyTree) -> Problem:
    return problem_of(logdensity_fn, jax.random.key(0), init=position)


def _near(key: Key, problem: Problem) -> AbstractFamily:
    """Returns the default family around the position, with scale one."""
    assert problem.points is not None
    dim = problem.target.dim
    factor = jnp.eye(dim) if dim <= presets.FULL_COVARIANCE_UP_TO else jnp.ones(dim)
    return presets.default_family(key, dim, start=Start(problem.points[0], factor))


def _estimator(given: AbstractEstimator | None, family: AbstractFamily) -> AbstractEstimator:
    return presets.default_estimator(family) if given is None else given


def _state(position: PyTree, fit: FitState) -> UIVIState:
    return UIVIState(position, fit.family, fit.opt_state, fit.est_state, fit.step)


def _fitted(state: UIVIState) -> AbstractFamily:
    return optimisers.average_of(state.opt_state, state.family)


def _on_family(optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
    """Restricts an optimiser to the family.

    Updates are pairs (family, target). A plain log density has no parameters, so the target's half is empty and
    must leave no trace in the optimiser state.
    """

    def init(params):
        return optimizer.init(params[0])

    def update(updates, state, params=None):
        updates, rest = updates
        updates, state = optimizer.update(updates, state, None if params is None else params[0])
        return (updates, rest), state

    return optax.GradientTransformation(init, update)


def _need_arrays(family: AbstractFamily) -> AbstractFamily:
    other = [type(leaf).__name__ for leaf in jax.tree.leaves(family) if not eqx.is_array(leaf)]
    if other:
        raise TypeError(
            f"expected a family whose leaves are arrays, got {other}: mark other fields with "
            "eqx.field(static=True), since BlackJAX's states pass through jax.jit and jax.lax.scan"
        )
    return family
