"""The result of a fit: draws, a check, a summary, a file."""

import dataclasses
import functools
import os
import pathlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from uivi import _checks
from uivi._jax import seldom_jit, without_nan_checks
from uivi._types import Key, Status
from uivi.estimators.base import AbstractEstimator
from uivi.evaluation import bounds, importance, verdict
from uivi.evaluation.check import Check
from uivi.evaluation.coverage import Region
from uivi.evaluation.look import NUM_MIXING, look
from uivi.families.base import AbstractFamily
from uivi.families.sampling import BATCH, sample_many
from uivi.fitting import display, plots, tables
from uivi.fitting.prechecks import check_outside
from uivi.integrations.recognition import recognise
from uivi.storage import archive, fields, posteriors
from uivi.targets.base import AbstractTarget
from uivi.targets.model import AbstractModelTarget
from uivi.targets.probe import generator
from uivi.targets.traced import TracedFunction, traced_constrain

OVERSAMPLING = 4
"""Number of draws of q for each reweighted draw."""


@dataclasses.dataclass(eq=False)
class Posterior:
    """A fitted q(z).

    Attributes:
        family: the fitted variational family.
        example: a pytree of zeros with the structure of one draw.
        status: how the fit ended.
        history: columns recorded during the fit ("step", "log_joint", "elbo_lower", ...).
        seconds: time spent in updates, compilation included.
        regions: where the paths of the search for a start have ended; empty without a search.
        phases: seconds of each phase of the call of `uivi.fit`; their sum is the time that its caller waited.
        target: the target of the fit; None in a posterior that was loaded without one.
        estimator: the method; None in a loaded posterior.
        est_state: the last state of the method; None in a loaded posterior.
        is_model: whether the posterior belongs to a model, which knows the constrained space.
    """

    family: AbstractFamily
    example: PyTree
    status: Status
    history: dict[str, list[Any]]
    seconds: float
    target: AbstractTarget | None = None
    estimator: AbstractEstimator | None = None
    est_state: PyTree = None
    is_model: bool = False
    phases: dict[str, float] = dataclasses.field(default_factory=dict)
    regions: tuple[Region, ...] = ()
    _check_result: Check | None = None
    _table: list[tables.Variable] | None = None

    @property
    def dim(self) -> int:
        """Size of the flat latent vector, D."""
        return self.family.dim

    def sample(
        self, key: Key, num_draws: int, context: Array | None = None, *, reweight: bool = False
    ) -> PyTree:
        """Returns independent draws with a leading axis: shape (num_draws, D), or the structure of `init`.

        For a model, these are its variables by name, in their own (constrained) space.

        Args:
            key: random key.
            num_draws: number of draws.
            context: what an amortised posterior is conditioned on, such as one image, shape (C,).
            reweight: whether to bring the draws nearer to the posterior. `OVERSAMPLING` times as many are drawn
                from q and thinned by Pareto-smoothed importance weights. This needs the target, and a k-hat
                below 0.7.
        """
        z = self._resampled(key, num_draws) if reweight else self.sample_flat(key, num_draws, context)
        return self.structured(z)

    def structured(self, z: Float[Array | np.ndarray, "S D"]) -> PyTree:
        """Returns flat draws in the structure of `sample`."""
        if isinstance(self.target, AbstractModelTarget):
            return _constrained(self.target, z)
        if self.is_model:
            raise ValueError(
                "this posterior belongs to a model: pass it as target= to uivi.load(path, target=...), as a "
                "PyMC model or as uivi.integrations.numpyro.target(...), or take unconstrained draws with "
                "sample_flat()"
            )
        return jax.vmap(ravel_pytree(self.example)[1])(jnp.asarray(z))

    def sample_flat(self, key: Key, num_draws: int, context: Array | None = None) -> Float[Array, "S D"]:
        """Returns independent draws as flat vectors; for a model, in its unconstrained space."""
        key = _checks.prng_key(key)
        size = self.family.context_dim
        given = None if context is None else jnp.shape(context)
        if given != ((size,) if size else None):
            expected = f"a context of shape ({size},)" if size else "no context"
            raise ValueError(f"expected {expected} for this posterior, got {given}")
        return sample_many(key, self.family, _checks.positive_int("num_draws", num_draws), context).z

    def evaluate(self, key: Key, num_draws: int, num_mixing: int | None = None) -> bounds.Evaluated:
        """Returns independent flat draws of q with log p (unnormalised) and both estimates of log q.

        Args:
            key: random key.
            num_draws: number of draws.
            num_mixing: number of proposals of ε for each log q; by default 256, as in `check`.
        """
        if self.target is None or self._is_amortised:
            raise ValueError(
                "expected a posterior with its log density and without context: pass the target of the fit to "
                "uivi.load(path, target=...)"
            )
        key, num_draws = _checks.prng_key(key), _checks.positive_int("num_draws", num_draws)
        with without_nan_checks():
            if self.estimator is not None and num_mixing is None:
                fit = (self.family, self.target, self.estimator, self.est_state)
                made = look(key, *fit, num_draws=num_draws).evaluated
                return bounds.Evaluated(*(column[:num_draws] for column in made))
            num_mixing = NUM_MIXING if num_mixing is None else _checks.positive_int("num_mixing", num_mixing)
            fitted = None if self.estimator is None else self.estimator.fitted_proposal(self.est_state)
            return bounds.evaluate(key, self.family, self.target, num_draws, num_mixing, fitted)

    def to_arviz(self, key: Key, num_draws: int = 1_000, **options: Any) -> Any:
        """Returns draws as ArviZ's DataTree (InferenceData before ArviZ 1).

        See `uivi.integrations.arviz.to_arviz` for the options.
        """
        from uivi.integrations.arviz import to_arviz

        return to_arviz(self, key, num_draws, **options)

    def _resampled(self, key: Key, num_draws: int) -> Float[Array, "S D"]:
        """Resamples draws of q by importance, without replacement."""
        draw_key, pick_key = jax.random.split(_checks.prng_key(key))
        number = OVERSAMPLING * _checks.positive_int("num_draws", num_draws)
        evaluated = self.evaluate(draw_key, number)
        weights, k = self.smoothed_weights(evaluated)
        if not importance.summarise(evaluated.log_weights).is_reliable:
            warnings.warn(
                f"k-hat of the importance weights is {k:.2f}, above {importance.RELIABLE_K}: do not trust "
                "reweighted draws; see posterior.check()",
                stacklevel=3,
            )
        # The Gumbel trick: the indices of the largest perturbed log weights are draws without replacement.
        gumbel = generator(pick_key).gumbel(size=number)
        return jnp.asarray(evaluated.z[np.argsort(-(weights + gumbel))[:num_draws]])

    def smoothed_weights(self, evaluated: bounds.Evaluated) -> tuple[Float[np.ndarray, "S"], float]:
        """Returns Pareto-smoothed log weights of draws, and the k-hat of the check; theirs without one."""
        weights, k = importance.smoothed_weights(evaluated.log_weights)
        return weights, k if (found := self._judged()) is None else found.pareto_k

    def check(self, key: Key | None = None, *, thorough: bool = False) -> Check:
        """Judges the fit: bounds, mixing, k-hat, a verdict and advice.

        The result is computed once, kept, and saved with the posterior.

        Args:
            key: random key.
            thorough: whether to look for mass that q has missed as well: particles go from far-off points to
                the posterior by tempered sequential Monte Carlo. This takes seconds, or minutes if the log
                density is expensive.
        """
        if self._is_amortised:
            raise ValueError(
                "expected a posterior without context: judge an amortised posterior on data, with "
                "uivi.evaluation.Likelihood()(key, posterior.family, posterior.target, images)"
            )
        found = self._check_result
        if found is None or (thorough and found.thorough is None):
            check_outside("posterior.check()")
            if self.target is None or self.estimator is None:
                name = "check(thorough=True)" if thorough else "check()"
                raise ValueError(
                    f"expected a check in the file, found none: call {name} before save(), while the log "
                    "density is available"
                )
            key = jax.random.key(0) if key is None else _checks.prng_key(key)
            fit = (self.family, self.target)
            shared = {"estimator": self.estimator, "est_state": self.est_state, "history": self.history}
            with without_nan_checks():
                if found is None:
                    moments = functools.partial(quantities, self.target)
                    found = verdict.judge(
                        key, *fit, status=self.status, quantities=moments, regions=self.regions, **shared
                    )
                if thorough:
                    found = verdict.judge_thoroughly(found, jax.random.fold_in(key, 1), *fit, **shared)
            self._check_result = found
        return found

    def summary(self, *, details: bool = False) -> str:
        """Returns what `print` shows: the verdict in plain words, and a table of the variables.

        Args:
            details: whether to add the numbers of the check (ELBO from both sides, mixing, k-hat) and the
                seconds of each phase of the fit.
        """
        found = self._judged()
        printed = display.text(self, found, self._variables())
        return f"{printed}\n\n{display.details(self, found)}".rstrip() if details else printed

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return display.short(self)

    def _repr_html_(self) -> str:
        return display.as_html(self, self._judged(), self._variables())

    def plot(self, names: Sequence[str] | None = None, *, most: int = 4, dark: bool = False) -> Any:
        """Draws marginals and pairs as a Matplotlib figure.

        Args:
            names: variables (`theta`) or entries (`theta[0]`); by default the entries with the largest errors.
            most: largest number of entries.
            dark: whether to draw on a dark ground.
        """
        return plots.pairs(self._variables(), names, _checks.positive_int("most", most), dark=dark)

    def plot_history(self, *, dark: bool = False) -> Any:
        """Draws the ELBO from both sides over the updates, rounds marked, as a Matplotlib figure."""
        return plots.bound(self.history, dark=dark)

    def plot_check(self, *, dark: bool = False) -> Any:
        """Draws the errors of the variables and both sides of the ELBO, as a Matplotlib figure."""
        has_density = self.target is not None
        unknown = "the importance weights are not reliable" if has_density else "the file has no log density"
        return plots.errors(self.check(), self._variables(), unknown=unknown, dark=dark)

    def _judged(self) -> Check | None:
        """Returns the check; None for an amortised posterior, or one whose file has no check."""
        can_judge = self.target is not None and self.estimator is not None
        is_known = self._check_result is not None or can_judge
        return self.check() if is_known and not self._is_amortised else None

    def _variables(self) -> list[tables.Variable]:
        """Returns the table of the variables, made once; empty for an amortised posterior."""
        if self._table is None:
            self._table = [] if self._is_amortised else tables.variables(self)
        return self._table

    @property
    def _is_amortised(self) -> bool:
        many = self.target is not None and self.target.num_sites > 1
        return self.family.context_dim > 0 or many

    def save(self, path: str | os.PathLike) -> None:
        """Writes a file from which `uivi.load` samples again, without the log density and the data.

        A class or function of your own is recorded by its name: pass it to `uivi.load(path, trust=[...])`.

        Args:
            path: the file; a regular file there is replaced.

        Raises:
            ValueError: for a family that could not be loaded again, such as one with a lambda in it.
            OSError: if the file cannot be written.
        """
        path = pathlib.Path(path)
        described = posteriors.describe(self.family, self.example, self.status)
        if self._check_result is None and self.target is not None and not self._is_amortised:
            self.check()
        check = None if self._check_result is None else self._check_result.to_json()
        rest = {"history": self.history, "seconds": self.seconds, "is_model": self.is_model, "check": check}
        if self.phases:
            rest["phases"] = self.phases
        try:
            posteriors.write(path, described, **rest)
        except OSError as error:
            raise OSError(f"cannot write {path} ({error.strerror}): choose another place") from error


def load(
    path: str | os.PathLike, *, target: AbstractTarget | Any = None, trust: Iterable[Callable] = ()
) -> Posterior:
    """Reads a posterior that `Posterior.save` wrote.

    A file is data: loading imports and executes nothing that it names. It builds the classes of `uivi` and
    JAX's activations; any other name in the file is refused, unless `trust` has it.

    Args:
        path: the file.
        target: the target or model that was fitted; needed for constrained draws of a model.
        trust: your own classes and functions that the file may use, matched by name, such as
            `[MyConditional, my_activation]`. Sampling calls them with values from the file.

    Raises:
        FileNotFoundError: if there is no file.
        uivi.storage.ArchiveError: for a damaged file, another format, or a name that is not in `trust`.

    Examples:
        >>> import jax, tempfile, uivi
        >>> family = uivi.ExplicitGaussian.create(2)
        >>> posterior = uivi.Posterior(family, jax.numpy.zeros(2), uivi.Status.DONE, {}, 0.0)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     posterior.save(f"{directory}/gaussian.uivi")
        ...     again = uivi.load(f"{directory}/gaussian.uivi")
        >>> again.sample(jax.random.key(0), 5).shape
        (5, 2)
    """
    path = pathlib.Path(path)
    stored = posteriors.read(path, trust)
    check = None
    if stored.check is not None:
        with archive.refusing(path):
            check = Check.from_json(stored.check)
            fields.check(check, "check")
    if target is not None and not isinstance(target, AbstractTarget):
        target = _target_of(target)
    if target is not None and target.dim != stored.family.dim:
        raise ValueError(
            f"expected the target of this posterior, of {stored.family.dim} dimensions, got {target.dim}"
        )
    rest = {name: value for name, value in stored._asdict().items() if name != "check"}
    return Posterior(**rest, target=target, _check_result=check)


def _target_of(model: Any) -> AbstractModelTarget:
    target = recognise(model, key=jax.random.key(0))
    if target is None:
        raise TypeError(
            f"expected `target` to be a target or a model, got {type(model).__name__}: give a NumPyro model "
            "with arguments as uivi.integrations.numpyro.target(...)"
        )
    return target


def quantities(target: AbstractTarget | None, z: Float[np.ndarray, "S D"]) -> Float[np.ndarray, "S K"]:
    """Returns what a check compares: a model's own float variables, which its user sees, or z itself."""
    if not isinstance(target, AbstractModelTarget):
        return z
    variables = [np.asarray(x).reshape(len(z), -1) for x in jax.tree.leaves(_constrained(target, z))]
    return np.concatenate([x for x in variables if np.issubdtype(x.dtype, np.floating)], 1)


def _constrained(target: AbstractModelTarget, z: Float[Array | np.ndarray, "S D"]) -> dict[str, Array]:
    """Returns the variables of a model, in batches of one size: one program for any number of draws."""
    constrain = traced_constrain(target)
    host = np.asarray(z)
    padded = np.concatenate([host, np.repeat(host[:1], -len(host) % BATCH, 0)])
    parts = [_constrain_batch(constrain, padded[i : i + BATCH]) for i in range(0, len(padded), BATCH)]
    return jax.tree.map(lambda *part: jnp.asarray(np.concatenate(part)[: len(host)]), *parts)


@seldom_jit
def _constrain_batch(constrain: TracedFunction, z: Any) -> dict[str, Array]:
    return jax.vmap(constrain)(z)
