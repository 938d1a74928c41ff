"""Any JAX log density as a target."""

from collections.abc import Callable

import equinox as eqx
from jaxtyping import Array

from uivi import _checks
from uivi._types import Key, Latent, Scalar
from uivi.targets.base import AbstractTarget


class Density(AbstractTarget):
    """The posterior given by `log_density(z)`, a JAX function of a vector of size `size`."""

    log_density: Callable[[Latent], Scalar] = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def __check_init__(self):
        _checks.positive_int("dim", self.size)

    @property
    def dim(self) -> int:
        """D."""
        return self.size

    @property
    def num_sites(self) -> int:
        """One."""
        return 1

    def sites(self, key: Key, step: Array) -> tuple:
        """The one site has no data of its own."""
        del key, step
        return ()

    def context(self, site: tuple) -> None:
        """None."""
        del site

    def log_joint(self, z: Latent, site: tuple) -> Scalar:
        """The user's log density."""
        del site
        return self.log_density(z)
