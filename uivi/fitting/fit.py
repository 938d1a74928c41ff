"""`uivi.fit`: from a log density or a model to a posterior."""

import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree

from uivi import _checks, presets
from uivi._types import Key, Status
from uivi.estimators.base import AbstractEstimator
from uivi.families.base import AbstractFamily
from uivi.fitting.posterior import Posterior
from uivi.fitting.prechecks import NUM_TRIES, check_target, check_trace
from uivi.fitting.problem import Problem, problem_of
from uivi.fitting.starts.candidates import find_starts, make_probe
from uivi.fitting.starts.comparison import pick_start
from uivi.storage import descriptions
from uivi.storage.checkpoints import Checkpoints
from uivi.targets.base import AbstractSingleSiteTarget, AbstractTarget
from uivi.targets.minibatched import Minibatched
from uivi.targets.model import AbstractModelTarget
from uivi.targets.probe import generator
from uivi.targets.traced import TracedTarget, traced
from uivi.training.driver import NUM_RECORDS, Driven, drive
from uivi.training.monitors import AbstractMonitor, ElboMonitor
from uivi.training.progress import AbstractReporter, print_verdict, reporter
from uivi.training.rounds import Rounds
from uivi.training.update import Method, initial_state, unstack_states

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
    progress: bool = True,
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
            of a rough Gaussian approximation. From 51 to 200 dimensions the fit compares two sets of axes for
            500 updates each and takes the better one.
        estimator: `uivi.UIVI(...)`, `uivi.SIVI(...)`, `uivi.Explicit(...)`. By default UIVI with learned i-SIR.
        optimizer: any Optax optimiser. By default Adam, with a cosine decay over `num_steps` or over each
            round.
        num_steps: number of updates. By default `Rounds()`: 2,000, 4,000, 8,000 and 16,000 updates, until a
            round no longer raises the ELBO. An amortised family has no single ELBO to follow and gets 6,000.
        checkpoint: a directory for checkpoints. The fit resumes from what it finds there.
        check: whether to judge the fit at the end. Otherwise `posterior.check()` does so on first use.
        progress: whether to show a progress bar and, after a check, the verdict.

    Returns:
        The posterior. Look at `posterior.check()` before you use it.

    Examples:
        >>> import jax, uivi
        >>> posterior = uivi.fit(lambda z: -0.5 * z @ z, dim=2, key=jax.random.key(0), num_steps=20,
        ...                      check=False, progress=False)
        >>> posterior.sample(jax.random.key(1), 5).shape
        (5, 2)
    """
    key = _checks.key_or_seed(key, random_seed)
    if num_steps is not None:
        Rounds.of(num_steps)
    _check_types(family, estimator, optimizer)
    with reporter(show=progress) as shown:
        shown.phase("reading the model")
        keys = _keys(key)
        problem = problem_of(
            log_density, keys["problem"], dim=dim, init=init, model_args=model_args, model_kwargs=model_kwargs
        )
        target, families = _families(keys, problem, family, shown)
        estimator = presets.default_estimator(families[0]) if estimator is None else estimator
        has_elbo = _has_elbo(families[0], target)
        if num_steps is None:
            num_steps = Rounds() if has_elbo else presets.DEFAULT_STEPS
        method = Method(estimator, optimizer or presets.default_optimizer(num_steps))
        states = [initial_state(keys["run"], method, family, target) for family in families]
        checkpoints = None
        if checkpoint is not None:
            schedule = repr(num_steps) if optimizer is None else "user"
            bits = jax.random.key_data(key).tolist()
            given = problem.target
            fitted = given.identity() if isinstance(given, AbstractModelTarget) else given
            config = [families[0], fitted, estimator, schedule, bits]
            checkpoints = Checkpoints(checkpoint, descriptions.fingerprint(config))
        # A checkpoint holds the start that was picked, so a resumed fit does not compare again.
        is_new = checkpoints is None or checkpoints.newest() is None
        state = pick_start(method, states, Rounds.of(num_steps), shown) if is_new else states[0]
        shown.phase("compiling the updates")
        driven = drive(
            method,
            state,
            num_steps,
            reporter=shown,
            checkpoints=checkpoints,
            monitors=default_monitors(families[0], target, num_steps),
        )
        posterior = posteriors(driven, estimator, problem.example)[0]
        if isinstance(target, TracedTarget):
            posterior.target = problem.target
            posterior.is_model = isinstance(problem.target, AbstractModelTarget)
        found = None
        if check and has_elbo and posterior.status is not Status.INTERRUPTED:
            shown.phase("checking")
            found = posterior.check()
    if progress and found is not None:
        print_verdict(found)
    return posterior


def _families(
    keys: dict[str, Key], problem: Problem, family: AbstractFamily | None, shown: AbstractReporter
) -> tuple[AbstractTarget, list[AbstractFamily]]:
    """Returns the target as the fit sees it, and the families from which the fit may start."""
    target, probe, draws = problem.target, None, None
    if isinstance(target, AbstractSingleSiteTarget):
        check_trace(target.log_density, target.dim)
        target = traced(target)
        assert isinstance(target, AbstractSingleSiteTarget)
        probe = make_probe(target)
    if family is not None:
        families = [family]
    elif probe is None or not problem.has_start:
        families: list[AbstractFamily] = [presets.default_family(keys["family"], target.dim)]
    else:
        shown.phase("searching for a start")
        starts = find_starts(keys["start"], problem, target, probe)
        families = [presets.default_family(keys["family"], target.dim, start=start) for start in starts]
        # The first q is close to the Gaussian of its start, whose draws need no program.
        draws = starts[0].from_normal(generator(keys["check"]).standard_normal((NUM_TRIES, target.dim)))
        if isinstance(target, Minibatched):
            target = target.anchored(jnp.asarray(starts[0].loc, jnp.result_type(float)))
    check_target(keys["check"], target, families[0], probe=probe, draws=draws)
    return target, families


def default_monitors(
    family: AbstractFamily, target: AbstractTarget, num_steps: int | Rounds
) -> tuple[AbstractMonitor, ...]:
    """Returns a monitor of the lower bound, due 20 times or every quarter of the first round.

    An amortised family has no single ELBO and gets no monitor.
    """
    if not _has_elbo(family, target):
        return ()
    if isinstance(num_steps, Rounds):
        return (ElboMonitor(max(1, num_steps.first // 4)),)
    return (ElboMonitor(max(1, num_steps // NUM_RECORDS) * max(1, NUM_RECORDS // NUM_BOUNDS)),)


def posteriors(driven: Driven, estimator: AbstractEstimator, example: PyTree) -> list[Posterior]:
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
            estimator=estimator,
            est_state=state.est_state,
            is_model=isinstance(state.target, AbstractModelTarget),
        )
        for index, (state, status) in enumerate(zip(states, driven.status, strict=True))
    ]


@jax.jit
def _keys(key: Key) -> dict[str, Key]:
    """Returns a key for each part of a fit."""
    names = ("family", "check", "run", "problem", "start")
    return dict(zip(names, jax.random.split(key, len(names)), strict=True))


def _has_elbo(family: AbstractFamily, target: AbstractTarget) -> bool:
    """Whether there is one ELBO, rather than one for each site."""
    return not family.context_dim and target.num_sites == 1


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
