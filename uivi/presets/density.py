"""Recipes for any density, and the paper's recipes for the toys (Section 4.1)."""

import functools

import jax
import jax.numpy as jnp
import optax

from uivi._jax import once_jit
from uivi._types import Key
from uivi.estimators import SIVI, UIVI, AbstractEstimator, StickingTheLanding
from uivi.families import (
    MLP,
    AbstractConditional,
    AbstractExplicit,
    AbstractFamily,
    Affine,
    AtModes,
    Gaussian,
    Layered,
    NetGaussian,
    RawScale,
    SemiImplicit,
    Sheared,
    Standardised,
    StandardNormal,
    Warped,
    authors_init,
    small_init,
)
from uivi.families.conditionals.affine import Frame
from uivi.families.conditionals.modes import Places
from uivi.fitting.starts.search import Start
from uivi.reverse import HMC, ISIR, AuthorsRule, Learned
from uivi.training.optimisers import adam, paper_rmsprop
from uivi.training.rounds import Rounds

DEFAULT_STEPS = 6_000
DEFAULT_RATE = 4e-3
"""Learning rate at the start of a fit of many updates."""
ROUNDS_RATE = 1e-2
"""Learning rate at the start of a round, which has fewer updates."""
FULL_COVARIANCE_UP_TO = 200
LEAST_NOISE, MOST_NOISE, NOISE_BEHIND_LAYERS = 3, 10, 3
"""Smallest and largest size of ε, and its size where layers do most of the bending."""
LAYERS, FEWER_LAYERS = {"num_layers": 12, "width": 96}, {"num_layers": 6, "width": 64}
"""Layers from 11 to 200 dimensions, and above, where their cost counts."""
SMALL_LAYERS = {"num_layers": 6, "width": 32}
"""Layers of a bent posterior of 4 to 10 dimensions, beside as many numbers ε."""
BENT = 1.5
"""KL divergence of the start from the posterior, in nats, above which that posterior is bent. Ridges and
funnels have more. Heavy tails and mild hierarchies have less: layers do the former no good, and cost the
latter a second compilation."""
LAYERS_UP_TO = 4_000
"""Largest size of z with layers: they have 400 parameters for each dimension."""
EFFORTS = (32, 100)
"""Numbers of proposals, from the least effort to the most."""


def default_family(
    key: Key, dim: int, *, start: Start | None = None, noise_dim: int | None = None
) -> SemiImplicit:
    """Returns a family with a full covariance and a scale that varies with ε, on a net with a skip connection.

    Up to 200 dimensions z = shift + A l(w) with w ~ N(μ(ε), diag(σ(ε)²)). In the layers l, coordinates shift
    and scale one another (`Layered`). The numbers ε can bend q in as many directions as there are of them, ten
    at most. If z is larger than that, larger layers do most of the bending, and three numbers ε are enough.
    From 4 to 10 dimensions there are layers only if `start` is far from the posterior. Above 200 dimensions the
    layers only shift (`Sheared`), every coordinate of w has a skew of its own (`Warped`) instead of A, and the
    correlations are those of `start`, which stay as they are; above 4,000 there are no layers. The first
    `min(dim, noise_dim)` coordinates of w start as 0.7 ε + 0.7 u: q starts near N(0, I), or near `start`, with
    a strong dependence between ε and z.

    Args:
        key: random key.
        dim: size of the latent vector, D.
        start: where q starts, and the scale on which it is fitted; see `Standardised`.
        noise_dim: size of the noise, E. By default it is D, but 3 to 10; 3 with the larger layers.
    """
    if start is None:
        return family_on(key, dim, None, noise_dim)
    return family_on(key, dim, start.around(), noise_dim, bent=is_bent(start))


def is_bent(start: Start) -> bool:
    """Whether a small posterior is so far from a Gaussian that its family has layers.

    Around each of several modes there is less to bend. In up to three dimensions ε bends in all directions, and
    layers leave tails around rings.
    """
    return LEAST_NOISE < len(start.loc) <= MOST_NOISE and start.places is None and start.kl > BENT


def family_on(
    key: Key, dim: int, frame: Frame | Places | None, noise_dim: int | None = None, *, bent: bool = False
) -> SemiImplicit:
    """Returns `default_family` on a frame that is made already, at several modes, or on none.

    JAX can trace this.
    """
    noise_dim = _noise_dim(dim) if noise_dim is None else noise_dim
    conditional = _conditional(key, dim, noise_dim, bent=bent)
    if isinstance(frame, Places):
        conditional = AtModes.on(conditional, frame)
    elif frame is not None:
        conditional = Standardised.on(conditional, frame)
    return SemiImplicit(StandardNormal(noise_dim), conditional)


def _noise_dim(dim: int) -> int:
    """Returns the size of ε for a z of size `dim`."""
    return NOISE_BEHIND_LAYERS if MOST_NOISE < dim <= LAYERS_UP_TO else min(max(dim, LEAST_NOISE), MOST_NOISE)


@once_jit
def _conditional(key: Key, dim: int, noise_dim: int, *, bent: bool) -> AbstractConditional:
    """Returns the conditional of `default_family` before it is put on the scale of the start."""
    # 0.7² + exp(-0.35)² is about one: w starts with unit variance, half of it from ε.
    skip = 0.7 * jnp.eye(dim, noise_dim)
    net = MLP.create(key, noise_dim, 2 * dim, init=small_init, skip=skip)
    conditional = NetGaussian(net, jnp.full((dim,), -0.35))
    layers_key = jax.random.fold_in(key, 1)
    if dim > FULL_COVARIANCE_UP_TO:
        conditional = Warped.create(conditional)
        is_layered = noise_dim < dim <= LAYERS_UP_TO
        return Sheared.create(layers_key, conditional, **FEWER_LAYERS) if is_layered else conditional
    if noise_dim < dim:
        conditional = Layered.create(layers_key, conditional, **LAYERS)
    elif bent:
        conditional = Layered.create(layers_key, conditional, **SMALL_LAYERS)
    return Affine.create(conditional)


def default_estimators(family: AbstractFamily) -> tuple[AbstractEstimator, ...]:
    """Returns UIVI with learned i-SIR for semi-implicit families, sticking the landing for explicit ones.

    UIVI comes with few proposals and, unless z is larger than ε, with many. A fit begins with few; see
    `uivi.training.Rounds`. A larger z bends by its layers or `Warped` as well, and gains nothing from many.
    """
    if isinstance(family, AbstractExplicit):
        return (StickingTheLanding(),)
    is_larger = isinstance(family, SemiImplicit) and family.dim > family.noise_dim
    efforts = EFFORTS[:1] if is_larger else EFFORTS
    return tuple(default_uivi(effort) for effort in efforts)


def default_estimator(family: AbstractFamily) -> AbstractEstimator:
    """Returns the one of `default_estimators` for a fit that cannot choose: the one with many proposals."""
    return default_estimators(family)[-1]


@functools.cache
def default_optimizer(num_steps: int | Rounds) -> optax.GradientTransformation:
    """Returns Adam with a cosine decay over all updates, or over each round.

    Equal arguments give the same object, so that a second fit uses the compiled updates of the first.
    """
    rate = ROUNDS_RATE if isinstance(num_steps, Rounds) else DEFAULT_RATE
    return adam(Rounds.of(num_steps).schedule(rate))


def paper_family(
    key: Key, dim: int, *, noise_dim: int = 3, width: int = 50, context_dim: int = 0
) -> SemiImplicit:
    """Returns the paper's family N(μ(ε), diag(σ²)): two ReLU layers, the authors' initialisation, σ = 0.5."""
    net = MLP.create(key, noise_dim, dim, width=width, depth=2, init=authors_init, context_dim=context_dim)
    return SemiImplicit(StandardNormal(noise_dim), Gaussian(net, RawScale.create(dim)))


def paper_uivi(initial_step: float = 0.2) -> UIVI:
    """Returns UIVI with S = 1 and HMC with 5 + 5 transitions of 5 leapfrogs, adapted by the authors' rule."""
    return UIVI(num_draws=1, sampler=HMC(5, 5, 5, AuthorsRule(initial=initial_step)))


def paper_sivi(num_mixing: int = 50) -> SIVI:
    """Returns SIVI with S = 1 and the authors' L for the toys."""
    return SIVI(num_draws=1, num_mixing=num_mixing)


def paper_optimizer(num_steps: int) -> optax.GradientTransformation:
    """Returns the paper's RMSProp, whose schedule does not depend on the number of updates."""
    del num_steps
    return paper_rmsprop()


def default_uivi(num_proposals: int = EFFORTS[-1]) -> UIVI:
    """Returns UIVI with S = 64 and a round of i-SIR that counts the start by the fifth power of its weight.

    The weight that the start keeps biases the entropy's gradient and makes q too narrow. Hence the power, which
    leaves it out unless all proposals miss. Proposals are slightly widened, and nine of ten are learned: in
    many dimensions the reverse conditional is narrow compared with q(ε).
    """
    proposal = Learned(prior_share=0.1, inflation=1.2)
    return UIVI(num_draws=64, sampler=ISIR(num_proposals, 1, proposal, start_power=5.0))


def default_sivi() -> SIVI:
    """Returns SIVI with S = 64 and L = 100, as many network evaluations as `default_uivi`."""
    return SIVI(num_draws=64, num_mixing=EFFORTS[-1])
