"""The table of a posterior's variables: moments, quantiles and errors of every entry, from one set of draws."""

import math
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from uivi.evaluation import importance
from uivi.integrations.arviz import named
from uivi.targets.model import AbstractModelTarget

if TYPE_CHECKING:
    from uivi.fitting.posterior import Posterior

NUM_DRAWS = 2_048
"""Number of draws behind a table. With their key they are the draws of a check's first look."""
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
    key = jax.random.key(0)
    weights = None
    if posterior.target is None:
        z = np.asarray(posterior.sample_flat(key, NUM_DRAWS))
    else:
        evaluated = posterior.evaluate(key, NUM_DRAWS)
        z = np.asarray(evaluated.z)
        log_weights, k = importance.smoothed_weights(evaluated.log_p - evaluated.log_q_high)
        # Moments of reweighted draws mean nothing unless the weights are reliable.
        weights = np.exp(log_weights) if k < importance.RELIABLE_K else None
    is_bare = posterior.is_model and not isinstance(posterior.target, AbstractModelTarget)
    leaves = {"z, unconstrained": z} if is_bare else named(posterior.structured(z))
    dims, coords = {}, {}
    if isinstance(posterior.target, AbstractModelTarget):
        dims, coords = posterior.target.model.dims, posterior.target.model.coords
    made = []
    for name, leaf in leaves.items():
        draws = np.asarray(leaf, np.float64).reshape(len(z), -1)
        axes = [coords.get(dim) for dim in dims.get(name, [])]
        labels = list(_labels(name, leaf.shape[1:], axes))
        made.append(Variable(name, labels, draws, _numbers(draws), _errors(draws, weights)))
    return made


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


def _numbers(draws: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"), warnings.catch_warnings():  # draws that are not finite show as nan
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.stack([draws.mean(0), draws.std(0), *np.quantile(draws, QUANTILES, axis=0)], axis=1)


def _errors(draws: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Compares the moments of draws with those of the same draws reweighted to the posterior."""
    if weights is None:
        return np.full(draws.shape[1], np.nan)
    with np.errstate(all="ignore"):  # a constant has no error
        mean = weights @ draws
        sd = np.sqrt(weights @ (draws - mean) ** 2)
        own = draws.std(0)
        found = np.maximum(np.abs(draws.mean(0) - mean) / sd, np.abs(own / sd - 1))
        return np.where(own > 1e-6 * np.abs(draws).max(0), found, np.nan)
