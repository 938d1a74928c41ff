"""A model of a probabilistic programming library, fitted on minibatches of its data."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from uivi._types import Key, Latent, Scalar
from uivi.targets.model import AbstractModel, AbstractModelTarget, Named
from uivi.targets.rows import Rows, check_batch_size, minibatch

NUM_ROUGH = 10_000
"""Rows on which a fit looks for its start."""


class AbstractRowModel(AbstractModel):
    """A model whose rows of data are independent of each other, given its variables.

    Attributes:
        data: N rows each, by the names of the model's arguments.
    """

    data: dict[str, np.ndarray]

    def log_prior(self, unconstrained: Named) -> Scalar:
        """Log p(z) with the Jacobians of the transforms: all that does not depend on the rows."""
        raise NotImplementedError

    def log_likelihood_of(self, unconstrained: Named, rows: dict[str, Array]) -> Scalar:
        """Σ log p(row|z) over some rows."""
        raise NotImplementedError

    def log_density(self, unconstrained: Named) -> Scalar:
        """Log p(x, z), all rows at once: see `Minibatched.log_density` for many."""
        rows = {name: jnp.asarray(values) for name, values in self.data.items()}
        return self.log_prior(unconstrained) + self.log_likelihood_of(unconstrained, rows)


class Minibatched(AbstractModelTarget):
    """Log p(z) + (N/B) Σ_batch log p(row|z): the log density and its gradient without bias.

    One site: the minibatch of an update, drawn on the device, shuffled without replacement. `log_density` goes
    through all rows.
    """

    model: AbstractRowModel = eqx.field(static=True)
    rows: dict[str, Rows]
    batch_size: int = eqx.field(static=True)

    def __check_init__(self):
        check_batch_size(self.batch_size, next(iter(self.rows.values())))

    @property
    def num_sites(self) -> int:
        """One posterior."""
        return 1

    @property
    def num_rows(self) -> int:
        """N."""
        return next(iter(self.rows.values())).stored.shape[0]

    def at(self, index: Int[Array, "R"]) -> dict[str, Array]:
        """Rows of the data, in the types of the user's arrays."""
        return {name: rows[index].astype(self.model.data[name].dtype) for name, rows in self.rows.items()}

    def subset(self, key: Key, step: Array, size: int) -> dict[str, Array]:
        """Minibatch number `step` of `size` rows."""
        return self.at(minibatch(key, step, jnp.asarray(self.num_rows, jnp.int32), size))

    def sites(self, key: Key, step: Array) -> dict[str, Array]:
        """The minibatch of this update."""
        return jax.tree.map(lambda x: x[None], self.subset(key, step, self.batch_size))

    def context(self, site: dict[str, Array]) -> None:
        """None."""
        del site

    def log_joint(self, z: Latent, site: dict[str, Array]) -> Scalar:
        """The estimate from the rows of `site`, however many they are."""
        unconstrained = self.unflatten(z)
        scale = self.num_rows / next(iter(site.values())).shape[0]
        likelihood = self.model.log_likelihood_of(unconstrained, site)
        return self.model.log_prior(unconstrained) + scale * likelihood

    def rough(self, key: Key) -> Callable[[Latent], Scalar] | None:
        """The estimate from `NUM_ROUGH` rows, if there are more."""
        if self.num_rows <= NUM_ROUGH:
            return None
        return eqx.Partial(self.log_joint, site=self.subset(key, jnp.zeros((), jnp.int32), NUM_ROUGH))

    def anchored(self, place: Latent) -> "Anchored":
        """The same posterior, estimated with less noise near `place`."""
        evaluate = eqx.filter_jit(lambda target, z: jax.value_and_grad(target.log_likelihood)(z))
        level, slope = evaluate(self, place)
        return Anchored(self.model, self, *(Rows.create(np.atleast_1d(x)) for x in (place, level, slope)))

    def log_density(self, z: Latent) -> Scalar:
        """Log p(x, z) on all rows."""
        return self.model.log_prior(self.unflatten(z)) + self.log_likelihood(z)

    def log_likelihood(self, z: Latent) -> Scalar:
        """Σ log p(row|z) over all rows, streamed in pieces of one batch size."""
        pieces, left = divmod(self.num_rows, self.batch_size)

        # Recomputed in the backward pass, which would else keep all rows' intermediate values.
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
    """`Minibatched` with a control variate: of l(z) = log p(rows|z), the tangent at z₀ is known on all rows.

    Log p(z) + (N/B) [l - t](z) on the batch + t(z) on all rows, with t(z) = l(z₀) + ∇l(z₀)(z - z₀). Without
    bias for any z₀ (Baker et al. 2019, Control variates for stochastic gradient MCMC). In units of the
    posterior's standard deviations, the noise of a gradient is √(N/B) without it. Near z₀ there is almost none;
    far away the noise at z₀ comes on top, at most.

    Attributes:
        model: the model.
        plain: the target without an anchor.
        place: z₀.
        level: l(z₀) on all rows.
        slope: ∇l(z₀) on all rows.
    """

    model: AbstractRowModel = eqx.field(static=True)
    plain: Minibatched
    place: Rows
    level: Rows
    slope: Rows

    @property
    def num_sites(self) -> int:
        """One posterior."""
        return 1

    def sites(self, key: Key, step: Array) -> tuple:
        """The minibatch of this update, with value and slope of its log likelihood at the anchor."""
        rows = self.plain.subset(key, step, self.plain.batch_size)
        likelihood = lambda z: self.model.log_likelihood_of(self.unflatten(z), rows)
        return jax.tree.map(lambda x: x[None], (rows, *jax.value_and_grad(likelihood)(self.place[:])))

    def context(self, site: Site) -> None:
        """None."""
        del site

    def log_joint(self, z: Latent, site: Site) -> Scalar:
        """The estimate from one minibatch."""
        rows, level, slope = site
        step = z - self.place[:].astype(z.dtype)
        scale = self.plain.num_rows / self.plain.batch_size
        on_all = self.level[0] + self.slope[:] @ step
        return self.plain.log_joint(z, rows) - scale * (level + slope @ step) + on_all

    def log_density(self, z: Latent) -> Scalar:
        """Log p(x, z) on all rows."""
        return self.plain.log_density(z)


def _places(size: int) -> Int[Array, "R"]:
    return jnp.arange(size, dtype=jnp.int32)


def _compensated(sums: tuple[Scalar, Scalar], part: Scalar) -> tuple[Scalar, Scalar]:
    """Kahan's summation: thousands of parts in float32 would lose nats to rounding."""
    total, lost = sums
    part = part.astype(total.dtype) - lost
    new = total + part
    return new, (new - total) - part
