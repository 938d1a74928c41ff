"""Any JAX log density as a target."""

from collections.abc import Callable

import equinox as eqx

from uivi import _checks
from uivi._types import Latent, Scalar
from uivi.targets.base import AbstractGlobalTarget


class Density(AbstractGlobalTarget):
    """The posterior given by a JAX function.

    Attributes:
        function: maps a vector of size `size` to its unnormalised log density.
        size: size of the latent vector, D.
    """

    function: Callable[[Latent], Scalar] = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def __check_init__(self):
        _checks.positive_int("dim", self.size)

    @property
    def dim(self) -> int:
        """Size of the latent vector, D."""
        return self.size

    def log_joint(self, z: Latent, site: tuple) -> Scalar:
        """Returns the user's log density."""
        del site
        return self.function(z)
