"""Recipes for the variational autoencoder (Section 4.3)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from uivi._types import Key
from uivi.estimators import SIVI, UIVI, Explicit
from uivi.families import (
    ExplicitGaussian,
    Gaussian,
    LogScale,
    NetGaussian,
    RawScale,
    SemiImplicit,
    StandardNormal,
    TwoNetGaussian,
)
from uivi.networks import MLP, Linear, authors_init, he_init
from uivi.presets.density import paper_uivi as toy_uivi
from uivi.priors import Implicit, VampPrior
from uivi.reverse import ISIR, Learned
from uivi.training.optimisers import adam_cosine, paper_rmsprop, with_average

PAPER_STEPS = 400_000
RATE, WARMUP, WEIGHT_DECAY = 2.5e-3, 2_000, 0.03
PSEUDO_INPUTS = 500
PIXELS, WIDTH, NOISE_DIM, LATENT_DIM, BATCH_SIZE = 784, 200, 10, 10, 100


def paper_decoder(key: Key, images: np.ndarray) -> MLP:
    """Returns a decoder with two layers of 200 units and the authors' initialisation."""
    del images
    return MLP.create(key, LATENT_DIM, PIXELS, width=WIDTH, init=authors_init)


def paper_family(key: Key, dim: int) -> SemiImplicit:
    """Returns N(μ(ε, x), diag(σ²)), whose first layer takes both ε and x. σ starts at 0.5."""
    return SemiImplicit(StandardNormal(NOISE_DIM), Gaussian(_paper_net(key, dim), RawScale.create(dim)))


def paper_explicit_family(key: Key, dim: int) -> TwoNetGaussian:
    """Returns N(μ(x), softplus(s(x))²). μ starts like the one of `paper_family`, without the noise inputs."""
    net = _paper_net(key, dim)
    assert net.context_weight is not None
    first = Linear(net.context_weight, net.layers[0].bias)
    loc = MLP((first, *net.layers[1:]), None, None, net.activation)
    scale_key = jax.random.fold_in(key, 1)
    return TwoNetGaussian(loc, MLP.create(scale_key, PIXELS, dim, width=WIDTH, init=authors_init))


def paper_uivi() -> UIVI:
    """Returns UIVI with S = 1 and HMC with 5 + 5 transitions of 5 leapfrogs. The first step is 0.5 / dim(z)."""
    return toy_uivi(0.5 / LATENT_DIM)


def paper_sivi() -> SIVI:
    """Returns SIVI with S = 1 and L = 100."""
    return SIVI(num_draws=1, num_mixing=100)


def paper_explicit() -> Explicit:
    """Returns the explicit gradient with S = 1."""
    return Explicit(1)


def paper_optimizer(num_steps: int) -> optax.GradientTransformation:
    """Returns the paper's RMSProp on gradients summed over the batch.

    Its rates are 1e-3, and 2e-4 for σ; both fall by 0.9 every 15,000 updates.
    """
    del num_steps
    return optax.chain(optax.scale(float(BATCH_SIZE)), paper_rmsprop(1e-3, 2e-4, 1e-3, decay_every=15_000))


def default_decoder(key: Key, images: np.ndarray, *, dim: int = LATENT_DIM, width: int = WIDTH) -> MLP:
    """Returns a decoder with He's initialisation and output biases at the log-odds of the pixels."""
    net = MLP.create(key, dim, PIXELS, width=width, init=he_init)
    mean = np.clip(images.mean(0), 1e-3, 1 - 1e-3)
    bias = jnp.asarray(np.log(mean) - np.log1p(-mean), net.layers[-1].bias.dtype)
    return eqx.tree_at(lambda n: n.layers[-1].bias, net, bias)


def default_family(key: Key, dim: int) -> SemiImplicit:
    """Returns N(μ(ε, x), diag(σ(ε, x)²)) from one network: the same layers with twice the outputs."""
    net = MLP.create(key, NOISE_DIM, 2 * dim, context_dim=PIXELS, width=WIDTH, init=he_init)
    return SemiImplicit(StandardNormal(NOISE_DIM), NetGaussian(net, jnp.full((dim,), -1.0)))


def default_explicit_family(key: Key, dim: int, *, width: int = WIDTH) -> ExplicitGaussian:
    """Returns a Gaussian with one network for location and log scale."""
    return ExplicitGaussian(MLP.create(key, PIXELS, 2 * dim, width=width, init=he_init))


def default_uivi() -> UIVI:
    """Returns UIVI with S = 1 per image and two rounds of i-SIR with 50 proposals, half of them learned."""
    return UIVI(num_draws=1, sampler=ISIR(proposal=Learned(width=WIDTH)))


def default_sivi() -> SIVI:
    """Returns SIVI with S = 1 and L = 100."""
    return SIVI(num_draws=1, num_mixing=100)


def default_explicit() -> Explicit:
    """Returns the explicit gradient with S = 1."""
    return Explicit(1)


def implicit_prior(key: Key, *, dim: int = LATENT_DIM, width: int = WIDTH) -> Implicit:
    """Returns N(μ(ζ), diag(σ(ζ)²)) with ζ ~ N(0, I) and one network. It begins near N(0, I)."""
    net = MLP.create(key, NOISE_DIM, 2 * dim, width=width, init=he_init)
    last = net.layers[-1]
    # Small outputs: components that differ little, with a scale of one.
    net = eqx.tree_at(lambda n: n.layers[-1].weight, net, 0.1 * last.weight)
    return Implicit(SemiImplicit(StandardNormal(NOISE_DIM), NetGaussian(net, jnp.zeros(dim))))


def vamp_prior(key: Key, images: np.ndarray, *, dim: int = LATENT_DIM, width: int = WIDTH) -> VampPrior:
    """Returns a VampPrior with `default_explicit_family`'s encoder at 500 images (Tomczak & Welling 2018)."""
    encoder_key, rows_key = jax.random.split(key)
    picked = jax.random.choice(rows_key, len(images), (min(PSEUDO_INPUTS, len(images)),), replace=False)
    rows = jnp.asarray(images)[picked].astype(float)
    return VampPrior(default_explicit_family(encoder_key, dim, width=width), rows)


def default_optimizer(num_steps: int) -> optax.GradientTransformation:
    """Returns AdamW with warm-up and cosine decay on mean gradients, and an average of the parameters."""
    return with_average(adam_cosine(num_steps, RATE, warmup=WARMUP, weight_decay=WEIGHT_DECAY))


def global_scale_family(key: Key, dim: int) -> SemiImplicit:
    """Returns `default_family` with a scale that depends on neither ε nor x (ablation)."""
    net = MLP.create(key, NOISE_DIM, dim, context_dim=PIXELS, width=WIDTH, init=he_init)
    return SemiImplicit(StandardNormal(NOISE_DIM), Gaussian(net, LogScale.create(dim, 0.37)))


def paper_start_family(key: Key, dim: int) -> SemiImplicit:
    """Returns `default_family` with the authors' initialisation, except for the log scale's outputs (ablation).

    With it, these outputs would be of order ten, and σ of order e¹⁰.
    """
    default, authors = (
        MLP.create(key, NOISE_DIM, 2 * dim, context_dim=PIXELS, width=WIDTH, init=init)
        for init in (he_init, authors_init)
    )
    last, own = authors.layers[-1], default.layers[-1]
    joined = Linear(last.weight.at[dim:].set(own.weight[dim:]), last.bias.at[dim:].set(own.bias[dim:]))
    net = eqx.tree_at(lambda n: n.layers[-1], authors, joined)
    return SemiImplicit(StandardNormal(NOISE_DIM), NetGaussian(net, jnp.full((dim,), -1.0)))


def four_draws_uivi() -> UIVI:
    """Returns `default_uivi` with S = 4 (ablation)."""
    return UIVI(num_draws=4, sampler=ISIR(proposal=Learned(width=WIDTH)))


def constant_rate_optimizer(num_steps: int) -> optax.GradientTransformation:
    """Returns `default_optimizer` with a constant rate (ablation)."""
    del num_steps
    parts = [
        optax.clip_by_global_norm(10.0),
        optax.scale_by_adam(),
        optax.add_decayed_weights(WEIGHT_DECAY),
        optax.scale_by_learning_rate(1e-3),
    ]
    return with_average(optax.chain(*parts))


def undecayed_optimizer(num_steps: int) -> optax.GradientTransformation:
    """Returns `default_optimizer` without weight decay (ablation)."""
    return with_average(adam_cosine(num_steps, RATE, warmup=WARMUP))


def unaveraged_optimizer(num_steps: int) -> optax.GradientTransformation:
    """Returns `default_optimizer` without the average (ablation)."""
    return adam_cosine(num_steps, RATE, warmup=WARMUP, weight_decay=WEIGHT_DECAY)


def _paper_net(key: Key, dim: int) -> MLP:
    return MLP.create(key, NOISE_DIM, dim, context_dim=PIXELS, width=WIDTH, init=authors_init)
