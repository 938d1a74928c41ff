"""The role of a target: what is to be approximated."""

import equinox as eqx
import jax
from jaxtyping import Array, Float, PyTree

from uivi._types import Context, Key, Latent, Scalar


class AbstractTarget(eqx.Module):
    """An unnormalised log density log p(x, z), over one or many sites.

    A **site** is one inference problem that shares the parameters with the others: the whole posterior for
    a global one, one image for a VAE. Array leaves are trained with the family (a decoder).
    """

    @property
    def dim(self) -> int:
        """D, the size of z."""
        raise NotImplementedError

    @property
    def num_sites(self) -> int:
        """B, the number of sites of one update."""
        raise NotImplementedError

    def sites(self, key: Key, step: Array) -> PyTree:
        """The sites of update number `step`, stacked on a leading axis B; `key` is the same at every step."""
        raise NotImplementedError

    def context(self, site: PyTree) -> Context:
        """The context that an amortised family sees at one site, or None."""
        raise NotImplementedError

    def log_joint(self, z: Latent, site: PyTree) -> Scalar:
        """Log p(x, z) at one site."""
        raise NotImplementedError

    def log_density(self, z: Latent) -> Scalar:
        """Log p(x, z) on all the data; only of a target with a single site."""
        raise NotImplementedError(f"{type(self).__name__} has many sites: it has no single log density")


class AbstractGlobalTarget(AbstractTarget):
    """A target with a single site and no data of its own: one posterior."""

    @property
    def num_sites(self) -> int:
        """One."""
        return 1

    def sites(self, key: Key, step: Array) -> tuple:
        """The one site has nothing to tell."""
        del key, step
        return ()

    def context(self, site: tuple) -> None:
        """None."""
        del site

    def log_density(self, z: Latent) -> Scalar:
        """The same as at the one site."""
        return self.log_joint(z, ())


class AbstractSamplable(eqx.Module):
    """A target that can be sampled exactly and whose log_joint is normalised."""

    def sample(self, key: Key) -> Latent:
        """One exact draw."""
        raise NotImplementedError


def log_density_at(target: AbstractTarget, draws: Float[Array, "S D"]) -> Float[Array, "S"]:
    """Log p at many z of a target with a single site, on all its data."""
    return jax.vmap(target.log_density)(draws)
