"""Priors of a variational autoencoder: N(0, I), VampPrior, and two implicit ones (Molchanov et al. 2019)."""

import functools

from uivi.estimators import lend
from uivi.paper.experiment import Experiment, Recipe, Takes
from uivi.paper.prior.task import PriorTask
from uivi.presets import vae_prior as preset

STEPS = 15_000

_recipe = functools.partial(
    Recipe,
    family=preset.family,
    optimizer=preset.optimizer,
    num_steps=STEPS,
    quick_steps=300,
)

RECIPES = {
    "exact": {
        "normal": _recipe(model=preset.normal, estimator=preset.explicit()),
        "vamp": _recipe(model=preset.vamp, estimator=preset.shared(), tie=lend),
    },
    "bound": {
        "dsivi-prior": _recipe(model=preset.dsivi_prior, estimator=preset.explicit()),
        "dsivi-agg": _recipe(model=preset.dsivi_aggregated, estimator=preset.shared(), tie=lend),
    },
    "score": {"dsivi-prior": _recipe(model=preset.dsivi_prior, estimator=preset.score())},
    "coupled": {"dsivi-prior": _recipe(model=preset.dsivi_prior, estimator=preset.coupled())},
}
"""By where the gradient of log p(z) comes from: its density, a bound by draws of ζ, or its score."""


def _experiment(name: str, title: str, dataset: str) -> Experiment:
    return Experiment(
        name=f"vae-prior-{name}",
        kind="vae-prior",
        title=title,
        reference="priors, not in the paper",
        task=functools.partial(PriorTask, dataset=dataset),
        recipes=RECIPES,
        takes=dict.fromkeys(RECIPES, Takes()),
        dataset=dataset,
        program="vae-prior",
    )


PRIORS = (
    _experiment("mnist", "Binarized MNIST", "binarized-mnist"),
    _experiment("fashion", "Fashion-MNIST, binarized at 0.5", "fashion-mnist"),
)

DEVIATIONS = (
    "Larochelle's static binarization of MNIST in place of a fresh one for each epoch; Fashion-MNIST is cut "
    "at 0.5.",
    "Layers of 300 ReLU units in place of gated ones.",
    f"{STEPS:,} updates ({STEPS // 500} epochs) with a rate of 1e-3 that falls to zero, and averaged "
    "parameters, in place of a constant 5e-4 for hundreds of epochs.",
    "The learning rate warms up in 100 updates. The weight of the prior does not: a warm-up of 100 epochs "
    "would be longer than the fit.",
    "The scales of q begin near 0.14, in place of the warm-up, to keep the decoder from ignoring z.",
    "Pseudo-inputs begin at training images and are not kept between 0 and 1.",
    "The implicit prior has ten ζ and the size of the decoder; we did not have the original's.",
    f"The bounds of training take {preset.NUM_PRIOR} fresh ζ for each z.",
    "log p(x) comes from 500 draws of q for each of 1,000 test images, in place of 5,000 for each of 10,000.",
)
