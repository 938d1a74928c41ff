"""A NumPyro model with its data: its density, its sites, and the models that cannot be fitted."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import jax
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
    from numpyro.distributions import constraints
    from numpyro.infer import Predictive, init_to_uniform
    from numpyro.infer import log_likelihood as all_log_likelihoods
    from numpyro.infer.util import constrain_fn, potential_energy, unconstrain_fn

NEEDS_NUMBERS = (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError)
"""Errors of a model that looks at the values of its variables, if only in a trial run."""
RADIUS = 2
"""Half width of the cube around zero from which starting points are drawn, as in NumPyro and Stan."""


class NumPyroModel(AbstractModel):
    """A NumPyro model with its arguments.

    Args:
        model: the model.
        args: its arguments.
        kwargs: its keyword arguments.
        key: random key for the trial run.
    """

    def __init__(self, model: Callable, args: tuple, kwargs: dict[str, Any], *, key: Key):
        self.model, self.args, self.kwargs, self.source = model, args, kwargs, _hashable(model)
        self.title = f"NumPyro model {getattr(model, '__name__', type(model).__name__)}"
        self.sites = trial(model, args, kwargs, key=key)
        _refuse(self.sites)
        self.dims, self.coords = axes_of_plates(self.sites)
        self.constants, self.radius = {}, float(RADIUS)
        shapes = {
            name: _unconstrained_shape(site) for name, site in sorted(self.sites.items()) if _is_latent(site)
        }
        dtype = jax.dtypes.canonicalize_dtype(float)
        self.centre = {name: np.zeros(shape, dtype) for name, shape in shapes.items()}
        self.example = {name: jax.device_put(value) for name, value in self.centre.items()}
        try:
            jax.eval_shape(self.log_density, self.example)
        except Exception as error:
            raise _failed(error, model, args, kwargs) from error
        _warn_of_broadcasting(self.sites)

    def log_density(self, unconstrained: Named) -> Scalar:
        """Returns minus NumPyro's potential energy."""
        with ordinary_promotion():
            return -jnp.asarray(potential_energy(self._keyed, self.args, self.kwargs, unconstrained))

    def constrain(self, unconstrained: Named) -> Named:
        """Returns the latent and deterministic sites."""
        with ordinary_promotion():
            return constrain_fn(self._keyed, self.args, self.kwargs, unconstrained, return_deterministic=True)

    def prior_draws(self, key: Key, number: int) -> Named | None:
        """Runs the model without its data; None if a distribution, such as an improper one, has no draws."""

        def draw(key: Key) -> Named:
            sites = handlers.trace(handlers.seed(self.model, key)).get_trace(*self.args, **self.kwargs)
            values = {name: site["value"] for name, site in sites.items() if _is_latent(site)}
            return unconstrain_fn(self._keyed, self.args, self.kwargs, values)

        try:
            with ordinary_promotion():
                made = jax.jit(jax.vmap(draw))(jax.random.split(key, number))
        except (NotImplementedError, *NEEDS_NUMBERS):
            return None
        return {name: np.asarray(value) for name, value in made.items()}

    def why_not_finite(self) -> str:
        """Returns where to look for NaN."""
        return (
            "look for NaN in the data, for observations outside the support of a distribution, and for "
            "impossible parameters"
        )

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
        # The trial run was abstract: an observation that the model computes has no value there.
        sites = _run(self.model, self.args, self.kwargs, jax.random.key(0))
        return {site["name"]: np.asarray(site["value"]) for site in sites.values() if is_observed(site)}

    @property
    def _keyed(self) -> Callable:
        """The model with a fixed key wherever it asks for one beyond its variables."""

        def fixed(site):
            return jax.random.key(0) if site["type"] == "prng_key" and site["value"] is None else None

        return handlers.substitute(self.model, substitute_fn=fixed)


def trial(
    model: Callable, args: tuple, kwargs: dict[str, Any], *, key: Key, advice: str = ""
) -> dict[str, dict]:
    """Traces the model once, with abstract values at the latent sites, and returns its sites.

    No site has a value, only a shape, except observations that the model takes as they are.

    Raises:
        ValueError: if the model raises. The message has its error and `advice`; the error is chained.
    """
    sites = {}

    def run(key: Key) -> None:
        sites.update(_run(model, args, kwargs, key))

    try:
        try:
            # Without numbers: run eagerly, every operation of the model would be compiled by itself.
            jax.eval_shape(run, key)
        except NEEDS_NUMBERS:
            run(key)
    except Exception as error:
        raise (_failure(error, advice) if advice else _failed(error, model, args, kwargs)) from error
    return sites


def _run(model: Callable, args: tuple, kwargs: dict[str, Any], key: Key) -> dict[str, dict]:
    kinds: dict[str, str] = {}

    def check_name(site: dict) -> None:
        # NumPyro lets a plate replace a site of the same name in its trace, which loses a variable.
        if kinds.setdefault(site["name"], site["type"]) != site["type"]:
            raise AssertionError(f"all sites must have unique names but got `{site['name']}` duplicated")

    named = handlers.substitute(handlers.seed(model, key), substitute_fn=check_name)
    started = handlers.substitute(named, substitute_fn=init_to_uniform(radius=RADIUS))
    with ordinary_promotion():
        return handlers.trace(started).get_trace(*args, **kwargs)


def _hashable(model: Callable) -> Any:
    """Returns the model itself, or something that is equal to nothing else if it has no hash."""
    try:
        hash(model)
    except TypeError:
        return object()
    return model


def _is_latent(site: dict) -> bool:
    return site["type"] == "sample" and not site["is_observed"]


def _unconstrained_shape(site: dict) -> tuple[int, ...]:
    return numpyro.distributions.biject_to(site["fn"].support).inverse_shape(jnp.shape(site["value"]))


def _failure(error: Exception, advice: str) -> ValueError:
    if isinstance(error, AssertionError) and "unique names" in str(error):
        advice = "two sites, or a site and a plate, have this name: rename one of them"
    lines = [f"the NumPyro model failed: {type(error).__name__}: {error}", advice]
    return ValueError("\n".join(filter(None, lines)))


def _failed(error: Exception, model: Callable, args: tuple, kwargs: dict[str, Any]) -> ValueError:
    """Returns the error for a failed run of a model: about its data alone, if they are no numbers."""
    for name, value in (*enumerate(args), *kwargs.items()):
        if found := _no_numbers(value):
            return _refusal(f"as data, got {found} in argument {name!r}")
    return _failure(error, _advice(model, args, kwargs))


def _refusal(words: str) -> ValueError:
    return ValueError(f"expected numbers {words}: encode texts and dates, and pass arrays, as in y.to_numpy()")


def _no_numbers(value: Any) -> str:
    """Returns what kind of data JAX cannot compute with; nothing for others, and for a text by itself."""
    if type(value).__module__.partition(".")[0] == "pandas":
        return f"a {type(value).__name__} of pandas"
    if isinstance(value, list | tuple):
        try:
            value = np.asarray(value)
        except ValueError:
            return "lists of unequal lengths"
        except TypeError:  # traced arrays
            return ""
    if not isinstance(value, np.ndarray):
        return ""
    kinds = {"U": "strings", "S": "strings", "O": "objects", "M": "dates", "m": "times"}
    return kinds.get(value.dtype.kind, "")


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
    latent = [site for site in sites.values() if _is_latent(site)]
    for site in latent:
        if isinstance(site["fn"], numpyro.distributions.Delta):
            raise ValueError(
                f"expected random latent variables, got {site['name']!r} with a Delta distribution: use "
                "numpyro.deterministic"
            )
        if site["fn"].support.is_discrete:
            raise ValueError(
                f"expected continuous latent variables, got the discrete {site['name']!r} "
                f"({type(site['fn']).__name__}): sum it out, as in numpyro.distributions.MixtureSameFamily"
            )
        if _is_circular(site["fn"].support):
            raise ValueError(
                f"expected latent variables on unconstrained spaces, got the circular {site['name']!r} with a "
                "periodic density: use the angle of a pair of normal variables"
            )
    for site in sites.values():
        if is_observed(site) and (found := _no_numbers(site["value"])):
            raise _refusal(f"as data of {site['name']!r}, got {found}")
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


def _is_circular(support: Any) -> bool:
    """Whether a support is the circle, in any number of dimensions."""
    return support is constraints.circular or (
        hasattr(support, "base_constraint") and _is_circular(support.base_constraint)
    )


def _warn_of_broadcasting(sites: dict[str, dict]) -> None:
    """Warns of observations that count more than once, as (5,) against (5, 1) gives 25 terms."""
    for site in sites.values():
        # A number by itself is meant for all of them.
        if not is_observed(site) or not np.ndim(site["value"]):
            continue
        shape, of_data = site["fn"].shape(), np.shape(site["value"])
        if math.prod(np.broadcast_shapes(shape, of_data)) > math.prod(of_data):
            warnings.warn(
                f"the data of {site['name']!r} have shape {of_data}, but its distribution has shape {shape}: "
                "every observation counts several times. Give both the same shape, as in y[:, None]",
                stacklevel=2,
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
