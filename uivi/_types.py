"""Array aliases (one letter per axis) and the small records that cross module borders.

The letters are B for sites, S for draws per site, N = B*S, M for reverse draws, K for proposals, L for mixing
draws of a bound, E for the noise dimension, D for the latent dimension and C for the context dimension.
"""

import enum
from typing import Any, NamedTuple

from jaxtyping import Array, Float, PRNGKeyArray

Key = PRNGKeyArray
Scalar = Float[Array, ""]
Latent = Float[Array, "D"]
Noise = Float[Array, "E"]
Context = Float[Array, "C"] | None


class Draw(NamedTuple):
    """A draw (z, ε) of the joint q(z|ε) q(ε). Batched draws have a leading axis N."""

    z: Float[Array, "*N D"]
    eps: Float[Array, "*N E"]


class ReverseDraws(NamedTuple):
    """Weighted draws of the reverse conditional q(ε|z).

    Attributes:
        eps: the draws.
        weights: their weights, which sum to one. Those of coupled chains may be negative.
        last: the ε at which the kernel ended; another kernel may continue from it.
    """

    eps: Float[Array, "*N M E"]
    weights: Float[Array, "*N M"]
    last: Float[Array, "*N E"]


class ReverseInfo(NamedTuple):
    """Statistics of a reverse kernel, NaN where a field does not apply.

    Attributes:
        acceptance: mean Metropolis acceptance probability.
        moved: mean share of i-SIR weight that left the start (1 - weight of the start).
        steps: number of steps until coupled chains met.
        nonfinite: number of proposals with a non-finite energy (all were rejected).
    """

    acceptance: Float[Array, "*N"]
    moved: Float[Array, "*N"]
    steps: Float[Array, "*N"]
    nonfinite: Float[Array, "*N"]


class Info(NamedTuple):
    """Statistics of one update, with the same fields for all methods.

    Attributes:
        log_joint: mean of log p(x, z) over the draws of the update. It lacks the entropy, so it is not an ELBO.
        acceptance: see `ReverseInfo`.
        moved: see `ReverseInfo`.
        steps: see `ReverseInfo`.
        jump: squared distance of ε′ from ε, relative to two independent draws of q(ε).
        nonfinite: number of rejected non-finite proposals, plus draws with a non-finite log density.
    """

    log_joint: Scalar
    acceptance: Scalar
    moved: Scalar
    steps: Scalar
    jump: Scalar
    nonfinite: Scalar


class Estimate(NamedTuple):
    """Gradients of what the method minimises (ready for Optax), the next state of the method, its info."""

    grads: Any
    state: Any
    info: Info


class Status(enum.Enum):
    """How a fit ended. The value is a readable sentence."""

    RUNNING = "still running"
    DONE = "all updates done"
    INTERRUPTED = "interrupted before the last update"
    NONFINITE = "stopped: gradients or parameters became non-finite"
    DIVERGED = "all updates done, but the bound to choose by was never finite"
