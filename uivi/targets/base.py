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
        """The sites of update number `step`, stacked on a leading axis B."""
        raise NotImplementedError

    def context(self, site: PyTree) -> Context:
        """The context that an amortised family sees at one site, or None."""
        raise NotImplementedError

    def log_joint(self, z: Latent, site: PyTree) -> Scalar:
        """Log p(x, z) at one site."""
        raise NotImplementedError


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


class AbstractSamplable(eqx.Module):
    """A target that can be sampled exactly and whose log_joint is normalised."""

    def sample(self, key: Key) -> Latent:
        """One exact draw."""
        raise NotImplementedError


def log_density_at(target: AbstractTarget, draws: Float[Array, "S D"]) -> Float[Array, "S"]:
    """Log p at many z of a target with a single site."""
    site = jax.tree.map(lambda x: x[0], target.sites(jax.random.key(0), jax.numpy.zeros((), int)))
    return jax.vmap(lambda z: target.log_joint(z, site))(draws)
