"""NumPyro models on minibatches of their rows: finds the sites that belong to rows, refuses the rest."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpyro import handlers
from numpyro.infer import Predictive
from numpyro.infer import log_likelihood as all_log_likelihoods
from numpyro.infer.util import compute_log_probs, potential_energy

from uivi._jax import ordinary_promotion
from uivi._types import Key, Scalar
from uivi.integrations.numpyro_model import NumPyroModel, axes_of_plates, is_observed, trial
from uivi.targets.minibatched import AbstractRowModel
from uivi.targets.model import ModelTarget, Named
from uivi.targets.probe import Probe, finite_points

Data = dict[str, np.ndarray]
NUM_TRIED = 32
"""Number of rows in a trial run."""


class Seen(NamedTuple):
    """One run of a model.

    Attributes:
        sites: all sites, by name.
        log_probs: log probabilities of the sample sites, not summed over their axes.
    """

    sites: dict[str, dict]
    log_probs: dict[str, Array]


class Axes(NamedTuple):
    """The axis of the rows in a site, counted from the right.

    Attributes:
        log_prob: axis in the log probabilities.
        value: axis in the values.
    """

    log_prob: int
    value: int


class NumPyroRowModel(AbstractRowModel):
    """A NumPyro model that takes rows of data as keyword arguments.

    An observed site belongs to the rows if its log probabilities have an axis that grows with their number. All
    other sites must not depend on the rows. Three runs on a few rows find this out and check it.

    Args:
        model: the model.
        data: the rows, by argument name.
        args: other arguments.
        kwargs: other keyword arguments.
        piece: number of rows in memory at once when all rows are evaluated.
        key: random key for the trial runs.
    """

    def __init__(
        self, model: Callable, data: Data, *, args: tuple, kwargs: dict[str, Any], piece: int, key: Key
    ):
        self.model, self.data, self.args, self.kwargs, self.piece = model, data, args, kwargs, piece
        first, second, both = _trial_rows(data)
        more = trial(model, args, kwargs | both, key=key, advice=_ADVICE)
        self.few = NumPyroModel(model, args, kwargs | first, key=key)
        self.title, self.example = f"{self.few.title}, minibatched", self.few.example
        self.centre, self.radius, self.source = self.few.centre, self.few.radius, self.few.source
        _refuse_local(self.few.sites, more)
        few = ModelTarget(self.few)
        point = finite_points(key, self.few, Probe(few.log_density, 8), 1)[0]
        start = self._latent(few.unflatten(jnp.asarray(point, jnp.result_type(float))))
        seen = [self._seen(start, rows) for rows in (first, second, both)]
        self.axes = _axes_of_rows(*seen)
        self.constant = [*self.example, *_constant_deterministic(*seen)]
        self.constants = {}
        self.dims, coords = axes_of_plates(self.few.sites)
        wide = axes_of_plates(more)[1]
        grown = {name for name in coords if len(coords[name]) != len(wide[name])}
        self.coords = coords | {name: np.arange(self.num_rows) for name in grown}

    @property
    def num_rows(self) -> int:
        """Number of rows of data, N."""
        return next(iter(self.data.values())).shape[0]

    def log_prior(self, unconstrained: Named) -> Scalar:
        """Returns the log density of all sites without rows."""
        # Hidden sites add nothing to the potential, so a few rows stand in for all: no other site sees them.
        rest = handlers.block(self.model, hide=list(self.axes))
        with ordinary_promotion():
            return -jnp.asarray(potential_energy(rest, self.args, self.few.kwargs, unconstrained))

    def log_likelihood_of(self, unconstrained: Named, rows: dict[str, Array]) -> Scalar:
        """Returns the log likelihood of the sites with rows."""
        latent = self._latent(unconstrained)
        with ordinary_promotion():
            found, _ = compute_log_probs(self.model, self.args, self.kwargs | rows, latent)
            return jnp.sum(jnp.stack([found[name] for name in self.axes]))

    def constrain(self, unconstrained: Named) -> Named:
        """Returns the latent sites, and the deterministic sites that do not depend on the rows."""
        made = self.few.constrain(unconstrained)
        return {name: made[name] for name in self.constant}

    def prior_draws(self, key: Key, number: int) -> Named | None:
        """Draws from the prior, which has no rows."""
        return self.few.prior_draws(key, number)

    def why_not_finite(self) -> str:
        """Returns where to look for NaN."""
        return self.few.why_not_finite()

    def log_likelihood(self, draws: Named) -> dict[str, np.ndarray]:
        """Returns the log likelihood at every observed site, streamed over the rows."""

        @jax.jit
        def compute(_: Key, rows: Named) -> Named:
            found = all_log_likelihoods(self.model, draws, *self.args, parallel=True, **self.kwargs, **rows)
            return {name: found[name] for name in self._observed}

        return self._streamed(compute, {name: axes.log_prob for name, axes in self.axes.items()})

    def predict(self, key: Key, draws: Named, *args: Any, **kwargs: Any) -> dict[str, np.ndarray]:
        """Draws the observed sites anew, for the model's own rows (streamed) or for rows given by name."""
        if args or kwargs:
            return self.few.predict(key, draws, *(args or self.args), **(self.kwargs | kwargs))
        make = Predictive(handlers.uncondition(self.model), draws, return_sites=self._observed, parallel=True)
        compute = jax.jit(lambda key, rows: make(key, *self.args, **self.kwargs, **rows))
        return self._streamed(compute, self._value_axes, key)

    def observed(self) -> dict[str, np.ndarray]:
        """Returns the values at the observed sites."""
        latent = self._latent(self.example)

        @jax.jit
        def compute(_: Key, rows: Named) -> Named:
            seen = [self._seen(latent, rows).sites[name] for name in self._observed]
            return {site["name"]: jnp.broadcast_to(site["value"], site["fn"].shape()) for site in seen}

        return self._streamed(compute, self._value_axes)

    @property
    def _observed(self) -> list[str]:
        return [name for name, site in self.few.sites.items() if is_observed(site)]

    @property
    def _value_axes(self) -> dict[str, int]:
        return {name: axes.value for name, axes in self.axes.items()}

    def _latent(self, unconstrained: Named) -> Named:
        with ordinary_promotion():
            made = self.few.constrain(unconstrained)
        return {name: made[name] for name in self.example}

    def _seen(self, latent: Named, rows: Named) -> Seen:
        try:
            with ordinary_promotion():
                found = compute_log_probs(self.model, self.args, self.kwargs | rows, latent, sum_log_prob=False)
        except Exception as error:
            raise ValueError(
                f"the NumPyro model failed on a few rows: {type(error).__name__}: {error}\n{_ADVICE}"
            ) from error
        return Seen(found[1], found[0])

    def _streamed(
        self, compute: Callable, axes: dict[str, int], key: Key | None = None
    ) -> dict[str, np.ndarray]:
        """Calls `compute(key, rows)` piece by piece and joins the results along the axis of the rows.

        Sites without rows are the same for every piece, so the first one has them.
        """
        key = jax.random.key(0) if key is None else key
        parts = []
        with ordinary_promotion():
            for number, first in enumerate(range(0, self.num_rows, self.piece)):
                rows = {name: values[first : first + self.piece] for name, values in self.data.items()}
                made = compute(jax.random.fold_in(key, number), rows)
                parts.append({name: np.asarray(value) for name, value in made.items()})
        joined = lambda name: np.concatenate([part[name] for part in parts], axes[name])
        return {name: joined(name) if name in axes else value for name, value in parts[0].items()}


_ADVICE = (
    "a minibatched model must accept any number of rows: make plates as long as the data they get, as in "
    "numpyro.plate('rows', x.shape[0]), and put all arrays with rows into `data`"
)


def _trial_rows(data: Data) -> tuple[Data, Data, Data]:
    """Returns a few rows from all over the data, equally many others, and both together."""
    total = next(iter(data.values())).shape[0]
    if total < 2:
        raise ValueError("expected at least two rows of data, got one: use uivi.fit(model, model_kwargs=...)")
    few = min(NUM_TRIED, total // 2)
    places = np.linspace(0, total - 1, 2 * few, dtype=int)
    take = lambda index: {name: values[index] for name, values in data.items()}
    return take(places[:few]), take(places[few:]), take(places)


def _refuse_local(few: dict[str, dict], more: dict[str, dict]) -> None:
    """Raises if a latent variable has one value per row."""
    for name, site in few.items():
        shapes = np.shape(site["value"]), np.shape(more[name]["value"]) if name in more else None
        if site["type"] == "sample" and not site["is_observed"] and shapes[0] != shapes[1]:
            raise ValueError(
                f"expected latent variables of the whole model, got {name!r} with one value per row (shapes "
                f"{shapes[0]} and {shapes[1]} on few and more rows): integrate it out, or fit all rows at once "
                "with uivi.fit(model, model_kwargs=...)"
            )


def _axes_of_rows(first: Seen, second: Seen, both: Seen) -> dict[str, Axes]:
    """Returns the observed sites that grow with the rows, with the axes of the rows.

    Raises:
        ValueError: if another site depends on the rows, or one row on another.
    """
    axes = {}
    for name, few in first.log_probs.items():
        others, more = np.asarray(second.log_probs[name]), np.asarray(both.log_probs[name])
        if few.shape == more.shape:
            has_data = first.sites[name]["is_observed"]
            _refuse_dependence(name, np.asarray(few), others, more, has_data=has_data)
            continue
        axis = _grown(name, few.shape, more.shape)
        if not _close(np.concatenate([few, others], axis), more):
            raise ValueError(
                f"expected rows that are independent given the latent variables, got log likelihoods of "
                f"{name!r} that depend on the other rows ({np.sum(few) + np.sum(others):.6g} on two parts, "
                f"{np.sum(more):.6g} on both together): compute means, ranks and similar statistics of all the "
                "data outside the model"
            )
        axes[name] = Axes(axis, _grown(name, *(seen.sites[name]["fn"].shape() for seen in (first, both))))
    if not axes:
        raise ValueError(
            "expected an observed variable with one value per row, got none: pass the observations in `data`, "
            "and give them to numpyro.sample(..., obs=...)"
        )
    return axes


def _refuse_dependence(
    name: str, few: np.ndarray, others: np.ndarray, more: np.ndarray, *, has_data: bool
) -> None:
    """Raises if the log probabilities of a site without an axis of rows change with the rows."""
    if _close(few, others) and _close(few, more):
        return
    found = f"{few.sum():.6g} and {others.sum():.6g} on different rows, {more.sum():.6g} on both together"
    if has_data:
        raise ValueError(
            f"expected observed variables with one value per row, or without rows, got {name!r} with a log "
            f"probability of {found}: do not sum over the rows"
        )
    raise ValueError(
        f"expected priors that do not depend on the rows, got {name!r} with a log probability of {found}: "
        "compute statistics of all the data outside the model"
    )


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays agree up to float32 sums in another order. NaN equals NaN."""
    return bool(np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True))


def _grown(name: str, few: tuple[int, ...], more: tuple[int, ...]) -> int:
    """Returns the axis in which two shapes differ, counted from the right."""
    differ = [i - len(few) for i in range(len(few)) if len(few) == len(more) and few[i] != more[i]]
    if len(differ) != 1:
        raise ValueError(
            f"expected one axis of rows in {name!r}, got shapes {few} and {more} on few and more rows: use a "
            "plate over the rows"
        )
    return differ[0]


def _constant_deterministic(first: Seen, second: Seen, both: Seen) -> list[str]:
    """Returns the names of the deterministic sites that do not depend on the rows."""
    found = [name for name, site in first.sites.items() if site["type"] == "deterministic"]
    same = lambda name, seen: np.array_equal(first.sites[name]["value"], seen.sites[name]["value"])
    return [name for name in found if same(name, second) and same(name, both)]
