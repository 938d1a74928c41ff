"""The table of a posterior's variables: moments, quantiles and errors of every entry, from one set of draws."""

import math
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from uivi.evaluation import importance
from uivi.evaluation.check import Check
from uivi.evaluation.look import look
from uivi.evaluation.verdict import FIRST_OF_MORE
from uivi.evaluation.wide import Pooled
from uivi.integrations.arviz import named
from uivi.targets.model import AbstractModelTarget

if TYPE_CHECKING:
    from uivi.fitting.posterior import Posterior

NUM_DRAWS = 2_048
"""Number of draws behind a table, as many as in a check's first look."""
QUANTILES = (0.05, 0.5, 0.95)


class Variable(NamedTuple):
    """One variable of a model, or one leaf of a draw.

    Attributes:
        name: its name.
        labels: the name of each of its K entries, such as `theta[A]`.
        draws: the entries at the draws, shape (S, K).
        numbers: mean, standard deviation and `QUANTILES` of each entry, shape (K, 5).
        errors: error of each entry, shape (K,): of its mean in standard deviations or of its standard deviation
            relative, whichever is larger, by importance weights. NaN where it is unknown.
    """

    name: str
    labels: list[str]
    draws: Float[np.ndarray, "S K"]
    numbers: Float[np.ndarray, "K 5"]
    errors: Float[np.ndarray, "K"]


def variables(posterior: "Posterior") -> list[Variable]:
    """Returns the table of all variables, in the order of the model.

    A model's file without its model has unconstrained draws only, and a file without its density no errors.
    """
    found = posterior._judged()
    pooled = _pooled(posterior, found)
    is_bare = posterior.is_model and not isinstance(posterior.target, AbstractModelTarget)
    leaves = {"z, unconstrained": pooled.z} if is_bare else named(posterior.structured(pooled.z))
    dims, coords = {}, {}
    if isinstance(posterior.target, AbstractModelTarget):
        dims, coords = posterior.target.model.dims, posterior.target.model.coords
        leaves = {name: leaves[name] for name in _order(posterior.target)}
    weights = _weights(pooled, found)
    made = []
    for name, leaf in leaves.items():
        values = np.asarray(leaf, np.float64).reshape(len(leaf), -1)
        draws = values[~pooled.is_wide]
        axes = [coords.get(dim) for dim in dims.get(name, [])]
        labels = list(_labels(name, leaf.shape[1:], axes))
        rounding = float(np.finfo(np.result_type(leaf.dtype, np.float32)).eps)
        made.append(Variable(name, labels, draws, _numbers(draws), _errors(values, weights, rounding)))
    return made


def _pooled(posterior: "Posterior", found: Check | None) -> Pooled:
    """Returns draws with the densities that are known: the draws that decided the check, if there is one."""
    key = jax.random.key(0)
    target, estimator = posterior.target, posterior.estimator
    if target is None:
        z = np.asarray(posterior.sample_flat(key, NUM_DRAWS))
        unknown = np.full(len(z), np.nan)
        return Pooled(z, unknown, unknown, unknown, np.zeros(len(z), bool))
    if estimator is None:
        z, log_p, log_q, _ = map(np.asarray, posterior.evaluate(key, NUM_DRAWS))
        return Pooled(z, log_p, log_q, log_q, np.zeros(len(z), bool))
    fit = (posterior.family, target, estimator, posterior.est_state)
    if found and found.weights.num_draws > NUM_DRAWS:  # a second look decided
        return look(key, *fit, num_draws=found.weights.num_draws, first=FIRST_OF_MORE).pooled
    return look(key, *fit, num_draws=NUM_DRAWS).pooled


def _weights(pooled: Pooled, found: Check | None) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns normalised weights p/r and q/r of all draws; None where the weights p/q are unreliable."""
    _, log_p, log_q, log_r, is_wide = pooled
    finite = np.isfinite(log_p) & np.isfinite(log_q) & np.isfinite(log_r)
    # A wide draw may leave the support, where it counts for nothing. A draw of q may not.
    if not np.all(finite | is_wide):
        return None
    weights = found.weights if found else importance.summarise((log_p - log_q)[~is_wide])
    if not weights.is_reliable:
        return None
    log_weights, own = np.full(len(log_p), -np.inf), np.full(len(log_p), -np.inf)
    log_weights[finite] = importance.smoothed_weights((log_p - log_r)[finite])[0]
    own[finite] = (log_q - log_r)[finite]
    return np.exp(log_weights), np.exp(own - np.logaddexp.reduce(own))


def _order(target: AbstractModelTarget) -> list[str]:
    """Returns the names of a model's variables in its own order, which JAX's dictionaries do not keep."""
    names: list[str] = []
    jax.eval_shape(lambda z: names.extend(target.constrain(z)), jax.ShapeDtypeStruct((target.dim,), float))
    return names


def worst(table: list[Variable]) -> list[tuple[float, str, np.ndarray]]:
    """Returns error, label and draws of every entry, the largest known error first."""
    entries = [
        (float(error), label, draws)
        for variable in table
        for error, label, draws in zip(variable.errors, variable.labels, variable.draws.T, strict=True)
    ]
    return sorted(entries, key=lambda entry: -math.inf if math.isnan(entry[0]) else entry[0], reverse=True)


def _labels(name: str, shape: tuple[int, ...], axes: list[Any]) -> Iterator[str]:
    """Names the entries by the labels along the axes, or by their indices."""
    known = len(axes) == len(shape) and all(
        axis is not None and len(axis) == size for axis, size in zip(axes, shape, strict=True)
    )
    for index in np.ndindex(*shape):
        parts = [str(axes[i][place]) if known else str(place) for i, place in enumerate(index)]
        yield f"{name}[{', '.join(parts)}]" if parts else name


def shortened(label: str, most: int) -> str:
    """Returns a label without its middle if it is too long: the end tells the entries of a variable apart."""
    return label if len(label) <= most else f"{label[: most - 12]}...{label[-9:]}"


def _numbers(draws: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"), warnings.catch_warnings():  # draws that are not finite show as nan
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.stack([draws.mean(0), draws.std(0), *np.quantile(draws, QUANTILES, axis=0)], axis=1)


def _errors(values: np.ndarray, weights: tuple[np.ndarray, np.ndarray] | None, rounding: float) -> np.ndarray:
    """Compares the moments of q with those of the posterior, both from the same weighted draws.

    Args:
        values: the draws.
        weights: weights of p and of q; None if they are unreliable.
        rounding: relative error of the numbers that the draws were made with. No less is a constant.
    """
    if weights is None:
        return np.full(values.shape[1], np.nan)
    theirs, ours = weights
    kept = (theirs > 0) | (ours > 0)
    theirs, ours, values = theirs[kept], ours[kept], values[kept]
    with np.errstate(all="ignore"):  # a constant has no error
        mean, own_mean = theirs @ values, ours @ values
        sd = np.sqrt(theirs @ (values - mean) ** 2)
        own = np.sqrt(ours @ (values - own_mean) ** 2)
        found = np.maximum(np.abs(own_mean - mean) / sd, np.abs(own / sd - 1))
        return np.where(own > 8 * rounding * np.abs(values).max(0), found, np.nan)
