"""What goes into the moves of a lane and what comes out: one lane is one fit with its N chains.

Letters: T moves, N chains, E noise dimension, H width of both hidden layers, D latent dimension.
"""

from typing import NamedTuple

from jaxtyping import Array, Float

from uivi._types import Scalar


class Adaptation(NamedTuple):
    """After each of the first moves: step *= 1 + rate (a - target) / target.

    a is the share of the lane's chains that accepted the move.

    Attributes:
        num_moves: how many moves the step changes after.
        rate: relative change.
        target: acceptance that leaves the step as it is.
    """

    num_moves: int
    rate: float
    target: float

    def after(self, step: Scalar, accepted: Scalar) -> Scalar:
        """The step size after a move that this share of the chains accepted."""
        return step * (1 + self.rate * (accepted - self.target) / self.target)


class MoveInputs(NamedTuple):
    """The chains of one lane, their randomness, and the log density that they explore.

    With r = centre - w3 relu(w2 relu(w1 ε + first_bias) + b2) the log density is
    -½ Σ precision r² - ½ |ε|²: that of q(ε|z) for a `Gaussian` conditional whose network has two hidden
    ReLU layers, up to a constant.

    Attributes:
        eps: where the chains start.
        momenta: standard normal.
        uniforms: uniform on [0, 1).
        step: the leapfrog's step size in the first move.
        first_bias: the first layer's bias plus the context's part.
        w1: first layer.
        w2: second layer.
        b2: its bias.
        w3: output layer.
        centre: z minus the output layer's bias.
        precision: 1/σ².
    """

    eps: Float[Array, "N E"]
    momenta: Float[Array, "T N E"]
    uniforms: Float[Array, "T N"]
    step: Scalar
    first_bias: Float[Array, "N H"]
    w1: Float[Array, "H E"]
    w2: Float[Array, "H H"]
    b2: Float[Array, "H"]
    w3: Float[Array, "D H"]
    centre: Float[Array, "N D"]
    precision: Float[Array, "D"]


class CollapsedInputs(NamedTuple):
    """The chains of one lane, their randomness, and a log density that is quadratic in the features.

    With δ = relu(w2 relu(w1 ε + first_bias) + b2) - origin the log density is slope·δ - ½ δ·(gram δ) - ½ |ε|²:
    that of `MoveInputs` with many latent dimensions, up to a constant.

    Attributes:
        eps: where the chains start.
        momenta: standard normal.
        uniforms: uniform on [0, 1).
        step: the leapfrog's step size in the first move.
        first_bias: the first layer's bias plus the context's part.
        w1: first layer.
        w2: second layer.
        b2: its bias.
        origin: features from which the changes δ are counted.
        slope: the log density's derivative there.
        gram: minus its second derivative.
    """

    eps: Float[Array, "N E"]
    momenta: Float[Array, "T N E"]
    uniforms: Float[Array, "T N"]
    step: Scalar
    first_bias: Float[Array, "N H"]
    w1: Float[Array, "H E"]
    w2: Float[Array, "H H"]
    b2: Float[Array, "H"]
    origin: Float[Array, "N H"]
    slope: Float[Array, "N H"]
    gram: Float[Array, "H H"]


class Moves(NamedTuple):
    """What each move did.

    Attributes:
        eps: the chains after the move.
        probability: Metropolis acceptance probability.
        accepted: 1 or 0.
        bad: 1 where the log density at the trajectory's end was not finite (the move is then rejected).
        step: the step size after the move.
    """

    eps: Float[Array, "T N E"]
    probability: Float[Array, "T N"]
    accepted: Float[Array, "T N"]
    bad: Float[Array, "T N"]
    step: Float[Array, "T"]
