"""Fits and judges the variational autoencoders (Section 4.3)."""

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
from uivi.evaluation.annealing import AIS
from uivi.evaluation.likelihood import Likelihood, StudentT
from uivi.fitting.posterior import Posterior
from uivi.paper.experiment import AbstractTask, Effort, Recipe
from uivi.paper.images import encoded
from uivi.paper.vae.truth import drift, truth
from uivi.presets.vae import BATCH_SIZE
from uivi.targets.rows import Rows
from uivi.targets.vae import BernoulliVAE
from uivi.training.monitors import AbstractMonitor
from uivi.training.update import FitState, Method

NUM_HELD_OUT = 10_000
NUM_RECONSTRUCTIONS = 10
PAD_TO = 60_000
"""Rows that every data set is padded to, so that all have the same shapes and can share one program."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget:
    """Images and draws of the evaluation. The defaults are the paper's.

    Attributes:
        test_images: number of test images in the final evaluation.
        likelihood: settings of the final evaluation.
        curve_images: number of held-out images in the curve.
        curve: settings of the curve.
        drift_images: number of test images on which S and M are varied.
        truth_images: number of images with an annealed reference, both real and simulated.
        truth: annealing schedule of the reference.
        chains: number of annealed chains per image.
    """

    test_images: int = 10_000
    likelihood: Likelihood = dataclasses.field(default_factory=Likelihood)
    curve_images: int = 2_000
    curve: Likelihood = dataclasses.field(
        default_factory=lambda: Likelihood(
            num_draws=100, num_mixing=100, sites_at_once=100, student=StudentT(rounds=2, times=1)
        )
    )
    drift_images: int = 100
    truth_images: int = 100
    truth: AIS = dataclasses.field(default_factory=lambda: AIS(2_000))
    chains: int = 16


BUDGETS: dict[Effort, Budget] = {
    "full": Budget(),
    "quick": Budget(
        test_images=200,
        likelihood=Likelihood(num_draws=100, num_mixing=1_000, student=StudentT(times=2)),
        curve_images=100,
        curve=Likelihood(num_draws=20, num_mixing=20, student=StudentT(rounds=1, times=1)),
        drift_images=50,
        truth_images=10,
        truth=AIS(100, num_grid=8, num_moves=8),
        chains=4,
    ),
    "smoke": Budget(
        test_images=20,
        likelihood=Likelihood(num_draws=5, num_mixing=10, student=StudentT(rounds=1, times=1)),
        curve_images=10,
        curve=Likelihood(num_draws=3, num_mixing=3, student=StudentT(rounds=1, times=1)),
        drift_images=4,
        truth_images=3,
        truth=AIS(3, num_grid=2, num_moves=2),
        chains=2,
    ),
}


class HeldOutCurve(AbstractMonitor):
    """Lower bounds of log p(x) and of the ELBO on held-out images."""

    images: Float[Array, "N P"]
    every: int = eqx.field(static=True)
    likelihood: Likelihood

    def __call__(self, method: Method, state: FitState) -> dict[str, Array | float]:
        """Returns two lower bounds of log p(x), of which `heldout_student` is the tighter, and the ELBO."""
        del method
        found = self.likelihood(self.key(state), state.family, state.target, self.images)
        return {
            "heldout_student": found["student"].mean,
            "heldout_student_stderr": found["student"].stderr,
            "heldout_lower": found["lower"].mean,
            "heldout_elbo": found["elbo_lower"].mean,
        }


class VaeTask(AbstractTask):
    """Binary images, judged by every estimator of log p(x) on the test split.

    A recipe with `keep_best` selects its parameters on the validation split. A data set without one holds out
    its last 10,000 training images instead.
    """

    def __init__(self, effort: Effort, *, dataset: str):
        """Loads the images and binarises grey ones at one half."""
        data = datasets.load(dataset)
        assert data.test is not None
        grey = data.train.x.max() > 1
        binary = datasets.binarize if grey else np.asarray
        self.train, self.test = binary(data.train.x), binary(data.test.x)
        self.valid = None if data.valid is None else binary(data.valid.x)
        self.data, self.budget = data, BUDGETS[effort]

    def _fitted(self, recipe: Recipe) -> np.ndarray:
        if recipe.keep_best and self.valid is None:
            return self.train[:-NUM_HELD_OUT]
        return self.train

    def target(self, key: Key, recipe: Recipe) -> BernoulliVAE:
        """Returns the model with a newly initialised decoder."""
        assert recipe.model is not None
        images = self._fitted(recipe)
        return BernoulliVAE(recipe.model(key, images), Rows.create(images, PAD_TO), BATCH_SIZE)

    def monitors(self, num_steps: int, recipe: Recipe) -> Sequence[AbstractMonitor]:
        """Returns the monitor on held-out images.

        Without a validation split, a recipe that selects nothing is monitored on test images.
        """
        held_out = self.valid
        if held_out is None:
            held_out = self.train[-NUM_HELD_OUT:] if recipe.keep_best else self.test
        images = _floats(held_out[: self.budget.curve_images])
        return (HeldOutCurve(images=images, every=max(1, num_steps // 20), likelihood=self.budget.curve),)

    def evaluate(self, key: Key, fit: Posterior, recipe: Recipe) -> dict[str, Any]:
        """Returns every estimator on the test images.

        Unless the recipe is brief, also their drift with S and M, and an annealed reference.
        """
        b = self.budget
        keys = jax.random.split(key, 4)
        assert isinstance(fit.target, BernoulliVAE)
        params = (fit.family, fit.target)
        values, variances = b.likelihood.per_site(keys[0], *params, _floats(self.test[: b.test_images]))
        found: dict[str, Any] = {
            name: value._asdict() for name, value in b.likelihood.averages(values, variances).items()
        }
        found["student_of_tenths"] = [float(values.student[i::10].mean()) for i in range(10)]
        if recipe.is_brief:
            return found
        seen = _floats(self._fitted(recipe)[: b.curve_images])
        found["student_of_training_images"] = b.curve(keys[3], *params, seen)["student"]._asdict()
        few = _floats(self.test[: max(b.drift_images, b.truth_images)])
        return found | {
            "drift": drift(keys[1], *params, few[: b.drift_images], b.likelihood),
            "truth": truth(keys[2], *params, few[: b.truth_images], b.likelihood, b.truth, b.chains),
        }

    def exhibit(self, key: Key, fit: Posterior) -> dict[str, Any]:
        """Returns ten training images and their reconstructions (Figure 5): the mean of p(x|z) at one draw."""
        images = _floats(self.train[:NUM_RECONSTRUCTIONS])
        assert isinstance(fit.target, BernoulliVAE)
        made = _reconstructed(key, fit.family, fit.target, images)
        return {"images": encoded(images), "reconstructions": encoded(made)}

    def describe(self) -> dict[str, Any]:
        """Returns the data set and the evaluation budget."""
        budget = {f.name: _plain(getattr(self.budget, f.name)) for f in dataclasses.fields(self.budget)}
        return {"dataset": self.data.name, "description": self.data.description, "budget": budget}


@seldom_jit
def _reconstructed(key: Key, family, target: BernoulliVAE, images: Float[Array, "N P"]) -> Float[Array, "N P"]:
    keys = jax.random.split(key, images.shape[0])
    return jax.vmap(lambda k, x: target.decode(family.sample(k, x).z))(keys, images)


def _floats(images: np.ndarray) -> Float[Array, "N P"]:
    return jnp.asarray(np.asarray(images, np.float32))


def _plain(value: Any) -> Any:
    return value if isinstance(value, int) else repr(value)
