"""`uivi.fit`: from a log density or a model to a posterior."""

import functools
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import PyTree

from uivi import _checks, presets
from uivi._jax import is_key, once_jit, without_nan_checks
from uivi._types import Key, Status
from uivi.estimators.base import AbstractEstimator
from uivi.evaluation.check import Check
from uivi.families.base import AbstractFamily
from uivi.families.conditionals.affine import Frame
from uivi.families.conditionals.modes import Places
from uivi.families.conditionals.stretched import Stretch
from uivi.fitting.ahead import ahead
from uivi.fitting.posterior import Posterior, quantities
from uivi.fitting.prechecks import check_optimizer, check_outside, check_structure, check_target, check_trace
from uivi.fitting.problem import Problem, problem_of
from uivi.fitting.starts.checked import checked_start
from uivi.fitting.starts.effort import Curvature, curvature
from uivi.fitting.starts.search import Start
from uivi.presets.density import family_on, is_bent
from uivi.storage import descriptions
from uivi.storage.checkpoints import Checkpoints
from uivi.targets.base import AbstractGlobalTarget, AbstractSingleSiteTarget, AbstractTarget
from uivi.targets.minibatched import Minibatched
from uivi.targets.model import AbstractModelTarget
from uivi.targets.traced import TracedTarget, digest, traced
from uivi.training.driver import NUM_RECORDS, Driven, drive
from uivi.training.interrupts import explained_interrupts
from uivi.training.mode_weights import reweighted
from uivi.training.monitors import AbstractMonitor, ElboMonitor, RoundMonitor
from uivi.training.progress import CHECKING, DONE, STOPPED, AbstractReporter, Timed, print_verdict, reporter
from uivi.training.rounds import Rounds
from uivi.training.update import FitState, Method, initial_state, unstack_states

NUM_BOUNDS = 20
"""Number of times that a fit without rounds looks at its ELBO."""


def fit(
    log_density: Callable | AbstractTarget | Any,
    dim: int | None = None,
    *,
    key: Key | None = None,
    random_seed: int | None = None,
    init: PyTree = None,
    model_args: tuple | None = None,
    model_kwargs: dict[str, Any] | None = None,
    family: AbstractFamily | None = None,
    estimator: AbstractEstimator | None = None,
    optimizer: optax.GradientTransformation | None = None,
    num_steps: int | Rounds | None = None,
    checkpoint: str | os.PathLike | None = None,
    check: bool = True,
    progress: bool | AbstractReporter = True,
) -> Posterior:
    """Fits q(z) to an unnormalised log density or to a model.

    Args:
        log_density: a JAX function of a vector of size `dim` (or of a pytree like `init`) that returns a
            scalar, a NumPyro or PyMC model, or a `uivi.targets` object.
        dim: size of z.
        key: JAX random key, such as `jax.random.key(0)`.
        random_seed: a whole number in place of `key`, as users of PyMC expect it.
        init: an example draw in place of `dim`, any pytree of float arrays. q starts around it, and draws have
            its structure.
        model_args: positional arguments of a NumPyro model, such as its data.
        model_kwargs: keyword arguments of a NumPyro model.
        family: the variational family. By default it is `uivi.presets.default_family` on the location and scale
            of a rough Gaussian approximation.
        estimator: `uivi.UIVI(...)`, `uivi.SIVI(...)`, `uivi.Explicit(...)`. By default UIVI with learned i-SIR,
            with more proposals from round to round as long as the fit falls short.
        optimizer: any Optax optimiser. By default Adam, with a cosine decay over `num_steps` or over each
            round.
        num_steps: number of updates. By default `Rounds()`: 1,500, 3,000, up to 12,000 updates, until the fit
            is good and close to the posterior, or a round no longer raises the ELBO. An amortised family has no
            single ELBO to follow and gets 6,000.
        checkpoint: a directory for checkpoints. The fit resumes from what it finds there.
        check: whether to judge the fit at the end. Otherwise `posterior.check()` does so on first use.
        progress: whether to show a progress bar and, after a check, the verdict; or a reporter of your own.

    Returns:
        The posterior. Look at `posterior.check()` before you use it. A Ctrl-C during the updates ends them with
        a warning, and the posterior so far is returned with the status `INTERRUPTED`.

    Raises:
        TypeError: for arguments of wrong types.
        ValueError: for a problem that cannot be fitted. The message says what was expected and what came.
        KeyboardInterrupt: after a Ctrl-C before the first update, or a second one.

    Examples:
        >>> import jax, uivi
        >>> posterior = uivi.fit(lambda z: -0.5 * z @ z, dim=2, key=jax.random.key(0), num_steps=20,
        ...                      check=False, progress=False)
        >>> posterior.sample(jax.random.key(1), 5).shape
        (5, 2)
    """
    began = time.monotonic()
    check_outside("uivi.fit")
    key = _checks.key_or_seed(key, random_seed)
    if num_steps is not None:
        Rounds.of(num_steps)
    _check_types(family, estimator, optimizer, checkpoint, progress)
    with (
        explained_interrupts(checkpoint),
        reporter(progress) as inner,
        ahead() as compiler,
        without_nan_checks(),
    ):
        shown = Timed(inner, began)
        shown.phase("reading the model")
        keys = _keys(key)
        problem = problem_of(
            log_density, keys["problem"], dim=dim, init=init, model_args=model_args, model_kwargs=model_kwargs
        )
        target = _as_fitted(problem)
        is_searched = family is None and problem.has_start
        # The shapes of a fit are known before its start is: compilation need not wait for the search.
        make = functools.partial(_state_on, keys["family"], keys["run"], target=target, bent=False)
        spent = _curvature(problem, target) if is_searched else Curvature()
        unit = _unit_frame(target.dim, spent)
        if is_searched:
            first = eqx.filter_eval_shape(family_on, keys["family"], target.dim, unit)
        else:
            first = presets.default_family(keys["family"], target.dim) if family is None else family
        check_structure(keys["check"], target, first)
        has_elbo = _has_elbo(first, target)
        if num_steps is None:
            num_steps = Rounds() if has_elbo else presets.DEFAULT_STEPS
        # Only rounds can find out that more effort is needed.
        every = presets.default_estimators(first) if estimator is None else (estimator,)
        estimators = every if isinstance(num_steps, Rounds) else every[-1:]
        if optimizer is not None:
            check_optimizer(optimizer, _zeros_like((first, target), keys["run"]))
        optimizer, is_own = optimizer or presets.default_optimizer(num_steps), optimizer is not None
        methods = [Method(estimator, optimizer) for estimator in estimators]
        if is_searched:
            shapes = eqx.filter_eval_shape(make, methods[0], unit)
            compiler.begin(methods[0], _zeros_like(shapes, keys["run"]), has_elbo=has_elbo)
            if isinstance(target, AbstractGlobalTarget):
                # Compiled now: the updates are still being traced, which leaves a core to XLA.
                make(methods[0], unit)
            shown.phase("searching for a start")
            start = checked_start(keys["start"], problem, target, spent)
            bent = is_bent(start)
            state = make(methods[0], start.around(), bent=bent, target=_anchored(target, start))
            if bent or start.places is not None:
                # Only now are the layers and the number of modes known.
                compiler.begin(methods[0], state, has_elbo=has_elbo)
        else:
            start = None
            state = initial_state(keys["run"], methods[0], first, target)
            compiler.begin(methods[0], state, has_elbo=has_elbo)
            check_target(keys["check"], target, first)
        checkpoints = None
        if checkpoint is not None:
            schedule = "user" if is_own else repr(num_steps)
            bits = jax.random.key_data(key).tolist()
            # What the target computes: code changes under a name.
            config = [state.family, digest(problem.target), *estimators, schedule, bits]
            checkpoints = Checkpoints(checkpoint, descriptions.fingerprint(config))
        shown.phase("compiling")
        compiler.wait()
        driven = drive(
            methods,
            state,
            num_steps,
            reporter=shown,
            checkpoints=checkpoints,
            monitors=default_monitors(first, problem.target, num_steps),
            prepare=functools.partial(compiler.finish, has_elbo=has_elbo),
            refine=reweighted,
        )
        posterior = posteriors(driven, problem.example)[0]
        posterior.regions = start.regions if start else ()
        if isinstance(target, TracedTarget):
            posterior.target = problem.target
            posterior.is_model = isinstance(problem.target, AbstractModelTarget)
        found = None
        if posterior.status is Status.INTERRUPTED:
            _warn_of_interrupt(driven.step, num_steps, is_saved=checkpoint is not None)
        elif check and has_elbo:
            shown.phase(CHECKING)
            found = _judged(posterior)
        shown.phase(DONE if posterior.status is Status.DONE else STOPPED)
        posterior.phases = shown.seconds
    if progress is True and found is not None:
        print_verdict(found)
    return posterior


def _judged(posterior: Posterior) -> Check | None:
    """Returns the check; None after a Ctrl-C, which must not cost the fit."""
    try:
        return posterior.check()
    except KeyboardInterrupt:
        warnings.warn(
            "the check was interrupted: call posterior.check() before you use the draws", stacklevel=3
        )
        return None


def _warn_of_interrupt(step: int, num_steps: int | Rounds, *, is_saved: bool) -> None:
    left = (
        "call fit again with the same checkpoint= to continue"
        if is_saved
        else "another call of fit starts anew (with checkpoint=, it would continue)"
    )
    warnings.warn(
        f"the fit was interrupted after {step:,} of at most {Rounds.of(num_steps).most:,} updates: {left}",
        stacklevel=3,
    )


def _as_fitted(problem: Problem) -> AbstractTarget:
    """Returns the target as the fit sees it: traced, if it is one density for all updates."""
    target = problem.target
    if isinstance(target, AbstractSingleSiteTarget):
        check_trace(target.log_density, target.dim)
    return traced(target)


def _curvature(problem: Problem, target: AbstractTarget) -> Curvature:
    """Returns what the search may spend on the covariance of a large z."""
    if target.dim <= presets.FULL_COVARIANCE_UP_TO:
        return Curvature()
    assert isinstance(target, AbstractSingleSiteTarget)
    return curvature(target.log_density if problem.rough is None else problem.rough, target.dim)


def _unit_frame(dim: int, spent: Curvature) -> Frame:
    """Returns a frame of the shapes that the search will find."""
    is_full = dim <= presets.FULL_COVARIANCE_UP_TO or spent.hessians > 0
    start = Start(np.zeros(dim), np.eye(dim) if is_full else np.ones(dim))
    stretch = Stretch.none(dim, spent.directions) if spent.directions else None
    return start._replace(stretch=stretch).frame()


@once_jit
def _state_on(
    family_key: Key,
    run_key: Key,
    method: Method,
    frame: Frame | Places,
    *,
    target: AbstractTarget,
    bent: bool,
) -> FitState:
    """Returns the state before the first update, with the default family on a frame or at several modes."""
    family = family_on(family_key, target.dim, frame, bent=bent)
    return initial_state(run_key, method, family, target)


def _zeros_like(shapes: PyTree, key: Key) -> PyTree:
    """Returns arrays of these shapes. Only their shapes matter; `key` stands for keys."""

    def zeros(leaf: Any) -> Any:
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        return key if is_key(leaf) else jax.device_put(np.zeros(leaf.shape, leaf.dtype))

    return jax.tree.map(zeros, shapes)


def _anchored(target: AbstractTarget, start: Start) -> AbstractTarget:
    """Returns a minibatched target with its control variate at the start, and any other target as it is."""
    if not isinstance(target, Minibatched):
        return target
    return target.anchored(jnp.asarray(start.loc, jnp.result_type(float)))


def default_monitors(
    family: AbstractFamily, target: AbstractTarget, num_steps: int | Rounds
) -> tuple[AbstractMonitor, ...]:
    """Returns a monitor of the lower bound, due 20 times or at the end of every round.

    An amortised family has no single ELBO and gets no monitor.
    """
    if not _has_elbo(family, target):
        return ()
    if isinstance(num_steps, Rounds):
        return (RoundMonitor(num_steps.most, functools.partial(quantities, target)),)
    return (ElboMonitor(max(1, num_steps // NUM_RECORDS) * max(1, NUM_RECORDS // NUM_BOUNDS)),)


def posteriors(driven: Driven, example: PyTree) -> list[Posterior]:
    """Returns one posterior for each fit of a run, stacked or not."""
    states = unstack_states(driven.chosen)
    is_stacked = bool(driven.state.step.ndim)

    def history_of(index: int) -> dict[str, list[Any]]:
        if not is_stacked:
            return driven.history
        pick = lambda value: value[index] if isinstance(value, list) else value
        return {name: [pick(value) for value in column] for name, column in driven.history.items()}

    return [
        Posterior(
            family=state.family,
            example=example,
            status=status,
            history=history_of(index),
            seconds=driven.seconds / len(states),
            target=state.target,
            estimator=driven.method.estimator,
            est_state=state.est_state,
            is_model=isinstance(state.target, AbstractModelTarget),
        )
        for index, (state, status) in enumerate(zip(states, driven.status, strict=True))
    ]


@once_jit
def _keys(key: Key) -> dict[str, Key]:
    """Returns a key for each part of a fit."""
    names = ("family", "check", "run", "problem", "start")
    return dict(zip(names, jax.random.split(key, len(names)), strict=True))


def _has_elbo(family: AbstractFamily, target: AbstractTarget) -> bool:
    """Whether there is one ELBO, rather than one for each site."""
    return not family.context_dim and target.num_sites == 1


def _check_types(
    family: object, estimator: object, optimizer: object, checkpoint: object, progress: object
) -> None:
    if not isinstance(progress, bool | AbstractReporter):
        raise TypeError(f"expected `progress` to be True, False or a reporter, got {type(progress).__name__}")
    if not isinstance(checkpoint, str | os.PathLike | None):
        raise TypeError(f"expected `checkpoint` to be the path of a directory, got {type(checkpoint).__name__}")
    expected = (
        ("family", family, AbstractFamily, "a family such as uivi.SemiImplicit(...)"),
        ("estimator", estimator, AbstractEstimator, "an estimator such as uivi.UIVI()"),
        ("optimizer", optimizer, optax.GradientTransformation, "an Optax optimiser such as optax.adam(1e-3)"),
    )
    for name, value, kind, words in expected:
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"expected `{name}` to be {words}, got {type(value).__name__}")
