"""An amortised proposal that whoever uses it trains."""

import equinox as eqx
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Key
from uivi.families.semi_implicit import SemiImplicit
from uivi.networks import MLP
from uivi.reverse.proposals import (
    AbstractProposal,
    AbstractProposalAt,
    GaussianAt,
    UnmixedAt,
    gaussian_net,
    inner_inputs,
)


class Amortised(AbstractProposal):
    """An amortised Gaussian τ(ε|z) with a full covariance. Its state is its network.

    Unlike `Learned`, it does not fit itself: `uivi.estimators.IWHVI` trains the network by the gradient of its
    bound, so draws are differentiable in the network and in z. It is not mixed with q(ε), so weights have no
    bound.

    Attributes:
        width: units in each hidden layer of the network.
        depth: number of hidden layers.
    """

    width: int = eqx.field(static=True, default=128)
    depth: int = eqx.field(static=True, default=2)

    def __check_init__(self):
        _checks.positive_int("width", self.width)
        _checks.positive_int("depth", self.depth)

    def init(self, key: Key, family: SemiImplicit) -> MLP:
        """Returns a fresh network, whose proposal is near N(0, I)."""
        return gaussian_net(key, family, self.width, self.depth)

    def at(self, family: SemiImplicit, z: Array, context: Array | None, state: MLP) -> AbstractProposalAt:
        """Returns the Gaussian at one z."""
        outputs = state(inner_inputs(family, z, context))
        return UnmixedAt(GaussianAt.of(outputs, family.noise_dim))

    def inputs(self, family: SemiImplicit, z: Array, context: Array | None) -> tuple:
        """Returns nothing: the proposal does not fit itself."""
        del family, z, context
        return ()

    def adapt(self, state: MLP, eps: Float[Array, "N E"], inputs: tuple) -> MLP:
        """Returns the state unchanged."""
        del eps, inputs
        return state
