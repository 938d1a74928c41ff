"""The field's methods on seven posteriors, at equal updates and at equal seconds.

All semi-implicit methods fit the same family from the same start, with the same optimiser and, where they have
such numbers, with as many draws of z and as many ε for each. Nothing was tuned on the results.
"""

import functools
from collections.abc import Callable

import jax.numpy as jnp
import optax

from uivi import presets
from uivi._types import Key
from uivi.estimators import IWHVI, KSIVI, PVI, SIVI, SIVISM, UIVI, AbstractEstimator, StickingTheLanding
from uivi.families import (
    MLP,
    AbstractExplicit,
    ExplicitGaussian,
    FullGaussian,
    Gaussian,
    LogScale,
    SemiImplicit,
    StandardNormal,
    small_init,
)
from uivi.paper.budgets import AbstractBudget, SecondsOf, Updates
from uivi.paper.experiment import Experiment, Recipe, Takes
from uivi.paper.methods import problems
from uivi.paper.methods.problems import AbstractProblem
from uivi.paper.methods.task import MethodTask
from uivi.presets import methods as preset
from uivi.presets.density import family_on
from uivi.reverse import HMC, Amortised, AuthorsRule, Coupled
from uivi.targets import Banana, ConditionedDiffusion, Multimodal, XShaped, cubic_drift
from uivi.training.optimisers import adam_cosine

S, K = 64, 32
"""Draws of z in an update, and ε for each."""
RATE = 2e-3
"""Learning rate at the start."""
QUICK_STEPS = 100
PRESETS: dict[str, AbstractBudget] = {"updates": Updates(), "seconds": SecondsOf("uivi")}
"""What is equal for all methods, by preset."""


def common_family(key: Key, dim: int) -> SemiImplicit:
    """Returns the family of KSIVI, SIVI-SM and AISIVI: a network for the location, a scale for each coordinate.

    ε has as many numbers as z, but at least 3 and at most 10. q starts near N(0, I). In the first coordinates
    half of the variance comes from ε.
    """
    noise_dim = min(max(dim, 3), 10)
    skip = 0.7 * jnp.eye(dim, noise_dim)
    net = MLP.create(key, noise_dim, dim, width=50, init=small_init, skip=skip)
    return SemiImplicit(StandardNormal(noise_dim), Gaussian(net, LogScale.create(dim, 0.7)))


def particles(key: Key, dim: int) -> SemiImplicit:
    """Returns PVI's family with as many particles as other methods have draws, and a network of their width."""
    return preset.particle_family(key, dim, num_particles=S, width=50)


def gaussian(key: Key, dim: int) -> AbstractExplicit:
    """Returns a Gaussian with a full covariance, or with independent coordinates in too many dimensions."""
    del key
    is_full = dim <= presets.FULL_COVARIANCE_UP_TO
    return FullGaussian.create(dim) if is_full else ExplicitGaussian.create(dim)


def default_family(problem: Callable[[], AbstractProblem]) -> Callable[[Key, int], SemiImplicit]:
    """Returns what makes the family of `uivi.fit`, on the start that it finds."""
    return lambda key, dim: family_on(key, dim, problem().frame)


def common_optimizer(num_steps: int) -> optax.GradientTransformation:
    """Returns Adam with a cosine decay, the same for all methods."""
    return adam_cosine(num_steps, RATE)


ESTIMATORS: dict[str, AbstractEstimator] = {
    "uivi": presets.default_uivi(K),
    "coupled": UIVI(S, Coupled(K)),
    "uivi-paper": UIVI(S, HMC(5, 5, 5, AuthorsRule(initial=0.2))),
    "sivi": SIVI(S, K),
    "iwhvi": IWHVI(S, K, Amortised()),
    "aisivi": preset.paper_aisivi(S, K),
    "bsivi": preset.paper_bsivi(S, K),
    "ksivi": KSIVI(S),
    "sivism": SIVISM(S),
}
"""The methods on the common family."""

SIZES = {
    "uivi": f"S = {S}, K = {K}, learned",
    "coupled": f"S = {S}, K = {K} twice, learned",
    "uivi-paper": f"S = {S}, 5 + 5 HMC of 5 leapfrogs",
    "sivi": f"S = {S}, L = {K}",
    "iwhvi": f"S = {S}, K = {K}, learned",
    "aisivi": f"S = {S}, K = {K} of a learned RealNVP",
    "bsivi": f"S = {S}, K = {K}",
    "ksivi": f"S = {S} twice",
    "sivism": f"S = {S} twice, f of 2 × 128 units",
    "explicit": f"S = {S}, a full covariance; mean field for the networks",
    "flow": f"S = {S}, RealNVP of 10 layers",
    "pvi": f"{S} particles, 1 draw of each, λ = 0",
    "default": f"S = {S}, the family of uivi.fit",
}
"""What differs between the recipes, for the tables. The papers have other sizes: see docs/methods.md."""


def recipes(
    problem: Callable[[], AbstractProblem], num_steps: int, default: AbstractEstimator
) -> dict[str, dict[str, Recipe]]:
    """Returns all methods with a number of updates, in which `uivi` sets the seconds."""

    def of(budget: AbstractBudget) -> dict[str, Recipe]:
        recipe = functools.partial(
            Recipe, num_steps=num_steps, quick_steps=QUICK_STEPS, budget=budget, optimizer=common_optimizer
        )
        found = {name: recipe(family=common_family, estimator=e) for name, e in ESTIMATORS.items()}
        found["explicit"] = recipe(family=gaussian, estimator=StickingTheLanding(S))
        found["flow"] = recipe(family=preset.flow_family, estimator=StickingTheLanding(S))
        found["pvi"] = recipe(family=particles, estimator=PVI(1, regularisation=0.0))
        found["default"] = recipe(
            family=default_family(problem), estimator=default, optimizer=presets.default_optimizer
        )
        return found

    return {name: of(budget) for name, budget in PRESETS.items()}


def _experiment(
    name: str,
    title: str,
    about: str,
    problem: Callable[[], AbstractProblem],
    num_steps: int,
    default: AbstractEstimator,
    dataset: str | None = None,
) -> Experiment:
    return Experiment(
        name=f"methods-{name}",
        kind="methods",
        title=title,
        reference=about,
        task=functools.partial(MethodTask, problem=problem),
        recipes=recipes(problem, num_steps, default),
        takes=dict.fromkeys(PRESETS, Takes()),
        dataset=dataset,
    )


def _toy(name: str, title: str, toy: Callable) -> Experiment:
    problem = functools.partial(problems.toy, toy())
    return _experiment(name, title, "two dimensions", problem, 6_000, presets.default_uivi())


_SMALL, _NETWORK = presets.default_uivi(32), "a layer of 50 ReLUs"

METHODS = (
    _toy("banana", "Banana", Banana),
    _toy("multimodal", "Multimodal", Multimodal),
    _toy("xshaped", "X-shaped", XShaped),
    _experiment(
        "diffusion",
        "Conditioned diffusion (the drift of the code)",
        "100 dimensions",
        functools.partial(problems.diffusion, ConditionedDiffusion()),
        3_000,
        _SMALL,
    ),
    _experiment(
        "waveform",
        "Logistic regression on waveforms",
        "22 dimensions, 400 rows",
        problems.waveform,
        3_000,
        _SMALL,
        "waveform",
    ),
    _experiment(
        "yacht",
        "Bayesian network, yacht",
        _NETWORK,
        functools.partial(problems.network, "yacht"),
        3_000,
        _SMALL,
        "yacht",
    ),
    _experiment(
        "boston",
        "Bayesian network, Boston",
        _NETWORK,
        functools.partial(problems.network, "boston"),
        3_000,
        _SMALL,
        "boston",
    ),
    _experiment(
        "diffusion-paper",
        "Conditioned diffusion (the drift of the papers)",
        "100 dimensions",
        functools.partial(problems.diffusion, ConditionedDiffusion(cubic_drift)),
        3_000,
        _SMALL,
    ),
)

GROUP = tuple(e.name for e in METHODS if e.name != "methods-diffusion-paper")
"""What `uivi run methods` runs."""
