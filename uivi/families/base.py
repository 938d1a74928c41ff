"""The role of a variational family."""

import abc

import equinox as eqx

from uivi._types import Context, Draw, Key


class AbstractFamily(eqx.Module):
    """A distribution q(z) whose draws are differentiable in its parameters."""

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """Size of the latent vector z, D."""

    @property
    @abc.abstractmethod
    def context_dim(self) -> int:
        """Size of the context, C; 0 for a family that is not amortised."""

    @abc.abstractmethod
    def sample(self, key: Key, context: Context = None) -> Draw:
        """Returns one reparameterised draw."""
