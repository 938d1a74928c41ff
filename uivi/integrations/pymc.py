"""PyMC models: `uivi.fit(model, random_seed=1)`."""

import contextlib
import functools
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from uivi._types import Key, Scalar
from uivi.integrations._pytensor import settings_kept, translate, untranslatable
from uivi.targets.model import AbstractModel, ModelTarget, Named

with settings_kept():
    import pymc as pm
    from pymc.backends.arviz import coords_and_dims_for_inferencedata, find_constants, find_observations
    from pymc.data import MinibatchOp
    from pymc.distributions.transforms import CircularTransform, _default_transform
    from pymc.model.transform.conditioning import remove_value_transforms
    from pymc.model.transform.optimization import freeze_dims_and_data
    from pytensor.graph.traversal import ancestors

JITTER = 1.0
"""Half width of the cube around the model's initial point from which starts are drawn, as in PyMC."""


def target(model: Any) -> ModelTarget:
    """Returns the posterior of a PyMC model (5.x or 6.x), for `uivi.fit`.

    The target keeps the data and dims that the model has now: a later `pm.set_data` does not change it.

    Args:
        model: a `pm.Model`.

    Raises:
        ValueError: if the model has no free variable, a discrete, untransformed or circular one, a minibatch,
            or no finite log density, or if PyTensor cannot translate it to JAX.
    """
    return ModelTarget(PyMCModel(model))


class PyMCModel(AbstractModel):
    """A PyMC model, frozen with the data that it has now.

    Args:
        model: a `pm.Model`.
    """

    def __init__(self, model: Any):
        _refuse(model)
        self.title = f"PyMC model {model.name}".strip()
        first = model.initial_point(0)
        with _copying(model):
            self.model = freeze_dims_and_data(model)
        variables = {rv.name: self.model.rvs_to_values[rv] for rv in self.model.free_RVs}
        self._dtypes = {name: value.type.dtype for name, value in variables.items()}
        self._initial = {name: first[value.name] for name, value in sorted(variables.items())}
        dtype = jax.dtypes.canonicalize_dtype(float)
        self.centre = {name: np.asarray(value, dtype) for name, value in self._initial.items()}
        self.radius, self.source = JITTER, model
        self.example = {name: jax.device_put(np.zeros_like(value)) for name, value in self.centre.items()}
        self.coords, self.dims = coords_and_dims_for_inferencedata(self.model)
        self.constants = find_constants(self.model)
        inputs, derived = list(variables.values()), self.model.unobserved_RVs
        self._derived = [variable.name for variable in derived]
        self._log_density = translate(inputs, [self.model.logp()])
        self._constrain = translate(inputs, self.model.replace_rvs_by_values(derived))
        self._check()

    def log_density(self, unconstrained: Named) -> Scalar:
        """Returns log p(x, z), including potentials and the log Jacobians of the transforms."""
        (value,) = self._log_density(*self._values(unconstrained))
        return jnp.asarray(value, jnp.result_type(*unconstrained.values()))

    def constrain(self, unconstrained: Named) -> Named:
        """Returns the free variables and deterministics."""
        return dict(zip(self._derived, self._constrain(*self._values(unconstrained)), strict=True))

    def prior_draws(self, key: Key, number: int) -> None:
        """Returns None: PyMC draws from its prior on the constrained space only."""
        del key, number

    def why_not_finite(self) -> str:
        """Returns the terms of the log density that are not finite at the initial point, and where to look."""
        return (
            f"at that point, {self._terms()}: look for NaN in the data, for observations outside the support "
            "of a distribution, for impossible parameters, and pass an `initval`"
        )

    def log_likelihood(self, draws: Named) -> dict[str, np.ndarray]:
        """Returns the log likelihood of every observed variable."""
        if not self.model.observed_RVs:
            return {}
        function, inputs, names = self._likelihood
        found = jax.jit(jax.vmap(function))(*[jnp.asarray(draws[name]) for name in inputs])
        return {name: np.asarray(value) for name, value in zip(names, found, strict=True)}

    def predict(self, key: Key, draws: Named, *args: Any, **kwargs: Any) -> dict[str, np.ndarray]:
        """Draws the observed variables anew, by PyMC."""
        if args or kwargs:
            raise TypeError(
                "expected no arguments for a PyMC model: for other data, use pm.set_data(...) and "
                "pm.sample_posterior_predictive(posterior.to_arviz(key), predictions=True)"
            )
        names = [rv.name for rv in self.model.observed_RVs]
        if not names:
            return {}
        columns = {name: np.asarray(draws[name], dtype) for name, dtype in self._dtypes.items()}
        points = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        with _silent():
            made = pm.sample_posterior_predictive(
                points,
                model=self.model,
                var_names=names,
                random_seed=int(jax.random.bits(key)),
                progressbar=False,
                return_inferencedata=False,
            )
        return {name: np.asarray(made[name])[0] for name in names}

    def observed(self) -> dict[str, np.ndarray]:
        """Returns the values of the observed variables."""
        return find_observations(self.model)

    @functools.cached_property
    def _likelihood(self) -> tuple[Any, list[str], list[str]]:
        """Returns a function from constrained values to log p of the observations, and the names of both.

        Draws come constrained, so the transforms must go. It is built on first use: few users need it.
        """
        with _copying(self.model):
            plain = remove_value_transforms(self.model)
        terms: Any = plain.logp(plain.observed_RVs, sum=False)
        function = translate(plain.value_vars, terms)
        return function, [rv.name for rv in plain.free_RVs], [rv.name for rv in plain.observed_RVs]

    def _values(self, unconstrained: Named) -> list[Array]:
        """Returns the values in the order of the model and, with x64, in its float types."""
        types = {name: jax.dtypes.canonicalize_dtype(dtype) for name, dtype in self._dtypes.items()}
        return [jnp.asarray(unconstrained[name], dtype) for name, dtype in types.items()]

    def _check(self) -> None:
        """Raises if the functions cannot be traced."""
        try:
            jax.eval_shape(lambda z: (self.log_density(z), self.constrain(z)), self.example)
        except Exception as error:
            raise untranslatable(error) from error

    def _terms(self) -> str:
        """Describes the terms of the log density that are not finite at the initial point."""
        model = self.model
        names = [v.name for v in (*model.free_RVs, *model.observed_RVs, *model.potentials)]
        terms: Any = model.logp(sum=False)
        found = translate(model.value_vars, terms)(*self._values(self._initial))
        totals = {name: float(np.sum(np.asarray(term))) for name, term in zip(names, found, strict=True)}
        bad = [f"{name!r} ({total})" for name, total in totals.items() if not np.isfinite(total)]
        return f"log p is not finite in {', '.join(bad)}" if bad else "log p is finite, but not its gradient"


def _refuse(model: Any) -> None:
    """Raises if the model includes something that cannot be fitted."""
    if not model.free_RVs:
        raise ValueError(
            f"expected at least one free variable, got {sorted(model.named_vars) or 'no variables'}: leave out "
            "`observed` for the variables to infer"
        )
    discrete = [model.values_to_rvs[value].name for value in model.discrete_value_vars]
    if discrete:
        raise ValueError(
            f"expected continuous free variables, got the discrete {', '.join(map(repr, discrete))}: sum them "
            "out, with pm.Mixture or pymc_extras.marginalize"
        )
    for rv in model.free_RVs:
        _refuse_transform(rv, model.rvs_to_transforms[rv])
    graph = ancestors([*model.basic_RVs, *model.potentials, *model.rvs_to_values.values()])
    if any(v.owner is not None and isinstance(v.owner.op, MinibatchOp) for v in graph):
        raise ValueError(
            "expected the whole data, got pm.Minibatch: pass the data themselves, without total_size"
        )


def _refuse_transform(rv: Any, transform: Any) -> None:
    """Raises unless a free variable lives on an unconstrained space."""
    if transform is None and _default_transform(rv.owner.op, rv) is not None:
        raise ValueError(
            f"expected free variables on unconstrained spaces, got {rv.name!r} without its transform: leave "
            "out default_transform=None"
        )
    if isinstance(transform, CircularTransform):
        raise ValueError(
            f"expected free variables on unconstrained spaces, got the circular {rv.name!r} with a periodic "
            "density: use the angle of a pair of normal variables"
        )


@contextlib.contextmanager
def _copying(model: Any) -> Iterator[None]:
    """Removes the initial values of a model while it is copied.

    PyMC 5 refuses to copy a model with initial values. PyMC 6 removes them itself, in the same way.
    """
    kept = dict(model.rvs_to_initial_values)
    try:
        model.rvs_to_initial_values.update(dict.fromkeys(kept))
        with warnings.catch_warnings():
            # The warning is about the copy, which no user sees.
            warnings.filterwarnings("ignore", "Detected variables likely created by GP", UserWarning)
            yield
    finally:
        model.rvs_to_initial_values.update(kept)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Silences PyMC, which logs what it samples."""
    logger = logging.getLogger("pymc")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
