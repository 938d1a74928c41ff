"""A target with an implicit prior: its log p(z) from below."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from uivi import _checks
from uivi._random import normal
from uivi._types import Context, Key, Latent, Scalar
from uivi.families.semi_implicit import SemiImplicit
from uivi.priors.implicit import AbstractImplicit
from uivi.targets.base import AbstractTarget
from uivi.targets.priors import AbstractPriorTarget


class NoisySite(NamedTuple):
    """A site and the random key of what is drawn there."""

    site: PyTree
    key: Key


class Bounded(AbstractTarget):
    """A target with an implicit prior, whose log p(z) is bounded from below by K draws of ζ.

    `log_joint` is log p(x|z) + log (1/K) Σ_k p(z|ζ_k) with fresh ζ_k ~ p(ζ) for each z. Its expectation is at
    most log p(x, z), and rises to it with K. Any estimator can fit this target. `uivi.SIVI` then maximises the
    bound of doubly semi-implicit inference (Molchanov et al. 2019). `uivi.estimators.PriorScore` replaces the
    gradient of the bound by an estimate of the gradient of log p(z) itself.

    Attributes:
        target: a model with an implicit prior.
        num_draws: number of draws of ζ for each z, K.
    """

    target: AbstractPriorTarget
    num_draws: int = eqx.field(static=True, default=50)

    def __check_init__(self):
        _checks.positive_int("num_draws", self.num_draws)
        if not isinstance(self.target, AbstractPriorTarget):
            raise TypeError(
                "expected a target with a prior, such as uivi.targets.BernoulliVAE or Observed, got "
                f"{type(self.target).__name__}"
            )
        if not isinstance(self.target.prior, AbstractImplicit):
            raise TypeError(
                f"expected a target with an implicit prior, got {type(self.target.prior).__name__}, whose "
                "density is known: fit the target as it is"
            )

    @property
    def prior(self) -> SemiImplicit:
        """The prior's distribution."""
        assert isinstance(self.target.prior, AbstractImplicit)
        return self.target.prior.distribution()

    @property
    def dim(self) -> int:
        """Size of the latent vector z, D."""
        return self.target.dim

    @property
    def num_sites(self) -> int:
        """Number of sites in one update."""
        return self.target.num_sites

    def sites(self, key: Key, step: Array) -> NoisySite:
        """Returns the sites of this update, each with a key of its own."""
        data_key, noise_key = jax.random.split(key)
        keys = jax.random.split(jax.random.fold_in(noise_key, step), self.num_sites)
        return NoisySite(self.target.sites(data_key, step), keys)

    def context(self, site: NoisySite) -> Context:
        """Returns the context of the model."""
        return self.target.context(_need_noisy(site).site)

    def log_joint(self, z: Latent, site: NoisySite) -> Scalar:
        """Returns log p(x|z) + `log_prior`: at most log p(x, z) in expectation."""
        site, key = _need_noisy(site)
        return self.target.log_likelihood(z, site) + self.log_prior(key, z)

    def log_prior(self, key: Key, z: Latent) -> Scalar:
        """Returns log (1/K) Σ_k p(z|ζ_k) with ζ_k ~ p(ζ): at most log p(z) in expectation (Jensen)."""
        prior = self.prior
        zeta = jax.vmap(prior.mixing.from_normal)(normal(key, (self.num_draws, prior.noise_dim), z.dtype))
        log_prob = jax.vmap(prior.conditional.log_prob_of(z))(zeta)
        return jax.nn.logsumexp(log_prob) - jnp.log(self.num_draws)


def _need_noisy(site: PyTree) -> NoisySite:
    """Returns the site if it has a random key, otherwise raises."""
    if isinstance(site, NoisySite):
        return site
    raise TypeError(
        f"expected a site with a random key, as `sites` of Bounded gives, got {type(site).__name__}: evaluate "
        "a fit with an implicit prior by uivi.evaluation.evaluate_doubly"
    )
