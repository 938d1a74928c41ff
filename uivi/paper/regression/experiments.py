"""Section 4.2: Bayesian multinomial logistic regression (Figures 3 and 4)."""

import functools

from uivi import presets
from uivi.estimators import StickingTheLanding
from uivi.paper.experiment import Experiment, Recipe
from uivi.paper.regression.task import RegressionTask
from uivi.presets import regression as preset

STEPS = preset.PAPER_STEPS
FIGURE_4_STEPS = 10_000


def _paper(estimator, steps: int = STEPS, quick: int = 300) -> Recipe:
    return Recipe(preset.paper_family, estimator, presets.paper_optimizer, steps, quick)


def _default(family, estimator) -> Recipe:
    return Recipe(family, estimator, preset.default_optimizer, STEPS, 300)


RECIPES = {
    "paper": {"uivi": _paper(preset.paper_uivi()), "sivi": _paper(preset.paper_sivi())},
    "default": {
        "uivi": _default(preset.default_family, preset.default_uivi()),
        "sivi": _default(preset.default_family, preset.default_sivi()),
        "explicit": _default(preset.default_explicit_family, StickingTheLanding(4)),
    },
}

FIGURE_4 = {"paper": {f"hmc-{n}": _paper(preset.paper_uivi(n), FIGURE_4_STEPS, 100) for n in (1, 5, 20, 50)}}

MNIST = functools.partial(RegressionTask, "mnist", 2_000, 255.0)
HAPT = functools.partial(RegressionTask, "hapt", 863, 1.0)
RECOMPUTED = functools.partial(RegressionTask, "hapt-recomputed", 863, 1.0)

REGRESSIONS = (
    Experiment("logreg-mnist", "logreg", "MNIST", "Section 4.2, Figure 3 (left)", MNIST, RECIPES),
    Experiment(
        "logreg-hapt", "logreg", "HAPT (UCI's features)", "Section 4.2, Figure 3 (right)", HAPT, RECIPES
    ),
    Experiment(
        "logreg-hapt-recomputed",
        "logreg",
        "HAPT recordings, features recomputed (not UCI's matrix)",
        "stands in for Section 4.2, Figure 3 (right)",
        RECOMPUTED,
        RECIPES,
    ),
    Experiment("logreg-iterations", "iterations", "MNIST", "Section 4.2, Figure 4", MNIST, FIGURE_4),
)

DEVIATIONS = (
    "Minibatches are shuffled without replacement by a keyed bijection that needs no state.",
    "ELBO curves use the minibatch of the moment, as the authors' code does; final ELBOs use all the data.",
    "The authors evaluate the final test log-likelihood with 20,000 draws; we keep the paper's 8,000.",
    "Figure 4 has 10,000 updates a setting instead of 100,000: 50 iterations cost ten times the standard.",
    "MNIST is not sorted by class in memory; minibatches are shuffled, so this makes no difference.",
)
