"""Section 4.2: Bayesian multinomial logistic regression (Figures 3 and 4)."""

import functools

from uivi import presets
from uivi.estimators import StickingTheLanding
from uivi.paper.experiment import Experiment, Recipe, Takes
from uivi.paper.regression.task import RegressionTask
from uivi.presets import regression as preset

_paper = functools.partial(
    Recipe, family=preset.paper_family, optimizer=presets.paper_optimizer, num_steps=preset.PAPER_STEPS
)
_default = functools.partial(Recipe, optimizer=preset.default_optimizer, num_steps=preset.PAPER_STEPS)

RECIPES = {
    "paper": {
        "uivi": _paper(estimator=preset.paper_uivi()),
        "sivi": _paper(estimator=preset.paper_sivi()),
    },
    "default": {
        "uivi": _default(family=preset.default_family, estimator=preset.default_uivi()),
        "sivi": _default(family=preset.default_family, estimator=preset.default_sivi()),
        "explicit": _default(family=preset.default_explicit_family, estimator=StickingTheLanding(4)),
    },
}

# Figure 4: n burn-in and n kept iterations of HMC; the paper's standard is 5.
FIGURE_4 = {
    "paper": {
        f"hmc-{n}": _paper(estimator=preset.paper_uivi(n), num_steps=10_000, quick_steps=100)
        for n in (1, 5, 20, 50)
    }
}

# From docs/paper.md (Figure 4), the results of the repository, and the time of an update in docs/speed.md.
REGRESSIONS = (
    Experiment(
        name="logreg-mnist",
        kind="logreg",
        title="MNIST",
        reference="Section 4.2, Figure 3 (left)",
        task=functools.partial(RegressionTask, dataset="mnist", batch_size=2_000, divisor=255.0),
        recipes=RECIPES,
        takes={"paper": Takes("14 min", "2 min"), "default": Takes(gpu="2 min")},
        dataset="mnist",
    ),
    Experiment(
        name="logreg-hapt",
        kind="logreg",
        title="HAPT (UCI's features)",
        reference="Section 4.2, Figure 3 (right)",
        task=functools.partial(RegressionTask, dataset="hapt", batch_size=863, divisor=1.0),
        recipes=RECIPES,
        takes={"paper": Takes(), "default": Takes()},
        dataset="hapt",
        stand_in="logreg-hapt-recomputed",
    ),
    Experiment(
        name="logreg-hapt-recomputed",
        kind="logreg",
        title="HAPT recordings, features recomputed (not UCI's matrix)",
        reference="stands in for Section 4.2, Figure 3 (right)",
        task=functools.partial(RegressionTask, dataset="hapt-recomputed", batch_size=863, divisor=1.0),
        recipes=RECIPES,
        takes={"paper": Takes(gpu="2 min"), "default": Takes()},
        dataset="hapt-recomputed",
    ),
    Experiment(
        name="logreg-iterations",
        kind="iterations",
        title="MNIST",
        reference="Section 4.2, Figure 4",
        task=functools.partial(RegressionTask, dataset="mnist", batch_size=2_000, divisor=255.0),
        recipes=FIGURE_4,
        takes={"paper": Takes("2 to 36 min")},
        dataset="mnist",
    ),
)

DEVIATIONS = (
    "Minibatches are shuffled without replacement by a keyed bijection that needs no state.",
    "ELBO curves use the current minibatch, as the authors' code does; final ELBOs use all the data.",
    "The authors evaluate the final test log-likelihood with 20,000 draws; we keep the paper's 8,000.",
    "Figure 4 has 10,000 updates per setting instead of 100,000: 50 iterations cost ten times the standard.",
    "MNIST is not sorted by class in memory; minibatches are shuffled, so this makes no difference.",
)
