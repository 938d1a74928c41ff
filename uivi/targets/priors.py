"""The role of a prior p(z), and of a target that has one. Priors made of families are in `uivi.priors`."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import PyTree

from uivi import _checks
from uivi._random import normal
from uivi._types import Draw, Key, Latent, Scalar
from uivi.targets.base import AbstractTarget


class AbstractPrior(eqx.Module):
    """A distribution p(z), trained with the model unless it has no arrays."""

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """Size of the latent vector z, D."""

    @abc.abstractmethod
    def sample(self, key: Key) -> Draw:
        """Returns one draw of z, with the ζ that made it; ζ is empty for a prior without one."""


class AbstractKnownPrior(AbstractPrior):
    """A prior with a density."""

    @abc.abstractmethod
    def log_prob(self, z: Latent) -> Scalar:
        """Returns the normalised log p(z)."""


class Normal(AbstractKnownPrior):
    """The prior N(0, I), without parameters."""

    size: int = eqx.field(static=True)

    def __check_init__(self):
        _checks.positive_int("size", self.size)

    @property
    def dim(self) -> int:
        """Size of the latent vector z, D."""
        return self.size

    def sample(self, key: Key) -> Draw:
        """Draws from N(0, I)."""
        z = normal(key, (self.size,))
        return Draw(z, jnp.zeros((0,), z.dtype))

    def log_prob(self, z: Latent) -> Scalar:
        """Returns log N(z; 0, I)."""
        return standard_normal_log_prob(z)


class AbstractPriorTarget(AbstractTarget):
    """A target whose log p(x, z) is log p(x|z) + log p(z), with a prior of the user's choice."""

    prior: eqx.AbstractVar[AbstractPrior]

    def __check_init__(self):
        if not isinstance(self.prior, AbstractPrior):
            raise TypeError(
                "expected `prior` to be of uivi.priors, such as Normal(10) or Implicit(family), got "
                f"{type(self.prior).__name__} {str(self.prior)[:80]!r}"
            )
        if self.prior.dim != self.dim:
            raise ValueError(
                f"expected a prior on {self.dim} dimensions (those of z in {type(self).__name__}), got one on "
                f"{self.prior.dim}: change the prior, or the size of z"
            )

    @abc.abstractmethod
    def log_likelihood(self, z: Latent, site: PyTree) -> Scalar:
        """Returns log p(x|z) at one site."""

    def log_joint(self, z: Latent, site: PyTree) -> Scalar:
        """Returns log p(x, z) at one site, for a prior with a density."""
        return self.log_likelihood(z, site) + need_density(self.prior).log_prob(z)


def need_density(prior: AbstractPrior) -> AbstractKnownPrior:
    """Returns the prior if it has a density, otherwise raises."""
    if isinstance(prior, AbstractKnownPrior):
        return prior
    raise TypeError(
        f"expected a prior with a density, got {type(prior).__name__}, whose log p(z) is an integral: fit "
        "uivi.priors.Bounded(target), and judge the fit with uivi.evaluation.evaluate_doubly"
    )


def standard_normal_log_prob(z: Latent) -> Scalar:
    """Returns log N(z; 0, I)."""
    return -0.5 * (jnp.sum(z**2) + z.shape[0] * jnp.log(2 * jnp.pi)).astype(z.dtype)
