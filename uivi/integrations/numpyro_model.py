"""A NumPyro model with its data: its density, its sites, and the models that cannot be fitted."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from uivi._jax import ordinary_promotion
from uivi._types import Key, Scalar
from uivi.integrations._optional import needs
from uivi.integrations._signature import takes_positional
from uivi.targets.model import AbstractModel, Named

with needs("NumPyro", extra="numpyro"):
    import numpyro
    from numpyro import handlers
    from numpyro.infer import Predictive, init_to_uniform
    from numpyro.infer import log_likelihood as all_log_likelihoods
    from numpyro.infer.util import initialize_model

STARTS = init_to_uniform(radius=2)
"""Starts are drawn from this cube around zero, as in NumPyro and Stan."""


class NumPyroModel(AbstractModel):
    """A NumPyro model with its arguments.

    Args:
        model: the model.
        args: its arguments.
        kwargs: its keyword arguments.
        key: random key for the trial run.
    """

    def __init__(self, model: Callable, args: tuple, kwargs: dict[str, Any], *, key: Key):
        self.model, self.args, self.kwargs = model, args, kwargs
        self.title = f"NumPyro model {getattr(model, '__name__', type(model).__name__)}"
        self.sites = trial(model, args, kwargs, key=key)
        _refuse(self.sites)
        self.dims, self.coords = axes_of_plates(self.sites)
        self.constants = {}
        info = self._initialise(key)
        self._potential, self._postprocess = info.potential_fn, info.postprocess_fn
        self.example = {name: jnp.zeros_like(value) for name, value in sorted(info.param_info.z.items())}

    def log_density(self, unconstrained: Named) -> Scalar:
        """Returns minus NumPyro's potential energy."""
        return -self._potential(unconstrained)

    def constrain(self, unconstrained: Named) -> Named:
        """Returns the latent and deterministic sites."""
        return self._postprocess(unconstrained)

    def start(self, key: Key) -> Named:
        """Returns a random point, found as NumPyro's own samplers find theirs."""
        return self._initialise(key).param_info.z

    def log_likelihood(self, draws: Named) -> dict[str, np.ndarray]:
        """Returns the log likelihood at every observed site."""
        found = all_log_likelihoods(self.model, draws, *self.args, **self.kwargs)
        return {name: np.asarray(value) for name, value in found.items()}

    def predict(self, key: Key, draws: Named, *args: Any, **kwargs: Any) -> dict[str, np.ndarray]:
        """Draws the observed sites anew, with the model's own arguments or with others."""
        if not (args or kwargs):
            args, kwargs = self.args, self.kwargs
        names = list(self.observed())
        made = Predictive(handlers.uncondition(self.model), draws, return_sites=names)(key, *args, **kwargs)
        return {name: np.asarray(value) for name, value in made.items()}

    def observed(self) -> dict[str, np.ndarray]:
        """Returns the values at the observed sites."""
        seen = [s for s in self.sites.values() if is_observed(s)]
        return {site["name"]: np.asarray(site["value"]) for site in seen}

    def _initialise(self, key: Key):
        try:
            with ordinary_promotion():
                return initialize_model(
                    key, self.model, init_strategy=STARTS, model_args=self.args, model_kwargs=self.kwargs
                )
        except Exception as error:
            # NumPyro's only sign that no start was found is the text of this error.
            if not (isinstance(error, RuntimeError) and "Cannot find valid initial parameters" in str(error)):
                raise _failure(error, _advice(self.model, self.args, self.kwargs)) from error
            raise ValueError(
                "expected a finite log density and gradient near the origin of the unconstrained space, found "
                "none in 100 tries: look for NaN in the data, for observations outside the support of a "
                f"distribution, and for impossible parameters\n{error}"
            ) from error


def trial(
    model: Callable, args: tuple, kwargs: dict[str, Any], *, key: Key, advice: str = ""
) -> dict[str, dict]:
    """Runs the model once, with random values at the latent sites, and returns its sites.

    Raises:
        ValueError: if the model raises. The message has its error and `advice`; the error is chained.
    """
    started = handlers.substitute(handlers.seed(model, key), substitute_fn=STARTS)
    try:
        with ordinary_promotion():
            return handlers.trace(started).get_trace(*args, **kwargs)
    except Exception as error:
        raise _failure(error, advice or _advice(model, args, kwargs)) from error


def _failure(error: Exception, advice: str) -> ValueError:
    lines = [f"the NumPyro model failed: {type(error).__name__}: {error}", advice]
    return ValueError("\n".join(filter(None, lines)))


def _advice(model: Callable, args: tuple, kwargs: dict[str, Any]) -> str:
    """Returns what to check after a failed run; nothing if the error can only be in the model itself."""
    if args or kwargs:
        shapes = [getattr(x, "shape", type(x).__name__) for x in (*args, *kwargs.values())]
        return f"it was called with arguments of shapes {shapes}: check the data and `model_args`"
    if takes_positional(model):
        return (
            "it was called without arguments: pass model_args= if it is a NumPyro model with arguments, or "
            "dim= if it is a log density of z"
        )
    return ""


def is_observed(site: dict) -> bool:
    """Whether a site holds data. `numpyro.factor` sites count as observed for NumPyro, but hold none."""
    return (
        site["type"] == "sample"
        and site["is_observed"]
        and not isinstance(site["fn"], numpyro.distributions.Unit)
    )


def _refuse(sites: dict[str, dict]) -> None:
    """Raises if the sites include something that cannot be fitted."""
    if not any(site["type"] == "sample" for site in sites.values()):
        raise ValueError(
            "expected a NumPyro model, got a function that runs but declares no variables: declare them with "
            "numpyro.sample; a log density is a function of z and takes dim="
        )
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
                    f"expected whole plates, got {site['name']!r} with {part} of {size}: leave out "
                    "subsample_size, or use uivi.integrations.numpyro.minibatched for minibatches"
                )
        if site["type"] == "param":
            raise ValueError(
                f"expected no numpyro.param, got {site['name']!r}: give it a prior or a fixed value"
            )
    if not latent:
        raise ValueError(
            f"expected at least one latent variable, got {sorted(sites)}: leave out `obs` for the variables to "
            "infer, and pass the data in model_args"
        )


def axes_of_plates(sites: dict[str, dict]) -> tuple[dict[str, list[str]], dict[str, np.ndarray]]:
    """Returns names and labels of the axes: the plates of a site name its batch axes."""
    dims, coords = {}, {}
    for name, site in sites.items():
        if site["type"] == "sample":
            rank = np.ndim(site["value"])
            event = site["fn"].event_dim
            names = [f"{name}_dim_{i}" for i in range(rank)]
            for frame in site["cond_indep_stack"]:
                # `frame.dim` counts from the right of the batch shape, so it is negative.
                place = rank - event + frame.dim
                if 0 <= place < rank:
                    names[place] = frame.name
                    coords[frame.name] = np.arange(frame.size)
            if any(frame.name in names for frame in site["cond_indep_stack"]):
                dims[name] = names
    return dims, coords
