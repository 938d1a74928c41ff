"""A posterior given by a likelihood and a prior."""

from collections.abc import Callable

import equinox as eqx
import jax

from uivi import _checks
from uivi._types import Latent, Scalar
from uivi.targets.base import AbstractGlobalTarget
from uivi.targets.priors import AbstractPrior, AbstractPriorTarget


class Observed(AbstractGlobalTarget, AbstractPriorTarget):
    """The posterior p(z|x) of a JAX log likelihood and a prior, which may be known by its draws alone.

    Attributes:
        function: maps a vector of size D to log p(x|z).
        prior: p(z).
    """

    function: Callable[[Latent], Scalar] = eqx.field(static=True)
    prior: AbstractPrior

    def __check_init__(self):
        if not isinstance(self.prior, AbstractPrior):
            return  # the base class says what is wrong
        z = jax.ShapeDtypeStruct((self.dim,), jax.dtypes.canonicalize_dtype(float))
        try:
            value = jax.eval_shape(self.function, z)
        except (TypeError, ValueError, IndexError) as error:
            raise ValueError(
                f"expected a log likelihood of a vector of size {self.dim} (the prior's), but it failed on "
                f"one: change the prior, or the function\n{type(error).__name__}: {error}"
            ) from error
        _checks.shape("the log likelihood", value, (), "sum over the terms")

    @property
    def dim(self) -> int:
        """Size of the latent vector, D."""
        return self.prior.dim

    def log_likelihood(self, z: Latent, site: tuple = ()) -> Scalar:
        """Returns the user's log likelihood."""
        del site
        return self.function(z)
