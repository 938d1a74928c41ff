"""`uivi.fit`: from a log density to a posterior."""

import os
from collections.abc import Callable
from typing import Any

import jax
import optax
from jaxtyping import PyTree

from uivi import _checks, presets
from uivi._types import Key, Status
from uivi.estimators.base import AbstractEstimator
from uivi.families.base import AbstractFamily
from uivi.fitting.posterior import Posterior
from uivi.fitting.prechecks import check_start, check_target
from uivi.fitting.problem import Problem, problem_of
from uivi.fitting.starts.comparison import ahead
from uivi.fitting.starts.search import Start, find_start, recentred, turned
from uivi.storage import serialisation
from uivi.storage.checkpoints import Checkpoints
from uivi.targets.base import AbstractTarget
from uivi.targets.minibatched import Minibatched
from uivi.targets.model import AbstractModelTarget
from uivi.training.driver import NUM_RECORDS, Driven, drive
from uivi.training.monitors import AbstractMonitor, ElboMonitor
from uivi.training.progress import reporter, tell_verdict
from uivi.training.rounds import Rounds
from uivi.training.update import FitState, Method, initial_state, unstack_states

NUM_BOUNDS = 20
"""How often a fit looks at its ELBO."""
MOST_TRIED = 500
"""Updates from each of two starts; the fit is then made from the better one."""
TURNED_ABOVE = 50
"""Dimensions up to which one set of axes will do: ε then has numbers enough for bends along any of them."""


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
    progress: bool = True,
) -> Posterior:
    """Fit q(z) to an unnormalised log density or to a model.

    Args:
        log_density: a JAX function of a vector of size `dim` (or of a pytree like `init`) that returns a
            scalar, a NumPyro or PyMC model, or a `uivi.targets` object.
        dim: size of z.
        key: JAX random key, such as `jax.random.key(0)`.
        random_seed: a whole number instead of `key`.
        init: an example draw instead of `dim`, any pytree of float arrays; q starts around it and draws come
            back with its structure.
        model_args: arguments of a NumPyro model, its data among them.
        model_kwargs: its keyword arguments.
        family: the variational family; by default `uivi.presets.default_family` on the place and scale that
            `uivi.fitting.starts.search.find_start` finds; from 51 to 200 dimensions on the better of two sets of axes, after
            500 updates on each.
        estimator: `uivi.UIVI(...)`, `uivi.SIVI(...)`, `uivi.Explicit(...)`; by default UIVI with learned i-SIR.
        optimizer: any Optax optimiser; by default Adam, with a cosine decay over `num_steps` or each round.
        num_steps: number of updates; by default `Rounds()`: 2,000, 4,000, 8,000 and 16,000 until a round no
            longer raises the ELBO (6,000 for an amortised family, whose ELBO is not followed).
        checkpoint: a directory for checkpoints; an existing one is resumed.
        progress: whether to show a progress bar and, at the end, the verdict of `posterior.check()`.

    Returns:
        The posterior; look at `posterior.check()` before using it.

    Examples:
        >>> import jax, uivi
        >>> posterior = uivi.fit(lambda z: -0.5 * z @ z, dim=2, key=jax.random.key(0), num_steps=20,
        ...                      progress=False)
        >>> posterior.sample(jax.random.key(1), 5).shape
        (5, 2)
    """
    key = _checks.key_or_seed(key, random_seed)
    if num_steps is not None:
        Rounds.of(num_steps)
    _check_types(family, estimator, optimizer)
    family_key, check_key, run_key = jax.random.split(key, 3)
    problem_key, start_key = jax.random.split(jax.random.fold_in(key, 1))
    problem = problem_of(log_density, dim, init, model_args, model_kwargs, problem_key)
    target = problem.target
    families: list[AbstractFamily]
    if family is not None:
        families = [family]
    else:
        starts = _starts(start_key, problem)
        families = [presets.default_family(family_key, target.dim, start=start) for start in starts]
        if starts[0] is not None and isinstance(target, Minibatched):
            target = target.anchored(starts[0].loc)
    family = families[0]
    estimator = presets.default_estimator(family) if estimator is None else estimator
    check_target(check_key, target, family)
    if num_steps is None:
        num_steps = Rounds() if _has_elbo(family, target) else presets.DEFAULT_STEPS
    method = Method(estimator, optimizer or presets.default_optimizer(num_steps))
    states = [initial_state(run_key, method, family, target) for family in families]
    checkpoints = None
    if checkpoint is not None:
        schedule = repr(num_steps) if optimizer is None else "user"
        bits = jax.random.key_data(key).tolist()
        fitted = target.identity() if isinstance(target, AbstractModelTarget) else target
        config = [family, fitted, estimator, schedule, bits]
        checkpoints = Checkpoints(checkpoint, serialisation.fingerprint(config))
    is_new = checkpoints is None or checkpoints.newest() is None
    state = _chosen(method, states, Rounds.of(num_steps), progress) if is_new else states[0]
    with reporter(Rounds.of(num_steps).most, show=progress) as shown:
        driven = drive(
            method,
            state,
            num_steps,
            reporter=shown,
            checkpoints=checkpoints,
            monitors=default_monitors(family, target, num_steps),
        )
    posterior = posteriors(driven, estimator, problem.example)[0]
    if progress and posterior.status is not Status.INTERRUPTED and _has_elbo(family, target):
        tell_verdict(posterior.check())
    return posterior


def _starts(key: Key, problem: Problem) -> list[Start | None]:
    """Place and scale of a rough approximation of one posterior; on two sets of axes, if it is large."""
    target, points, rough = problem.target, problem.points, problem.rough
    if points is None:
        return [None]
    check_start(target, points)
    search = lambda f: find_start(key, f, points, full_up_to=presets.FULL_COVARIANCE_UP_TO)
    if rough is not None:
        return [recentred(search(rough), target.log_density)]
    start = search(target.log_density)
    if not TURNED_ABOVE < target.dim <= presets.FULL_COVARIANCE_UP_TO:
        return [start]
    return [start, turned(jax.random.fold_in(key, 1), start, target.log_density)]


def _chosen(method: Method, states: list[FitState], rounds: Rounds, show: bool) -> FitState:  # noqa: FBT001
    """The one that is ahead after a quarter of the first round, or `MOST_TRIED` updates."""
    num_steps = min(MOST_TRIED, rounds.first // 4)
    if len(states) == 1 or not num_steps:
        return states[0]
    with reporter(len(states) * num_steps, show=show, label="comparing starts") as shown:
        return states[ahead(method, states, num_steps, shown)]


def default_monitors(
    family: AbstractFamily, target: AbstractTarget, num_steps: int | Rounds
) -> tuple[AbstractMonitor, ...]:
    """The ELBO from below: 20 times, or every quarter of the first round; nothing if amortised."""
    if not _has_elbo(family, target):
        return ()
    if isinstance(num_steps, Rounds):
        return (ElboMonitor(max(1, num_steps.first // 4), num_draws=1_024),)
    return (ElboMonitor(max(1, num_steps // NUM_RECORDS) * max(1, NUM_RECORDS // NUM_BOUNDS)),)


def posteriors(driven: Driven, estimator: AbstractEstimator, example: PyTree) -> list[Posterior]:
    """One posterior for each fit of a (possibly stacked) run."""
    states = unstack_states(driven.chosen)
    made = []
    for i, (state, status) in enumerate(zip(states, driven.status, strict=True)):
        history = driven.history
        if driven.state.step.ndim:
            history = {n: [_pick(v, i) for v in column] for n, column in history.items()}
        seconds = driven.seconds / len(states)
        made.append(
            Posterior(
                state.family,
                example,
                status,
                history,
                seconds,
                state.target,
                estimator,
                state.est_state,
                isinstance(state.target, AbstractModelTarget),
            )
        )
    return made


def _has_elbo(family: AbstractFamily, target: AbstractTarget) -> bool:
    """Whether there is one ELBO, not one for each site."""
    return not family.context_dim and target.num_sites == 1


def _pick(value, index: int):
    return value[index] if isinstance(value, list) else value


def _check_types(family: object, estimator: object, optimizer: object) -> None:
    expected = (
        ("family", family, AbstractFamily, "uivi.SemiImplicit(...)"),
        ("estimator", estimator, AbstractEstimator, "uivi.UIVI()"),
        ("optimizer", optimizer, optax.GradientTransformation, "optax.adam(1e-3)"),
    )
    for name, value, kind, example in expected:
        if value is not None and not isinstance(value, kind):
            raise TypeError(
                f"expected `{name}` to be a {kind.__name__} such as {example}, got {type(value).__name__}"
            )
