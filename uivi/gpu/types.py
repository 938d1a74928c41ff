"""Inputs and outputs of the fused moves. One lane is one fit with its N chains.

Letters: T moves, N chains, E noise dimension, H width of both hidden layers, D latent dimension.
"""

from typing import NamedTuple

from jaxtyping import Array, Float

from uivi._types import Scalar


class Adaptation(NamedTuple):
    """Changes the step size after each of the first moves: step *= 1 + rate (a - target) / target.

    Here a is the share of the lane's chains that accepted the move.

    Attributes:
        num_moves: number of moves with a change after them.
        rate: relative size of a change.
        target: share of accepting chains that leaves the step size as it is.
    """

    num_moves: int
    rate: float
    target: float

    def after(self, step: Scalar, accepted: Scalar) -> Scalar:
        """Returns the step size after a move that the share `accepted` of the chains accepted."""
        return step * (1 + self.rate * (accepted - self.target) / self.target)


class MoveInputs(NamedTuple):
    """The chains of one lane, their randomness, and the log density that they explore.

    With r = centre - w3 relu(w2 relu(w1 ε + first_bias) + b2) the log density is -½ Σ precision r² - ½ |ε|². Up
    to a constant this is log q(ε|z) of a `Gaussian` conditional whose network has two hidden ReLU layers.

    Attributes:
        eps: start of each chain.
        momenta: standard normal draws.
        uniforms: uniform draws on [0, 1).
        step: leapfrog step size of the first move.
        first_bias: bias of the first layer, with the context folded in.
        w1: weights of the first layer.
        w2: weights of the second layer.
        b2: bias of the second layer.
        w3: weights of the output layer.
        centre: z minus the bias of the output layer.
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

    With δ = relu(w2 relu(w1 ε + first_bias) + b2) - origin the log density is slope·δ - ½ δ·(gram δ) - ½ |ε|².
    Up to a constant this is the log density of `MoveInputs`, whatever the number of latent dimensions.

    Attributes:
        eps: start of each chain.
        momenta: standard normal draws.
        uniforms: uniform draws on [0, 1).
        step: leapfrog step size of the first move.
        first_bias: bias of the first layer, with the context folded in.
        w1: weights of the first layer.
        w2: weights of the second layer.
        b2: bias of the second layer.
        origin: features at δ = 0, usually at the start of the chain, so that nothing large cancels.
        slope: gradient of the log density in the features, at the origin.
        gram: minus the Hessian in the features.
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
    """Results of T moves.

    Attributes:
        eps: positions of the chains after each move.
        probability: Metropolis acceptance probability.
        accepted: 1 where the move was accepted, 0 where not.
        bad: 1 where the log density at the end of the trajectory was not finite, so that the move was rejected.
        step: step size after each move.
    """

    eps: Float[Array, "T N E"]
    probability: Float[Array, "T N"]
    accepted: Float[Array, "T N"]
    bad: Float[Array, "T N"]
    step: Float[Array, "T"]
