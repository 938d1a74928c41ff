"""Do all forms of the reverse chain end at the same bound? `python -m benchmarks.same_bound [updates] [names]`.

Five seeds side by side of the paper's UIVI on MNIST: the VAE with plain HMC and with the fused kernel (on a GPU
that has it), the regression with the direct density, with the collapsed one, and fused. Prints of each form the
mean bound, its standard error over the seeds, and its distance from the first form in standard errors.
"""

import dataclasses
import statistics
import sys

import jax
import jax.numpy as jnp

from uivi import gpu
from uivi._types import Key
from uivi.bench.cases import plain
from uivi.evaluation import bounds
from uivi.evaluation.likelihood import Likelihood, StudentT
from uivi.families import AbstractFamily, Gaussian, SemiImplicit
from uivi.families.conditionals.base import AbstractNetConditional
from uivi.paper import EXPERIMENTS, Recipe
from uivi.paper.runner import UPDATE_PRECISION
from uivi.paper.vae.task import VaeTask
from uivi.training.update import FitState, Method, initial_state, run_updates, stack_states, unstack_states

PROBLEMS = ("vae-mnist", "logreg-mnist")
SEEDS = 5
UPDATES = 10_000
NUM_IMAGES = 1_000


class Direct(Gaussian):
    """A Gaussian whose chains evaluate all of z."""

    log_prob_near = AbstractNetConditional.log_prob_near


def direct(recipe: Recipe) -> Recipe:
    """The same recipe with the direct density."""

    def family(key: Key, dim: int) -> AbstractFamily:
        made = recipe.family(key, dim)
        assert isinstance(made, SemiImplicit)
        assert isinstance(made.conditional, Gaussian)
        return SemiImplicit(made.mixing, Direct(made.conditional.net, made.conditional.scale))

    return dataclasses.replace(recipe, family=family)


def forms(name: str, recipe: Recipe) -> dict[str, Recipe]:
    """The forms of the chain on this device."""
    unfused = dataclasses.replace(recipe, estimator=plain(recipe.estimator))
    found = {"direct": direct(unfused)}
    if name.startswith("logreg"):  # the VAE's z is too small to collapse
        found["collapsed"] = unfused
    return found | ({"fused": recipe} if gpu.is_available() else {})


def fitted(task, recipe: Recipe, updates: int) -> list[float]:
    """The bound of each seed."""
    method = Method(recipe.estimator, recipe.optimizer(recipe.num_steps), UPDATE_PRECISION)

    def start(seed: int) -> FitState:
        family_key, run_key, target_key = jax.random.split(jax.random.key(seed), 3)
        target = task.target(target_key, recipe)
        return initial_state(run_key, method, recipe.family(family_key, target.dim), target)

    state, _ = run_updates(method, stack_states([start(seed) for seed in range(SEEDS)]), updates)
    return [bound(task, one) for one in unstack_states(state)]


def bound(task, state: FitState) -> float:
    """The ELBO from below; of the VAE, on test images."""
    key = jax.random.key(0)
    if isinstance(task, VaeTask):
        settings = Likelihood(100, 1_000, 100, StudentT(rounds=1, times=1))
        images = jnp.asarray(task.test[:NUM_IMAGES], jnp.float32)
        return settings(key, state.family, state.target, images)["elbo_lower"].mean
    return bounds.bracket(bounds.evaluate(key, state.family, state.target, 100, 1_000))[0].mean


def main() -> None:
    updates = int(sys.argv[1]) if len(sys.argv) > 1 else UPDATES
    jax.config.update("jax_default_matmul_precision", "highest")
    for name in sys.argv[2:] or PROBLEMS:
        experiment = EXPERIMENTS[name]
        task, first = experiment.task("full"), []
        for form, recipe in forms(name, experiment.recipes["paper"]["uivi"]).items():
            found = fitted(task, recipe, updates)
            first = first or found
            gap = statistics.mean(found) - statistics.mean(first)
            error = ((statistics.variance(found) + statistics.variance(first)) / SEEDS) ** 0.5
            spread = statistics.stdev(found) / SEEDS**0.5
            print(
                f"{name}, {form}: {statistics.mean(found):.3f} ± {spread:.3f} after {updates} updates, "
                f"{gap / error:+.1f} standard errors from the first",
                flush=True,
            )


if __name__ == "__main__":
    main()
