"""NumPyro models: `uivi.fit(model, model_args=(x, y), key=key)`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from uivi import _checks
from uivi._promotion import ordinary_promotion
from uivi._types import Key, Scalar
from uivi.targets.program import AbstractProgram, Named, Program

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


def target(
    model: Callable,
    model_args: tuple = (),
    model_kwargs: dict[str, Any] | None = None,
    *,
    key: Key | None = None,
) -> Program:
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
    args = tuple(model_args) if isinstance(model_args, tuple | list) else (model_args,)
    return Program(NumPyroProgram(model, args, dict(model_kwargs or {}), key))


def is_model(function: Callable) -> bool:
    """Whether `function` runs without arguments and declares NumPyro variables."""
    try:
        sites = handlers.trace(handlers.seed(function, jax.random.key(0))).get_trace()
    except Exception:  # it takes arguments, or is something else: not for us to say what
        return False
    return any(site["type"] == "sample" for site in sites.values())


class NumPyroProgram(AbstractProgram):
    """A NumPyro model with its arguments."""

    def __init__(self, model: Callable, args: tuple, kwargs: dict[str, Any], key: Key):
        self.model, self.args, self.kwargs = model, args, kwargs
        self.title = f"NumPyro model {getattr(model, '__name__', type(model).__name__)}"
        sites = self._trial(key)
        _refuse(sites)
        self.sites = sites
        self.dims, self.coords = _plates(sites)
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
        seen = [s for s in self.sites.values() if _is_observed(s)]
        return {site["name"]: np.asarray(site["value"]) for site in seen}

    def _trial(self, key: Key) -> dict[str, dict]:
        started = handlers.substitute(handlers.seed(self.model, key), substitute_fn=STARTS)
        try:
            with ordinary_promotion():
                return handlers.trace(started).get_trace(*self.args, **self.kwargs)
        except Exception as error:
            shapes = [getattr(x, "shape", type(x).__name__) for x in (*self.args, *self.kwargs.values())]
            raise ValueError(
                f"the model failed on its arguments (shapes {shapes}): check the data and `model_args`\n"
                f"{type(error).__name__}: {error}"
            ) from error

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


def _is_observed(site: dict) -> bool:
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
                    f"expected whole plates, got {site['name']!r} with {part} of {size}: "
                    "leave subsample_size out"
                )
        if site["type"] == "param":
            raise ValueError(f"expected no numpyro.param, got {site['name']!r}: give it a prior, or a value")
    if not latent:
        raise ValueError(
            f"expected at least one latent variable, got {sorted(sites) or 'no sites at all'}: leave `obs` out "
            "of the variables that are to be inferred, and pass the data in model_args"
        )


def _plates(sites: dict[str, dict]) -> tuple[dict[str, list[str]], dict[str, np.ndarray]]:
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
