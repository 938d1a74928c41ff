"""The role of a variational family."""

import equinox as eqx

from uivi._types import Context, Draw, Key


class AbstractFamily(eqx.Module):
    """A distribution q(z) that can be sampled with gradients in its parameters."""

    @property
    def dim(self) -> int:
        """D, the size of z."""
        raise NotImplementedError

    @property
    def context_dim(self) -> int:
        """C, or 0."""
        raise NotImplementedError

    def sample(self, key: Key, context: Context = None) -> Draw:
        """One reparameterised draw."""
        raise NotImplementedError
