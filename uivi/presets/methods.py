"""The settings of other semi-implicit methods, as their papers or the authors' code have them for toys.

`docs/methods.md` says what each method optimises, and where ours differs.
"""

from collections.abc import Hashable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree

from uivi import _checks
from uivi._types import Key
from uivi.estimators import IWHVI, KSIVI, PVI, SIVISM, UIVI, StickingTheLanding
from uivi.families import MLP, AtParticles, Gaussian, LogScale, SemiImplicit, Uniform, small_init
from uivi.families.conditionals.affine import Frame
from uivi.reverse import Amortised, FromMixing, Importance, LearnedFlow

if TYPE_CHECKING:
    from uivi.integrations.flowjax import Flow


def paper_iwhvi(num_proposals: int = 50) -> IWHVI:
    """Returns IWHVI with S = 1, K = 50, two layers of 300 units for τ and Adam at 0.001.

    Deviation: the authors let K grow, 0, 5, 25, 50, in the first third of a fit.
    """
    return IWHVI(1, num_proposals, Amortised(width=300, depth=2), learning_rate=1e-3)


def paper_ksivi(num_draws: int = 500) -> KSIVI:
    """Returns KSIVI with two batches of 500 draws and a Gaussian kernel by the median heuristic.

    The authors fit with Adam (0.9, 0.99) at 0.001, times 0.9 every 1,000 of 50,000 updates.

    Deviation: the median is a constant to the gradient.
    """
    return KSIVI(num_draws)


def paper_sivism(num_draws: int = 500) -> SIVISM:
    """Returns SIVI-SM with 500 draws and one step of an f of two layers of 128 units, by Adam at 0.002.

    The authors fit q with Adam (0.9, 0.99) at 0.001. They multiply both rates by 0.9 every 1,000 updates.

    Deviation: the rate of f does not fall.
    """
    return SIVISM(num_draws)


def paper_aisivi(num_draws: int = 128, num_proposals: int = 8_192) -> UIVI:
    """Returns AISIVI: UIVI with 128 draws of z and self-normalised weights of 8,192 draws of a learned τ.

    τ is a RealNVP of six couplings, not mixed with q(ε), fitted by maximum likelihood on the pairs (ε, z) at a
    rate of 0.01. The authors fit q with Adam at 0.01.

    Deviation: a coupling has one network of 32 units for shift and scale, not one of 2 (E + D) for each. τ has
    no normalisation of activations and no logistic last layer, which theirs needs because their ε is uniform.
    Our rate begins at three times 0.01; both of theirs fall to a tenth every 2,000 updates. They fit τ alone
    for the first 100 updates.
    """
    proposal = LearnedFlow(num_layers=6, width=32, learning_rate=1e-2)
    return UIVI(num_draws, Importance(num_proposals, proposal))


def paper_bsivi(num_draws: int = 128, num_proposals: int = 1_000) -> UIVI:
    """Returns BSIVI, the same with 1,000 draws of q(ε).

    Deviation: the authors share one set of ε among all z, with the ε that made them in it.
    """
    return UIVI(num_draws, Importance(num_proposals, FromMixing()))


def particle_family(key: Key, dim: int, *, num_particles: int = 100, width: int = 512) -> SemiImplicit:
    """Returns the family of PVI's toys: N(ψ + μ(ψ), diag σ²) at 100 particles ψ drawn from N(0, I).

    Deviation: the weight of ψ itself is trained, beginning at one, and σ has a number for each coordinate.
    """
    net_key, cloud_key = jax.random.split(key)
    net = MLP.create(
        net_key, dim, dim, width=width, init=small_init, activation=jax.nn.leaky_relu, skip=jnp.eye(dim)
    )
    conditional = AtParticles.create(cloud_key, num_particles, Gaussian(net, LogScale.create(dim)))
    return SemiImplicit(Uniform(1), conditional)


def paper_pvi(num_draws: int = 250) -> PVI:
    """Returns PVI with 250 draws for each particle, λ = 1e-8 and particles that move at a rate of 0.01."""
    return PVI(num_draws, regularisation=1e-8, step_size=1e-2)


def particle_optimizer(network_rate: float = 1e-4, particle_rate: float = 1e-2) -> optax.GradientTransformation:
    """Returns RMSProp for the conditional and plain steps for the particles, as `PVI` needs for its noise.

    Give `PVI` the particles' rate as its `step_size`.

    Deviation: the authors precondition the particles as well.
    """
    groups: dict[Hashable, optax.GradientTransformation] = {
        "network": optax.rmsprop(_checks.positive_float("network_rate", network_rate)),
        "particles": optax.sgd(_checks.positive_float("particle_rate", particle_rate)),
    }
    return optax.partition(groups, _label_particles)


def flow_family(
    key: Key, dim: int, *, num_layers: int = 10, width: int = 64, frame: Frame | None = None
) -> "Flow":
    """Returns a RealNVP of FlowJAX, on a scale of one or on the location and scale of a start.

    Agrawal & Domke (2024) recommend a flow with many parameters, the ELBO, many draws with a gradient of small
    variance, and Adam with a small fixed step: `flow_estimator` with `optax.adam(1e-3)` for many updates.

    Deviation: the sizes are ours.
    """
    from uivi.integrations.flowjax import Flow, RealNVP

    return Flow.create(key, RealNVP(dim, num_layers=num_layers, width=width), frame=frame)


def spline_family(
    key: Key, dim: int, *, num_layers: int = 6, width: int = 64, frame: Frame | None = None
) -> "Flow":
    """Returns a flow of spline couplings of FlowJAX, the same otherwise."""
    from uivi.integrations.flowjax import Flow, Spline

    return Flow.create(key, Spline(dim, num_layers=num_layers, width=width), frame=frame)


def flow_estimator(num_draws: int = 256) -> StickingTheLanding:
    """Returns the path gradient with 256 draws, for flows."""
    return StickingTheLanding(num_draws)


def _label_particles(params: PyTree) -> PyTree:
    """Returns the group of every leaf: the particles, or the network for all others."""

    def label(path, _):
        is_cloud = "cloud" in [getattr(entry, "name", None) for entry in path]
        return "particles" if is_cloud else "network"

    return jax.tree_util.tree_map_with_path(label, params)
