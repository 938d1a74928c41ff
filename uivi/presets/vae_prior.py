"""Recipes for a variational autoencoder with a choice of priors, in the sizes of Tomczak & Welling (2018)."""

from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
import optax

from uivi._types import Key
from uivi.estimators import Explicit, PriorScore, SharedEncoder
from uivi.families import ExplicitGaussian, SemiImplicit, Uniform
from uivi.networks import MLP
from uivi.presets import vae
from uivi.priors import AbstractPrior, Implicit, Normal, RowConditional
from uivi.reverse import Coupled, Importance, Learned
from uivi.targets import Rows
from uivi.training.optimisers import adam_cosine, with_average

LATENT_DIM, WIDTH, BATCH_SIZE = 40, 300, 100
SIZES = {"dim": LATENT_DIM, "width": WIDTH}
RATE, WARMUP = 1e-3, 100
FIRST_LOG_SCALE = -2.0
NUM_PRIOR, NUM_SCORE, NUM_COUPLED, MOST_STEPS = 100, 50, 24, 20
"""Draws of ζ for each z in the bound, in the score by importance sampling, in a step of coupled chains; and the
steps after which a pair of chains is given up."""


class Parts(NamedTuple):
    """What is trained beside the encoder."""

    decoder: MLP
    prior: AbstractPrior


def family(key: Key, dim: int) -> ExplicitGaussian:
    """Returns a Gaussian encoder with two layers of 300 units, which begins with small scales.

    With scales of one the decoder would learn to ignore z before z says anything, and N(0, I) would stay there.
    """
    made = vae.default_explicit_family(key, dim, width=WIDTH)
    assert isinstance(made.encoder, MLP)
    bias = made.encoder.layers[-1].bias.at[dim:].set(FIRST_LOG_SCALE)
    return eqx.tree_at(lambda f: f.encoder.layers[-1].bias, made, bias)


def normal(key: Key, images: np.ndarray) -> Parts:
    """Returns a decoder and the prior N(0, I)."""
    return Parts(_decoder(key, images), Normal(LATENT_DIM))


def vamp(key: Key, images: np.ndarray) -> Parts:
    """Returns a decoder and a VampPrior with 500 pseudo-inputs, which begin at training images."""
    return Parts(_decoder(key, images), vae.vamp_prior(jax.random.fold_in(key, 1), images, **SIZES))


def dsivi_prior(key: Key, images: np.ndarray) -> Parts:
    """Returns a decoder and an implicit prior: a network of ten normal ζ (Molchanov et al. 2019)."""
    return Parts(_decoder(key, images), vae.implicit_prior(jax.random.fold_in(key, 1), **SIZES))


def dsivi_aggregated(key: Key, images: np.ndarray) -> Parts:
    """Returns a decoder and the aggregated posterior of all training images (Molchanov et al. 2019)."""
    at_data = RowConditional(family(key, LATENT_DIM), Rows.create(images))
    return Parts(_decoder(key, images), Implicit(SemiImplicit(Uniform(1), at_data)))


def explicit() -> Explicit:
    """Returns the gradient with one draw, for a prior whose density, or bound, is differentiated."""
    return Explicit(1)


def shared() -> SharedEncoder:
    """Returns `explicit` for a prior of rows, whose encoder is that of q."""
    return SharedEncoder(Explicit(1))


def score() -> PriorScore:
    """Returns the prior's score by importance sampling from a learned proposal."""
    return PriorScore(Explicit(1), Importance(NUM_SCORE, _learned()))


def coupled() -> PriorScore:
    """Returns the prior's score by coupled chains: without bias, but for pairs that are given up."""
    return PriorScore(Explicit(1), Coupled(NUM_COUPLED, _learned(), most_steps=MOST_STEPS))


def optimizer(num_steps: int) -> optax.GradientTransformation:
    """Returns Adam with warm-up and cosine decay, and an average of the parameters."""
    return with_average(adam_cosine(num_steps, RATE, warmup=WARMUP))


def _decoder(key: Key, images: np.ndarray) -> MLP:
    return vae.default_decoder(key, images, **SIZES)


def _learned() -> Learned:
    # Mostly learned, and a little too wide: a narrow proposal has enormous weights.
    return Learned(width=WIDTH, prior_share=0.1, inflation=1.2)
