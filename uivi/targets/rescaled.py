"""A posterior on another location and scale."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from uivi import _checks
from uivi._types import Latent, Scalar
from uivi.targets.base import AbstractGlobalTarget, AbstractSingleSiteTarget
from uivi.trainable import NonTrainable


class Rescaled(AbstractGlobalTarget):
    """The posterior of w, where z = loc + F w has the posterior `inner`.

    With rough moments of z as loc and F, every method sees a w of order one. The volume of F is part of the
    density of w, so the ELBO and the evidence are those of z.

    Attributes:
        inner: the posterior of z.
        loc: rough mean of z.
        factor: F, a matrix or a diagonal.
        volume: log |det F|.
    """

    inner: AbstractSingleSiteTarget
    loc: NonTrainable
    factor: NonTrainable
    volume: NonTrainable

    def __check_init__(self):
        _checks.shape("`loc`", self.loc.value, (self.inner.dim,), "it must have the size of z")
        factor = self.factor.value
        shape = (self.inner.dim,) * max(1, jnp.ndim(factor))
        _checks.shape("`factor`", factor, shape, "it must have the size of z")

    @classmethod
    def create(
        cls,
        inner: AbstractSingleSiteTarget,
        loc: Float[np.ndarray, "D"],
        factor: Float[np.ndarray, "D D"] | Float[np.ndarray, "D"],
    ) -> "Rescaled":
        """Computes the volume in float64, on the host."""
        wide = np.asarray(factor, np.float64)
        with np.errstate(divide="ignore"):  # the log of zero is refused below
            volume = np.linalg.slogdet(wide)[1] if wide.ndim == 2 else np.sum(np.log(np.abs(wide)))
        if not np.isfinite(volume):
            raise ValueError("expected a `factor` with an inverse, got a singular one: w would have no density")
        return cls(inner, *(NonTrainable(jnp.asarray(x, float)) for x in (loc, factor, volume)))

    @property
    def dim(self) -> int:
        """Size of the latent vector, D."""
        return self.inner.dim

    def original(self, w: Latent) -> Latent:
        """Returns z = loc + F w."""
        factor = self.factor()
        return self.loc() + (factor @ w if factor.ndim == 2 else factor * w)

    def log_joint(self, z: Latent, site: tuple = ()) -> Scalar:
        """Returns the log density of w, which is called z as in every target."""
        del site
        return self.inner.log_density(self.original(z)) + self.volume()

    def originals(self, draws: Float[np.ndarray, "S D"]) -> Float[np.ndarray, "S D"]:
        """Returns many draws of z for draws of w, on the host and in double precision."""
        loc, factor = (np.asarray(x.value, np.float64) for x in (self.loc, self.factor))
        wide = np.asarray(draws, np.float64)
        return loc + (wide @ factor.T if factor.ndim == 2 else wide * factor)
