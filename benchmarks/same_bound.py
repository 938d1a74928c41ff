"""Tests whether all forms of the reverse chain reach the same bound.

    python -m benchmarks.same_bound [UPDATES] [EXPERIMENTS]

Fits the paper's UIVI on MNIST with five seeds side by side. The VAE runs with plain HMC and, on a GPU that has
it, with the fused kernel. The regression runs with the direct density, with the collapsed one, and fused.
Prints for each form the mean bound, its standard error over the seeds, and its distance from the first form in
standard errors.
"""

import dataclasses
import statistics
import sys

import jax
import jax.numpy as jnp

from uivi import gpu
from uivi._types import Context, Key, Latent, Noise, Scalar
from uivi.bench.cases import plain
from uivi.evaluation import bounds
from uivi.evaluation.likelihood import Likelihood, StudentT
from uivi.families import AbstractFamily, Gaussian, SemiImplicit
from uivi.families.conditionals.base import AbstractAutodiffConditional
from uivi.families.conditionals.location_scale import AbstractGlobalScale, normal_log_prob
from uivi.paper import EXPERIMENTS, Recipe
from uivi.paper.plan import UPDATE_PRECISION
from uivi.paper.vae.task import VaeTask
from uivi.training.update import FitState, Method, initial_state, run_updates, stack_states, unstack_states

PROBLEMS = ("vae-mnist", "logreg-mnist")
SEEDS = 5
UPDATES = 10_000
NUM_IMAGES = 1_000


class Direct(AbstractGlobalScale, AbstractAutodiffConditional):
    """The density of `Gaussian`, which chains evaluate at all of z: it is never collapsed."""

    def sample(self, key: Key, eps: Noise, context: Context = None) -> Latent:
        """Draws z = μ(ε) + σ u."""
        return self.net(eps, context) + self.scale() * jax.random.normal(key, (self.dim,))

    def log_prob(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Returns the log density of the Gaussian."""
        return normal_log_prob(z, self.net(eps, context), jnp.log(self.scale()))


def direct(recipe: Recipe) -> Recipe:
    """Returns the same recipe with the direct density."""

    def family(key: Key, dim: int) -> AbstractFamily:
        made = recipe.family(key, dim)
        assert isinstance(made, SemiImplicit)
        assert isinstance(made.conditional, Gaussian)
        return SemiImplicit(made.mixing, Direct(made.conditional.net, made.conditional.scale))

    return dataclasses.replace(recipe, family=family)


def forms(name: str, recipe: Recipe) -> dict[str, Recipe]:
    """Returns the recipes of all forms of the chain that this device has."""
    unfused = dataclasses.replace(recipe, estimator=plain(recipe.estimator))
    found = {"direct": direct(unfused)}
    if name.startswith("logreg"):  # the VAE's z is too small to collapse
        found["collapsed"] = unfused
    return found | ({"fused": recipe} if gpu.is_available() else {})


def fitted(task, recipe: Recipe, updates: int) -> list[float]:
    """Fits all seeds and returns the bound of each."""
    method = Method(recipe.estimator, recipe.optimizer(recipe.num_steps), UPDATE_PRECISION)

    def start(seed: int) -> FitState:
        family_key, run_key, target_key = jax.random.split(jax.random.key(seed), 3)
        target = task.target(target_key, recipe)
        return initial_state(run_key, method, recipe.family(family_key, target.dim), target)

    state, _ = run_updates(method, stack_states([start(seed) for seed in range(SEEDS)]), updates)
    return [bound(task, one) for one in unstack_states(state)]


def bound(task, state: FitState) -> float:
    """Returns a lower bound of the ELBO; for the VAE, on test images."""
    key = jax.random.key(0)
    if isinstance(task, VaeTask):
        student = StudentT(rounds=1, times=1)
        settings = Likelihood(num_draws=100, num_mixing=1_000, sites_at_once=100, student=student)
        images = jnp.asarray(task.test[:NUM_IMAGES], jnp.float32)
        return settings(key, state.family, state.target, images)["elbo_lower"].mean
    return bounds.bracket(bounds.evaluate(key, state.family, state.target, 100, 1_000))[0].mean


def main() -> None:
    """Compares the forms on the experiments that the arguments name."""
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
