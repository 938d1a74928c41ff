"""NumPyro models: `uivi.fit(model, model_args=(x, y), key=key)`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from uivi import _checks
from uivi._jax import ordinary_promotion
from uivi._types import Key, Scalar
from uivi.targets.minibatched import Minibatched
from uivi.targets.model import AbstractModel, ModelTarget, Named
from uivi.targets.rows import Rows

try:
    import numpyro
    from numpyro import handlers
    from numpyro.infer import Predictive, init_to_uniform
    from numpyro.infer import log_likelihood as all_log_likelihoods
    from numpyro.infer.util import initialize_model
except ImportError as error:
    raise ImportError("expected NumPyro to be installed for a NumPyro model: pip install numpyro") from error

STARTS = init_to_uniform(radius=2)
"""Starts are looked for in this cube around zero, as in NumPyro and Stan."""

_ADVICE = "check the data and `model_args`"


def target(
    model: Callable,
    model_args: tuple = (),
    model_kwargs: dict[str, Any] | None = None,
    *,
    key: Key | None = None,
) -> ModelTarget:
    """The posterior of a NumPyro model, for `uivi.fit`.

    Args:
        model: the model, any callable with NumPyro primitives.
        model_args: its arguments, the data among them.
        model_kwargs: its keyword arguments.
        key: for the trial run of the model.

    Raises:
        ValueError: if the model has no latent variable, a discrete one, a `param` or a subsampled plate, fails
            on its data, or has no finite log density.
    """
    key = jax.random.key(0) if key is None else _checks.prng_key(key)
    return ModelTarget(NumPyroModel(model, _tuple(model_args), dict(model_kwargs or {}), key))


def minibatched(
    model: Callable,
    data: dict[str, Any],
    batch_size: int,
    model_args: tuple = (),
    model_kwargs: dict[str, Any] | None = None,
    *,
    key: Key | None = None,
) -> Minibatched:
    """The posterior of a NumPyro model of many rows, for `uivi.fit`: every update sees a minibatch of them.

    The model is called with `batch_size` rows of each array in `data`, by name, and never knows how many there
    are in all: the log likelihood of observed sites with a value for each row is multiplied by N/B, priors and
    other sites are not. Rows must be independent given the latent variables, none of which may belong to a row.

    Args:
        model: the model; its plates over the rows are as long as the arrays it gets.
        data: arrays of N rows, by the names of the model's arguments; kept as float32 or integers.
        batch_size: B, rows of one update.
        model_args: arguments of the model that have no rows.
        model_kwargs: keyword arguments of the model that have no rows.
        key: for the trial runs of the model.

    Raises:
        ValueError: as `target` does; also for arrays of different lengths, latent variables of the rows, and
            rows that are not independent.
    """
    from uivi.integrations.numpyro_rows import NumPyroRowModel

    key = jax.random.key(0) if key is None else _checks.prng_key(key)
    arrays = _arrays(data)
    rows = {name: Rows.create(values) for name, values in arrays.items()}
    row_model = NumPyroRowModel(model, arrays, _tuple(model_args), dict(model_kwargs or {}), batch_size, key)
    return Minibatched(row_model, rows, batch_size)


def is_model(function: Callable) -> bool:
    """Whether `function` runs without arguments and declares NumPyro variables."""
    try:
        sites = handlers.trace(handlers.seed(function, jax.random.key(0))).get_trace()
    except Exception:  # it takes arguments, or is something else: not for us to say what
        return False
    return any(site["type"] == "sample" for site in sites.values())


def _tuple(model_args: Any) -> tuple:
    return tuple(model_args) if isinstance(model_args, tuple | list) else (model_args,)


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
            f"expected arrays of as many rows each, got {shapes}: pass what has no rows in model_kwargs"
        )
    return {name: a.astype(jax.dtypes.canonicalize_dtype(a.dtype), copy=False) for name, a in arrays.items()}


class NumPyroModel(AbstractModel):
    """A NumPyro model with its arguments."""

    def __init__(self, model: Callable, args: tuple, kwargs: dict[str, Any], key: Key):
        self.model, self.args, self.kwargs = model, args, kwargs
        self.title = f"NumPyro model {getattr(model, '__name__', type(model).__name__)}"
        self.sites = trial(model, args, kwargs, key)
        _refuse(self.sites)
        self.dims, self.coords = axes_of_plates(self.sites)
        self.constants = {}
        info = self._initialise(key)
        self._potential, self._postprocess = info.potential_fn, info.postprocess_fn
        self.example = {name: jnp.zeros_like(value) for name, value in sorted(info.param_info.z.items())}

    def log_density(self, unconstrained: Named) -> Scalar:
        """Minus the potential energy."""
        return -self._potential(unconstrained)

    def constrain(self, unconstrained: Named) -> Named:
        """Latent and deterministic sites."""
        return self._postprocess(unconstrained)

    def start(self, key: Key) -> Named:
        """A random point, as NumPyro's own samplers take it."""
        return self._initialise(key).param_info.z

    def log_likelihood(self, draws: Named) -> dict[str, np.ndarray]:
        """Of all observed sites."""
        found = all_log_likelihoods(self.model, draws, *self.args, **self.kwargs)
        return {name: np.asarray(value) for name, value in found.items()}

    def predict(self, key: Key, draws: Named, *args: Any, **kwargs: Any) -> dict[str, np.ndarray]:
        """Observed sites drawn anew: with the data's arguments, or with others."""
        if not (args or kwargs):
            args, kwargs = self.args, self.kwargs
        names = list(self.observed())
        made = Predictive(handlers.uncondition(self.model), draws, return_sites=names)(key, *args, **kwargs)
        return {name: np.asarray(value) for name, value in made.items()}

    def observed(self) -> dict[str, np.ndarray]:
        """Values at the observed sites."""
        seen = [s for s in self.sites.values() if is_observed(s)]
        return {site["name"]: np.asarray(site["value"]) for site in seen}

    def _initialise(self, key: Key):
        try:
            with ordinary_promotion():
                return initialize_model(
                    key, self.model, init_strategy=STARTS, model_args=self.args, model_kwargs=self.kwargs
                )
        except RuntimeError as error:
            raise ValueError(
                "expected a finite log density and gradient somewhere near the origin of the unconstrained "
                "space, found none in 100 tries: look for NaN in the data, for observations outside a "
                f"distribution's support, and for impossible parameters\n{error}"
            ) from error


def trial(
    model: Callable, args: tuple, kwargs: dict[str, Any], key: Key, advice: str = _ADVICE
) -> dict[str, dict]:
    """The sites of one run of the model, latent ones at random; raises with `advice` if it fails."""
    started = handlers.substitute(handlers.seed(model, key), substitute_fn=STARTS)
    try:
        with ordinary_promotion():
            return handlers.trace(started).get_trace(*args, **kwargs)
    except Exception as error:
        shapes = [getattr(x, "shape", type(x).__name__) for x in (*args, *kwargs.values())]
        raise ValueError(
            f"the model failed on its arguments (shapes {shapes}): {advice}\n{type(error).__name__}: {error}"
        ) from error


def is_observed(site: dict) -> bool:
    """Whether it holds data (and is no `numpyro.factor`)."""
    return (
        site["type"] == "sample"
        and site["is_observed"]
        and not isinstance(site["fn"], numpyro.distributions.Unit)
    )


def _refuse(sites: dict[str, dict]) -> None:
    """Raise on what cannot be fitted."""
    latent = [s for s in sites.values() if s["type"] == "sample" and not s["is_observed"]]
    for site in latent:
        if site["fn"].support.is_discrete:
            raise ValueError(
                f"expected continuous latent variables, got the discrete {site['name']!r} "
                f"({type(site['fn']).__name__}): sum it out, as in numpyro.distributions.MixtureSameFamily"
            )
    for site in sites.values():
        if site["type"] == "plate":
            size, part = site["args"]
            if part not in (None, size):
                raise ValueError(
                    f"expected whole plates, got {site['name']!r} with {part} of {size}: leave subsample_size "
                    "out; uivi.integrations.numpyro.minibatched(...) takes minibatches"
                )
        if site["type"] == "param":
            raise ValueError(f"expected no numpyro.param, got {site['name']!r}: give it a prior, or a value")
    if not latent:
        raise ValueError(
            f"expected at least one latent variable, got {sorted(sites) or 'no sites at all'}: leave `obs` out "
            "of the variables that are to be inferred, and pass the data in model_args"
        )


def axes_of_plates(sites: dict[str, dict]) -> tuple[dict[str, list[str]], dict[str, np.ndarray]]:
    """Axes and labels: a site's plates name its axes from the right."""
    dims, coords = {}, {}
    for name, site in sites.items():
        if site["type"] == "sample":
            rank = np.ndim(site["value"])
            event = site["fn"].event_dim
            names = [f"{name}_dim_{i}" for i in range(rank)]
            for frame in site["cond_indep_stack"]:
                place = rank - event + frame.dim
                if 0 <= place < rank:
                    names[place] = frame.name
                    coords[frame.name] = np.arange(frame.size)
            if any(frame.name in names for frame in site["cond_indep_stack"]):
                dims[name] = names
    return dims, coords
