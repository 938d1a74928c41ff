"""Section 4.3: variational autoencoders (Table 2, Figure 5), and an ablation of our default preset."""

import functools

from uivi.paper.experiment import Experiment, Recipe, Takes
from uivi.paper.vae.table2 import published_by_run
from uivi.paper.vae.task import VaeTask
from uivi.presets import vae as preset

DEFAULT_STEPS = 150_000
"""Chosen on held-out images (`benchmarks.vae_search`). The default preset then fits all training images."""
ABLATION_STEPS = 60_000
CHOSEN_ON = "heldout_student"

_paper = functools.partial(
    Recipe,
    optimizer=preset.paper_optimizer,
    model=preset.paper_decoder,
    num_steps=preset.PAPER_STEPS,
    quick_steps=1_000,
)
_default = functools.partial(
    Recipe, optimizer=preset.default_optimizer, model=preset.default_decoder, num_steps=DEFAULT_STEPS
)
# The default preset's UIVI with fewer updates. Each ablation changes one setting, most back to the paper's.
_ablated = functools.partial(
    Recipe,
    family=preset.default_family,
    estimator=preset.default_uivi(),
    optimizer=preset.default_optimizer,
    model=preset.default_decoder,
    num_steps=ABLATION_STEPS,
    quick_steps=100,
    keep_best=CHOSEN_ON,
    is_brief=True,
)

RECIPES = {
    "paper": {
        "explicit": _paper(family=preset.paper_explicit_family, estimator=preset.paper_explicit()),
        "sivi": _paper(family=preset.paper_family, estimator=preset.paper_sivi()),
        "uivi": _paper(family=preset.paper_family, estimator=preset.paper_uivi()),
    },
    "default": {
        "explicit": _default(family=preset.default_explicit_family, estimator=preset.default_explicit()),
        "sivi": _default(family=preset.default_family, estimator=preset.default_sivi(), quick_steps=200),
        "uivi": _default(family=preset.default_family, estimator=preset.default_uivi()),
    },
    "ablation": {
        "none": _ablated(),
        "paper-optimizer": _ablated(optimizer=preset.paper_optimizer),
        "paper-start": _ablated(family=preset.paper_start_family, model=preset.paper_decoder),
        "paper-chain": _ablated(estimator=preset.paper_uivi()),
        "global-scale": _ablated(family=preset.global_scale_family),
        "four-draws": _ablated(estimator=preset.four_draws_uivi()),
        "constant-rate": _ablated(optimizer=preset.constant_rate_optimizer),
        "no-decay": _ablated(optimizer=preset.undecayed_optimizer),
        "no-average": _ablated(optimizer=preset.unaveraged_optimizer),
    },
}

TAKES = {
    "paper": Takes("95 min", "2 min"),
    "default": Takes("36 min", "2 min"),
    "ablation": Takes(gpu="1 to 4 min"),
}
"""On the GPU, of both data sets side by side: from the results of the repository. On a CPU, from the time of an
update in docs/speed.md."""

VAES = (
    Experiment(
        name="vae-mnist",
        kind="vae",
        title="Binarized MNIST",
        reference="Section 4.3, Table 2, Figure 5(a)",
        task=functools.partial(VaeTask, dataset="binarized-mnist"),
        recipes=RECIPES,
        takes=TAKES,
        published=published_by_run("vae-mnist"),
        dataset="binarized-mnist",
        program="vae",
    ),
    Experiment(
        name="vae-fashion",
        kind="vae",
        title="Fashion-MNIST, binarized at 0.5",
        reference="Section 4.3, Table 2, Figure 5(b)",
        task=functools.partial(VaeTask, dataset="fashion-mnist"),
        recipes=RECIPES,
        takes=TAKES,
        published=published_by_run("vae-fashion"),
        dataset="fashion-mnist",
        program="vae",
    ),
)

DEVIATIONS = (
    "The Bernoulli log-likelihood is computed from logits (no +1e-50 inside a logarithm).",
    "The explicit VAE's location network starts like the semi-implicit one without its noise inputs; its "
    "scale network has its own start.",
    "The standard deviation of the explicit VAE is the softplus (the paper does not say whether it is the "
    "variance).",
    "The explicit VAE uses reparameterised gradients throughout, also for its entropy.",
    "The authors evaluate the test images every 1,000 updates with 100 draws; our curve has 20 points.",
    "On a GPU, updates multiply matrices in tensorfloat32, and UIVI's chain has float16 forces with "
    "energies of float32 accuracy; evaluation is in float32.",
    "Data sets run side by side in one program: the time of each is half the time of both.",
)
