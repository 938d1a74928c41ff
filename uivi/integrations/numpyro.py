"""NumPyro models: `uivi.fit(model, model_args=(x, y), key=key)`."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from uivi import _checks
from uivi._types import Key
from uivi.integrations.numpyro_model import NumPyroModel
from uivi.integrations.numpyro_rows import NumPyroRowModel
from uivi.targets.minibatched import Minibatched
from uivi.targets.model import ModelTarget
from uivi.targets.rows import Rows


def target(
    model: Callable,
    model_args: tuple = (),
    model_kwargs: dict[str, Any] | None = None,
    *,
    key: Key | None = None,
) -> ModelTarget:
    """Returns the posterior of a NumPyro model, for `uivi.fit`.

    Args:
        model: the model, any callable with NumPyro primitives.
        model_args: arguments of the model, including the data.
        model_kwargs: keyword arguments of the model.
        key: random key for the trial run of the model.

    Raises:
        ValueError: if the model fails, or if it cannot be fitted: it has no latent variable, a discrete one, a
            `param`, a subsampled plate, or no finite log density.
    """
    key = jax.random.key(0) if key is None else _checks.prng_key(key)
    return ModelTarget(NumPyroModel(model, _tuple(model_args), _named(model_kwargs), key=key))


def minibatched(
    model: Callable,
    data: dict[str, Any],
    batch_size: int,
    model_args: tuple = (),
    model_kwargs: dict[str, Any] | None = None,
    *,
    key: Key | None = None,
) -> Minibatched:
    """Returns the posterior of a NumPyro model, for `uivi.fit`, such that every update sees a minibatch.

    The model is called with `batch_size` rows of each array in `data`, by name, and never sees the total number
    N. The log likelihood of observed sites with one value per row is multiplied by N/B; priors and other sites
    are not. Rows must be independent given the latent variables, and no latent variable may belong to a row.

    Args:
        model: the model. Its plates over the rows must be as long as the arrays it gets.
        data: arrays of N rows, by the names of the model's arguments; kept as float32 or integers.
        batch_size: number of rows in one update, B.
        model_args: arguments of the model without rows.
        model_kwargs: keyword arguments of the model without rows.
        key: random key for the trial runs of the model.

    Raises:
        ValueError: as for `target`; also if the arrays differ in length, a latent variable belongs to a row, or
            the rows are not independent.
    """
    key = jax.random.key(0) if key is None else _checks.prng_key(key)
    arrays = _arrays(data)
    rows = {name: Rows.create(values) for name, values in arrays.items()}
    row_model = NumPyroRowModel(
        model, arrays, args=_tuple(model_args), kwargs=_named(model_kwargs), piece=batch_size, key=key
    )
    return Minibatched(row_model, rows, batch_size)


def _tuple(model_args: Any) -> tuple:
    """Accepts a single argument without its tuple: model_args=x."""
    return tuple(model_args) if isinstance(model_args, tuple | list) else (model_args,)


def _named(model_kwargs: Any) -> dict[str, Any]:
    if not isinstance(model_kwargs, dict | None):
        raise TypeError(
            "expected `model_kwargs` to hold a model's arguments by name, got "
            f'{type(model_kwargs).__name__}: model_kwargs={{"y": y}}'
        )
    return dict(model_kwargs or {})


def _arrays(data: dict[str, Any]) -> dict[str, np.ndarray]:
    if not isinstance(data, dict) or not data:
        raise TypeError(
            f"expected `data` to hold arrays by the names of the model's arguments, got {type(data).__name__}: "
            'data={"x": x, "y": y}'
        )
    arrays = {name: np.asarray(values) for name, values in data.items()}
    if len({array.shape[:1] for array in arrays.values()}) > 1 or not all(a.ndim for a in arrays.values()):
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(
            f"expected arrays with the same number of rows, got {shapes}: pass arrays without rows in "
            "model_kwargs"
        )
    # The dtypes that JAX would use: float32 for float64 unless x64 is on.
    return {name: a.astype(jax.dtypes.canonicalize_dtype(a.dtype), copy=False) for name, a in arrays.items()}
