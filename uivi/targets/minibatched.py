"""Models of probabilistic programming libraries, fitted on minibatches of their data."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from uivi._types import Key, Latent, Scalar
from uivi.targets.minibatches import check_batch_size, minibatch
from uivi.targets.model import AbstractModel, AbstractModelTarget, Named
from uivi.targets.rows import Rows
from uivi.trainable import NonTrainable

NUM_ROUGH = 10_000
"""Number of rows on which a fit searches for its start."""


class AbstractRowModel(AbstractModel):
    """A model whose rows of data are independent given its variables.

    Attributes:
        data: arrays of N rows, by the names of the model's arguments.
    """

    data: dict[str, np.ndarray]

    @abc.abstractmethod
    def log_prior(self, unconstrained: Named) -> Scalar:
        """Returns log p(z) with the log Jacobians of the transforms: every term without rows."""

    @abc.abstractmethod
    def log_likelihood_of(self, unconstrained: Named, rows: dict[str, Array]) -> Scalar:
        """Returns Σ log p(row|z) over the given rows."""

    def log_density(self, unconstrained: Named) -> Scalar:
        """Returns log p(x, z) with all rows in memory at once. `Minibatched.log_density` streams them."""
        rows = {name: jnp.asarray(values) for name, values in self.data.items()}
        return self.log_prior(unconstrained) + self.log_likelihood_of(unconstrained, rows)


class Minibatched(AbstractModelTarget):
    """Log p(z) + (N/B) Σ_batch log p(row|z): an unbiased estimate of the log density and its gradient.

    The only site of an update is its minibatch, drawn on the device from a shuffle without replacement.
    `log_density` goes through all rows.

    Attributes:
        model: the model.
        rows: its data on the device, by argument name.
        batch_size: rows in a minibatch, B.
    """

    model: AbstractRowModel = eqx.field(static=True)
    rows: dict[str, Rows]
    batch_size: int = eqx.field(static=True)

    def __check_init__(self):
        check_batch_size(self.batch_size, next(iter(self.rows.values())))

    @property
    def num_sites(self) -> int:
        """Always 1: one posterior."""
        return 1

    @property
    def num_rows(self) -> int:
        """Number of rows of data, N."""
        return next(iter(self.rows.values())).shape[0]

    def at(self, index: Int[Array, "R"]) -> dict[str, Array]:
        """Returns the rows at `index`, in the dtypes of the user's arrays."""
        return {name: rows[index].astype(self.model.data[name].dtype) for name, rows in self.rows.items()}

    def subset(self, key: Key, step: Array, size: int) -> dict[str, Array]:
        """Returns minibatch number `step`, with `size` rows."""
        return self.at(minibatch(key, step, jnp.asarray(self.num_rows, jnp.int32), size))

    def sites(self, key: Key, step: Array) -> dict[str, Array]:
        """Returns the minibatch of update number `step`, as the only site."""
        return jax.tree.map(lambda x: x[None], self.subset(key, step, self.batch_size))

    def context(self, site: dict[str, Array]) -> None:
        """Returns None: a model target has no context."""
        del site

    def log_joint(self, z: Latent, site: dict[str, Array]) -> Scalar:
        """Returns the estimate from the rows of `site`; their number may differ from the batch size."""
        unconstrained = self.unflatten(z)
        scale = self.num_rows / next(iter(site.values())).shape[0]
        likelihood = self.model.log_likelihood_of(unconstrained, site)
        return self.model.log_prior(unconstrained) + scale * likelihood

    def rough(self, key: Key) -> Callable[[Latent], Scalar] | None:
        """Returns the estimate from `NUM_ROUGH` rows, or None if there are no more than these."""
        if self.num_rows <= NUM_ROUGH:
            return None
        return eqx.Partial(self.log_joint, site=self.subset(key, jnp.zeros((), jnp.int32), NUM_ROUGH))

    def anchored(self, place: Latent) -> "Anchored":
        """Returns the same posterior, estimated with less noise near `place`."""
        evaluate = eqx.filter_jit(lambda target, z: jax.value_and_grad(target.log_likelihood)(z))
        level, slope = evaluate(self, place)
        return Anchored(self.model, self, NonTrainable(place), NonTrainable(level), NonTrainable(slope))

    def log_density(self, z: Latent) -> Scalar:
        """Returns log p(x, z) on all rows."""
        return self.model.log_prior(self.unflatten(z)) + self.log_likelihood(z)

    def log_likelihood(self, z: Latent) -> Scalar:
        """Returns Σ log p(row|z) over all rows, streamed in pieces of one batch size."""
        pieces, left = divmod(self.num_rows, self.batch_size)

        # Recompute each piece in the backward pass: keeping the intermediate values of all rows would need as
        # much memory as no streaming at all.
        @jax.checkpoint
        def part(z: Latent, first: Array, place: Int[Array, "R"]) -> Scalar:
            return self.model.log_likelihood_of(self.unflatten(z), self.at(first + place))

        def add(piece, sums):
            return _compensated(sums, part(z, piece * self.batch_size, _places(self.batch_size)))

        sums = jax.lax.fori_loop(0, pieces, add, (jnp.zeros((), z.dtype), jnp.zeros((), z.dtype)))
        if left:
            sums = _compensated(sums, part(z, jnp.asarray(pieces * self.batch_size, jnp.int32), _places(left)))
        return sums[0]


Site = tuple[dict[str, Array], Scalar, Latent]


class Anchored(AbstractModelTarget):
    """`Minibatched` with a control variate: the tangent of the log likelihood at an anchor z₀.

    With l(z) = log p(rows|z) and its tangent t(z) = l(z₀) + ∇l(z₀)(z - z₀), the estimate is
    log p(z) + (N/B) (l(z) - t(z)) on the batch + t(z) on all rows. It is unbiased for any z₀ (Baker et al.
    2019, Control variates for stochastic gradient MCMC). In units of the posterior's standard deviations, a
    gradient without the anchor has noise √(N/B). Near z₀ the anchor removes almost all of it; far away it adds
    at most the noise at z₀.

    Attributes:
        model: the model.
        plain: the target without an anchor.
        place: the anchor z₀.
        level: l(z₀) on all rows.
        slope: ∇l(z₀) on all rows.
    """

    model: AbstractRowModel = eqx.field(static=True)
    plain: Minibatched
    place: NonTrainable
    level: NonTrainable
    slope: NonTrainable

    @property
    def num_sites(self) -> int:
        """Always 1: one posterior."""
        return 1

    def sites(self, key: Key, step: Array) -> tuple:
        """Returns the minibatch of update number `step`, with its log likelihood and gradient at the anchor."""
        rows = self.plain.subset(key, step, self.plain.batch_size)
        likelihood = lambda z: self.model.log_likelihood_of(self.unflatten(z), rows)
        return jax.tree.map(lambda x: x[None], (rows, *jax.value_and_grad(likelihood)(self.place())))

    def context(self, site: Site) -> None:
        """Returns None: a model target has no context."""
        del site

    def log_joint(self, z: Latent, site: Site) -> Scalar:
        """Returns the estimate from one minibatch."""
        rows, level, slope = site
        step = z - self.place().astype(z.dtype)
        scale = self.plain.num_rows / self.plain.batch_size
        on_all = self.level() + self.slope() @ step
        return self.plain.log_joint(z, rows) - scale * (level + slope @ step) + on_all

    def log_density(self, z: Latent) -> Scalar:
        """Returns log p(x, z) on all rows."""
        return self.plain.log_density(z)

    def rough(self, key: Key) -> None:
        """Returns None: an anchor is placed when the start is already known."""
        del key


def _places(size: int) -> Int[Array, "R"]:
    return jnp.arange(size, dtype=jnp.int32)


def _compensated(sums: tuple[Scalar, Scalar], part: Scalar) -> tuple[Scalar, Scalar]:
    """Adds `part` by Kahan's summation: thousands of parts in float32 would lose nats to rounding."""
    total, lost = sums
    part = part.astype(total.dtype) - lost
    new = total + part
    return new, (new - total) - part
