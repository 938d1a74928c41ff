"""The settings of other semi-implicit methods, as their papers or the authors' code have them for toys.

`docs/methods.md` says what each method optimises, and where ours differs.
"""

from collections.abc import Hashable

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree

from uivi import _checks
from uivi._types import Key
from uivi.estimators import IWHVI, KSIVI, PVI, SIVISM, UIVI
from uivi.families import MLP, AtParticles, Gaussian, LogScale, SemiImplicit, Uniform, small_init
from uivi.reverse import Amortised, FromMixing, Importance, Learned


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

    Deviation: τ is a Gaussian with a full covariance mixed with q(ε), at a rate of 0.001. The authors' is a
    RealNVP of six layers, not mixed, at 0.01. Both are fitted by maximum likelihood on the pairs (ε, z).
    """
    return UIVI(num_draws, Importance(num_proposals, Learned(prior_share=0.1)))


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


def _label_particles(params: PyTree) -> PyTree:
    """Returns the group of every leaf: the particles, or the network for all others."""

    def label(path, _):
        is_cloud = "cloud" in [getattr(entry, "name", None) for entry in path]
        return "particles" if is_cloud else "network"

    return jax.tree_util.tree_map_with_path(label, params)
