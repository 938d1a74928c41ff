"""Fits and judges variational autoencoders that differ by their prior."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from uivi import datasets
from uivi._jax import seldom_jit
from uivi._types import Key
from uivi.evaluation.doubly import DoublyEvaluated, evaluate_doubly, learn_proposal
from uivi.families.base import AbstractFamily
from uivi.fitting.posterior import Posterior
from uivi.paper.experiment import AbstractTask, Effort, Recipe
from uivi.paper.images import encoded
from uivi.presets.vae_prior import BATCH_SIZE, NUM_PRIOR, WIDTH
from uivi.priors import AbstractImplicit, Bounded, GaussianMixture, RowConditional, VampPrior
from uivi.reverse.proposals import FittedProposal, Learned
from uivi.targets.priors import AbstractPrior, AbstractPriorTarget
from uivi.targets.rows import Rows
from uivi.targets.vae import BernoulliVAE
from uivi.training.monitors import AbstractMonitor

NUM_TRAINED = 50_000
"""Training images of either data set, so that both have the same shapes. The last 10,000 of Fashion-MNIST's are
left out; those of the binarized MNIST are its validation split."""
NUM_GENERATED = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget:
    """Images and draws of the evaluation, the same for every prior.

    Attributes:
        test_images: number of test images.
        num_draws: number of draws z for each image, S.
        num_prior: number of proposals of ζ for each z, K, where the prior has no density.
        proposal_updates: updates in which the proposal of ζ learns, from fresh draws of the fitted prior.
    """

    test_images: int
    num_draws: int
    num_prior: int
    proposal_updates: int


BUDGETS: dict[Effort, Budget] = {
    "full": Budget(test_images=1_000, num_draws=500, num_prior=200, proposal_updates=5_000),
    "quick": Budget(test_images=100, num_draws=50, num_prior=50, proposal_updates=300),
    "smoke": Budget(test_images=4, num_draws=3, num_prior=4, proposal_updates=2),
}


class PriorTask(AbstractTask):
    """Binary images, and an encoder with a density. Every prior is judged by the same bounds."""

    def __init__(self, effort: Effort, *, dataset: str):
        """Loads the images and binarises grey ones at one half."""
        data = datasets.load(dataset)
        assert data.test is not None
        binary = datasets.binarize if data.train.x.max() > 1 else np.asarray
        self.train, self.test = binary(data.train.x)[:NUM_TRAINED], binary(data.test.x)
        self.data, self.budget = data, BUDGETS[effort]

    def target(self, key: Key, recipe: Recipe) -> BernoulliVAE | Bounded:
        """Returns the model with a new decoder and a new prior; an implicit prior is bounded."""
        assert recipe.model is not None
        decoder, prior = recipe.model(key, self.train)
        model = BernoulliVAE(decoder, Rows.create(self.train), BATCH_SIZE, prior)
        return Bounded(model, NUM_PRIOR) if isinstance(prior, AbstractImplicit) else model

    def monitors(self, num_steps: int, recipe: Recipe) -> Sequence[AbstractMonitor]:
        """Returns none: the time of a fit is short, and that of a look is not."""
        del num_steps, recipe
        return ()

    def evaluate(self, key: Key, fit: Posterior, recipe: Recipe) -> dict[str, Any]:
        """Returns log p(x) from below and the ELBO from both sides on test images."""
        del recipe
        images = jnp.asarray(self.test[: self.budget.test_images], jnp.float32)
        return summary(judge(key, fit.family, with_density(_model(fit)), images, self.budget))

    def exhibit(self, key: Key, fit: Posterior) -> dict[str, Any]:
        """Returns ten images from the model: the means of p(x|z) at draws of z from the prior."""
        return {"generated": encoded(_generated(key, _model(fit)))}

    def describe(self) -> dict[str, Any]:
        """Returns the data set and the evaluation budget."""
        return {
            "dataset": self.data.name,
            "description": self.data.description,
            "budget": dataclasses.asdict(self.budget),
        }


def with_density(model: AbstractPriorTarget) -> AbstractPriorTarget:
    """Returns the model with a prior of rows as the mixture that it is, whose density needs no bound."""
    rows = _rows(model.prior)
    return model if rows is None else eqx.tree_at(lambda m: m.prior, model, _mixture(rows))


def judge(
    key: Key, family: AbstractFamily, model: AbstractPriorTarget, images: Float[Array, "B P"], budget: Budget
) -> DoublyEvaluated:
    """Evaluates a model and its encoder, with a proposal that learns from the fitted prior."""
    learn_key, draw_key = jax.random.split(key)
    return evaluate_doubly(
        draw_key,
        family,
        model,
        images,
        num_draws=budget.num_draws,
        num_mixing=1,  # q has a density, and no ε
        num_prior=budget.num_prior,
        prior_proposal=_proposal(learn_key, model.prior, budget.proposal_updates),
    )


def summary(made: DoublyEvaluated) -> dict[str, Any]:
    """Returns the numbers of the report."""
    lower, upper = made.elbo()
    return {
        "log_p": made.log_marginal()._asdict(),
        "elbo_lower": lower._asdict(),
        "elbo_upper": upper._asdict(),
        "width": upper.mean - lower.mean,
        "unsure": made.unsure,
    }


def _model(fit: Posterior) -> BernoulliVAE:
    model = fit.target.target if isinstance(fit.target, Bounded) else fit.target
    assert isinstance(model, BernoulliVAE)
    return model


def _rows(prior: AbstractPrior) -> VampPrior | RowConditional | None:
    if isinstance(prior, VampPrior):
        return prior
    inner = prior.distribution().conditional if isinstance(prior, AbstractImplicit) else None
    return inner if isinstance(inner, RowConditional) else None


def _proposal(key: Key, prior: AbstractPrior, num_updates: int) -> FittedProposal | None:
    if not isinstance(prior, AbstractImplicit):
        return None
    learned = Learned(width=WIDTH, prior_share=0.1, inflation=1.1)
    return learn_proposal(key, prior, learned, num_updates, num_pairs=256)


@seldom_jit
def _mixture(rows: VampPrior | RowConditional) -> GaussianMixture:
    return GaussianMixture.of_rows(rows)


@seldom_jit
def _generated(key: Key, model: BernoulliVAE) -> Float[Array, "N P"]:
    draws = jax.vmap(model.prior.sample)(jax.random.split(key, NUM_GENERATED))
    return jax.vmap(model.decode)(draws.z)
