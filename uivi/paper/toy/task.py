"""Fits and judges the densities on the plane (Section 4.1)."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from uivi._types import Key
from uivi.evaluation import bounds, metrics
from uivi.fitting.fit import default_monitors
from uivi.fitting.posterior import Posterior
from uivi.paper.experiment import AbstractTask, Recipe
from uivi.targets.toys import AbstractToy
from uivi.training.monitors import AbstractMonitor

NUM_FIGURE_DRAWS = 300


class ToyTask(AbstractTask):
    """A density on the plane, judged by KL(q‖p) from quadrature and by the check of every fit."""

    def __init__(self, toy: AbstractToy):
        """Judges fits of `toy` with the same budget at every effort."""
        self.toy = toy

    def target(self, key: Key, recipe: Recipe) -> AbstractToy:
        """Returns the density, whatever the recipe."""
        del key, recipe
        return self.toy

    def monitors(self, num_steps: int, recipe: Recipe) -> Sequence[AbstractMonitor]:
        """Returns the default monitor: the ELBO from below."""
        family = jax.eval_shape(lambda: recipe.family(jax.random.key(0), self.toy.dim))
        return default_monitors(family, self.toy, num_steps)

    def evaluate(self, key: Key, fit: Posterior, recipe: Recipe) -> dict[str, Any]:
        """Returns KL(q‖p), the check of the fit, and the paper's estimator of the ELBO."""
        del recipe
        return {
            "check": fit.check().to_json(),
            "paper_elbo": bounds.paper_elbo(key, fit.family, self.toy)._asdict(),
            "kl": metrics.kl_quadrature(fit.family, self.toy)._asdict(),
        }

    def exhibit(self, key: Key, fit: Posterior) -> dict[str, Any]:
        """Returns the draws that Figure 2 shows over the contours of the target."""
        draws = np.asarray(fit.sample_flat(key, NUM_FIGURE_DRAWS), float)
        return {"draws": np.round(draws, 4).tolist()}

    def describe(self) -> dict[str, Any]:
        """Returns an empty dictionary: a density has no data set."""
        return {}
