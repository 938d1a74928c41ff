"""`uivi.fit`: from a log density to a posterior."""

import os
import types
from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from uivi import _checks, _serial, loop, presets
from uivi._types import Key
from uivi.checkpoint import Checkpoints
from uivi.drive import NUM_RECORDS, Driven, drive
from uivi.estimators.base import AbstractEstimator
from uivi.families.base import AbstractFamily
from uivi.monitor import AbstractMonitor, ElboMonitor
from uivi.posterior import Posterior
from uivi.precheck import check_target
from uivi.progress import reporter
from uivi.targets.base import AbstractTarget
from uivi.targets.density import Density

NUM_BOUNDS = 20
"""How often a fit looks at its ELBO."""


def fit(
    log_density: Callable | AbstractTarget,
    dim: int | None = None,
    *,
    key: Key,
    init: PyTree = None,
    family: AbstractFamily | None = None,
    estimator: AbstractEstimator | None = None,
    optimizer: optax.GradientTransformation | None = None,
    num_steps: int = presets.DEFAULT_STEPS,
    checkpoint: str | os.PathLike | None = None,
    progress: bool = True,
) -> Posterior:
    """Fit q(z) to an unnormalised log density.

    Args:
        log_density: a JAX function of a vector of size `dim` (or of a pytree like `init`) that returns a
            scalar, or a `uivi.targets` object.
        dim: size of z.
        key: JAX random key, such as `jax.random.key(0)`.
        init: an example draw instead of `dim`, any pytree of float arrays; q starts around it and draws come
            back with its structure.
        family: the variational family; by default `uivi.presets.default_family`.
        estimator: `uivi.UIVI(...)`, `uivi.SIVI(...)`, `uivi.Explicit(...)`; by default UIVI with learned i-SIR.
        optimizer: any Optax optimiser; by default Adam with a cosine decay over `num_steps`.
        num_steps: number of updates.
        checkpoint: a directory for checkpoints; an existing one is resumed.
        progress: whether to show a progress bar.

    Returns:
        The posterior; look at `posterior.summary()` before using it.

    Example:
        >>> import jax, uivi
        >>> posterior = uivi.fit(lambda z: -0.5 * z @ z, dim=2, key=jax.random.key(0), num_steps=20,
        ...                      progress=False)
        >>> posterior.sample(jax.random.key(1), 5).shape
        (5, 2)
    """
    key = _checks.prng_key(key)
    _checks.positive_int("num_steps", num_steps)
    _check_types(family, estimator, optimizer)
    target, example, start = _problem(log_density, dim, init)
    family_key, check_key, run_key = jax.random.split(key, 3)
    if family is None:
        family = presets.default_family(family_key, target.dim, start=start)
    estimator = presets.default_estimator(family) if estimator is None else estimator
    check_target(check_key, target, family)
    method = loop.Method(estimator, optimizer or presets.default_optimizer(num_steps))
    state = loop.init(run_key, method, family, target)
    checkpoints = None
    if checkpoint is not None:
        schedule = num_steps if optimizer is None else "user"
        bits = jax.random.key_data(key).tolist()
        config = [family, target, estimator, schedule, bits]
        checkpoints = Checkpoints(checkpoint, _serial.fingerprint(config))
    with reporter(num_steps, show=progress) as shown:
        driven = drive(
            method,
            state,
            num_steps,
            reporter=shown,
            checkpoints=checkpoints,
            monitors=default_monitors(family, target, num_steps),
        )
    return posteriors(driven, estimator, example)[0]


def default_monitors(
    family: AbstractFamily, target: AbstractTarget, num_steps: int
) -> tuple[AbstractMonitor, ...]:
    """The ELBO from below, 20 times; nothing for amortised families."""
    if family.context_dim or target.num_sites > 1:
        return ()
    return (ElboMonitor(max(1, num_steps // NUM_RECORDS) * max(1, NUM_RECORDS // NUM_BOUNDS)),)


def posteriors(driven: Driven, estimator: AbstractEstimator, example: PyTree) -> list[Posterior]:
    """One posterior for each fit of a (possibly stacked) run."""
    states = loop.unstack(driven.chosen)
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
            )
        )
    return made


def _pick(value, index: int):
    return value[index] if isinstance(value, list) else value


def _plain_function(function: Callable) -> Callable:
    """A plain function: Equinox takes neither modules nor jitted functions as static fields."""
    return function if isinstance(function, types.FunctionType) else lambda z: function(z)


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


def _problem(
    log_density: Callable | AbstractTarget, dim: int | None, init: PyTree
) -> tuple[AbstractTarget, PyTree, Array | None]:
    """Target, example draw and starting point from what the user gave."""
    if isinstance(log_density, AbstractTarget):
        if dim not in (None, log_density.dim):
            raise ValueError(f"expected dim={log_density.dim} (the target's), got {dim}: leave dim out")
        if init is not None:
            raise ValueError("expected no `init` beside a target: give the family its starting point")
        return log_density, jnp.zeros(log_density.dim), None
    if not callable(log_density):
        raise TypeError(f"expected `log_density` to be a JAX function of z, got {type(log_density).__name__}")
    if (dim is None) == (init is None):
        given = "neither" if dim is None else "both"
        raise ValueError(f"expected either `dim` or `init`, got {given}: give the size of z or an example draw")
    if dim is not None:
        size = _checks.positive_int("dim", dim)
        return Density(_plain_function(log_density), size), jnp.zeros(size), None
    example = jax.tree.map(jnp.asarray, init)
    leaves = jax.tree.leaves(example)
    if not leaves or not all(jnp.issubdtype(x.dtype, jnp.floating) for x in leaves):
        kinds = sorted({str(x.dtype) for x in leaves}) or "no arrays"
        raise TypeError(f"expected `init` to hold float arrays only, got {kinds}: discrete z cannot be fitted")
    start, unravel = ravel_pytree(example)
    flat = Density(lambda z: log_density(unravel(z)), start.shape[0])
    return flat, jax.tree.map(jnp.zeros_like, example), start
