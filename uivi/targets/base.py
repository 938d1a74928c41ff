"""The role of a target: the density that a family is fitted to."""

import abc

import equinox as eqx
import jax
from jaxtyping import Array, Float, PyTree

from uivi._types import Context, Key, Latent, Scalar


class AbstractTarget(eqx.Module):
    """An unnormalised log density log p(x, z), over one or many sites.

    A **site** is one inference problem that shares its parameters with the others: the whole posterior for a
    global target, one image for a VAE. Array leaves are trained together with the family (a decoder, say),
    unless they are wrapped in `uivi.trainable.NonTrainable`.
    """

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """Size of the latent vector z, D."""

    @property
    @abc.abstractmethod
    def num_sites(self) -> int:
        """Number of sites in one update, B."""

    @abc.abstractmethod
    def sites(self, key: Key, step: Array) -> PyTree:
        """Returns the sites of update number `step`, stacked on a leading axis B.

        Every step of a fit gets the same `key`.
        """

    @abc.abstractmethod
    def context(self, site: PyTree) -> Context:
        """Returns what an amortised family sees at one site, or None."""

    @abc.abstractmethod
    def log_joint(self, z: Latent, site: PyTree) -> Scalar:
        """Returns log p(x, z) at one site. It may be an unbiased estimate from a minibatch."""


class AbstractSingleSiteTarget(AbstractTarget):
    """A target with a single site, hence with one log density: a posterior."""

    @abc.abstractmethod
    def log_density(self, z: Latent) -> Scalar:
        """Returns log p(x, z) on all the data."""


class AbstractGlobalTarget(AbstractSingleSiteTarget):
    """A posterior without minibatches: every update sees the same density."""

    @property
    def num_sites(self) -> int:
        """Always 1."""
        return 1

    def sites(self, key: Key, step: Array) -> tuple:
        """Returns an empty tuple: the only site carries no data."""
        del key, step
        return ()

    def context(self, site: tuple) -> None:
        """Returns None: a global target has no context."""
        del site

    def log_density(self, z: Latent) -> Scalar:
        """Returns `log_joint` at the only site."""
        return self.log_joint(z, ())


class AbstractSamplable(eqx.Module):
    """A target with exact draws and a normalised `log_joint`."""

    @abc.abstractmethod
    def sample(self, key: Key) -> Latent:
        """Returns one exact draw."""


def log_density_at(target: AbstractTarget, draws: Float[Array, "S D"]) -> Float[Array, "S"]:
    """Evaluates the log density of a single-site target at many z, on all its data."""
    if not isinstance(target, AbstractSingleSiteTarget):
        raise TypeError(
            f"expected a target with a single site, got {type(target).__name__}, which has many and no single "
            "log density; evaluate it site by site with uivi.evaluation.Likelihood"
        )
    return jax.vmap(target.log_density)(draws)
