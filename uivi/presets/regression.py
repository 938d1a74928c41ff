"""Recipes for Bayesian multinomial logistic regression (Section 4.2)."""

import jax.numpy as jnp
import optax

from uivi._types import Key
from uivi.estimators import SIVI, UIVI
from uivi.families import ExplicitGaussian, Gaussian, LogScale, SemiImplicit, StandardNormal
from uivi.networks import MLP, small_init
from uivi.presets.density import paper_family as toy_family
from uivi.reverse import HMC, AdaptBetween, AuthorsRule
from uivi.training.optimisers import adam_cosine

PAPER_STEPS = 100_000
NOISE_DIM, WIDTH = 100, 200


def paper_family(key: Key, dim: int) -> SemiImplicit:
    """Returns the toy family with a 100-dimensional ε and two layers of 200 units."""
    return toy_family(key, dim, noise_dim=NOISE_DIM, width=WIDTH)


def paper_uivi(num_iterations: int = 5) -> UIVI:
    """Returns UIVI with S = 1 and HMC; Figure 4 varies its `num_iterations`, for burn-in and as many kept."""
    return UIVI(num_draws=1, sampler=HMC(num_iterations, num_iterations, 5, AuthorsRule(initial=0.2)))


def paper_sivi() -> SIVI:
    """Returns SIVI with S = 1 and L = 200."""
    return SIVI(num_draws=1, num_mixing=200)


def default_family(key: Key, dim: int) -> SemiImplicit:
    """Returns the same architecture, started near N(0, 0.1²). The scale is learned on the log."""
    net = MLP.create(key, NOISE_DIM, dim, width=WIDTH, init=small_init)
    return SemiImplicit(StandardNormal(NOISE_DIM), Gaussian(net, LogScale.create(dim, 0.1)))


def default_explicit_family(key: Key, dim: int) -> ExplicitGaussian:
    """Returns a mean-field Gaussian, started like `default_family`."""
    del key
    return ExplicitGaussian.create(dim, 0.1)


def default_uivi() -> UIVI:
    """Returns UIVI with S = 4 and the paper's chain, whose step size adapts between updates only."""
    return UIVI(num_draws=4, sampler=HMC(5, 5, 5, AdaptBetween(initial=0.05)))


def default_sivi() -> SIVI:
    """Returns SIVI with S = 4 and L = 200."""
    return SIVI(num_draws=4, num_mixing=200)


def default_optimizer(num_steps: int) -> optax.GradientTransformation:
    """Returns Adam with warm-up and cosine decay, unclipped: gradients have the scale of all the data."""
    return adam_cosine(num_steps, 3e-3, clip=jnp.inf, warmup=1_000)
