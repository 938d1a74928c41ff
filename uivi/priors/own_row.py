"""The aggregated posterior as prior, with the row that has made z counted exactly."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from uivi._types import Key, Latent, Scalar
from uivi.priors.bounded import AbstractBounded
from uivi.priors.implicit import AbstractImplicit
from uivi.priors.rows import RowConditional
from uivi.targets.priors import AbstractPriorTarget


class WithOwnRow(AbstractBounded):
    """A target whose prior is the equal mixture of an encoder's Gaussians at N rows, one of which belongs to z.

    Most of the density at a z of row x comes from r(z|x) itself, which random rows miss. So it is counted
    exactly, and K random rows stand for the others:

        log [ r(z|x) / N  +  (1/K) Σ_k 1{x_k ≠ x} r(z|x_k) ].

    Its expectation is at most log p(z), and the gradient is that of importance sampling with these proposals
    of ζ. The context of every site must be one of the rows, as it is if both are the training data.

    Attributes:
        target: a model whose implicit prior has a `RowConditional` and ζ ~ `Uniform(1)`.
        num_draws: number of random rows for each z, K.
    """

    target: AbstractPriorTarget
    num_draws: int = eqx.field(static=True, default=50)

    def __check_init__(self):
        prior = self.target.prior
        # Anything else is refused by the base class.
        if isinstance(prior, AbstractImplicit) and not _of_rows(prior):
            name = type(prior.distribution().conditional).__name__
            raise TypeError(
                f"expected a prior of rows, with a RowConditional, got {name}: use uivi.priors.Bounded, whose "
                "draws know nothing of z"
            )

    def log_prior_at(self, key: Key, z: Latent, site: PyTree) -> Scalar:
        """Returns the logarithm above, for the row of this site."""
        conditional, own = self.prior.conditional, self.target.context(site)
        assert isinstance(conditional, RowConditional)
        number = jnp.asarray(conditional.num_rows, z.dtype)

        def of_other(key: Key) -> Scalar:
            row = conditional.row(jax.random.randint(key, (), 0, conditional.num_rows))
            return jnp.where(jnp.any(row != own), conditional.encoder.log_prob(z, row), -jnp.inf)

        others = jax.vmap(of_other)(jax.random.split(key, self.num_draws)) - jnp.log(self.num_draws)
        itself = conditional.encoder.log_prob(z, own) - jnp.log(number)
        return jax.nn.logsumexp(jnp.append(others, itself))


def _of_rows(prior: AbstractImplicit) -> bool:
    return isinstance(prior.distribution().conditional, RowConditional)
