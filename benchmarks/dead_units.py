"""Counts the living hidden units of the regression's network during a fit with the paper's recipe.

    python -m benchmarks.dead_units --updates 500

A unit of the second layer is alive if it is positive for at least one of 500 draws of ε. If no unit is alive,
μ(ε) is constant, q(z) is a mean-field Gaussian, and the reverse chain has no effect.
"""

import argparse

import jax
import jax.numpy as jnp

from uivi import presets
from uivi.paper import EXPERIMENTS
from uivi.presets import regression
from uivi.training.update import FitState, Method, initial_state, run_updates

LOOKS, NUM_DRAWS = 5, 500


def alive_and_spread(state: FitState) -> tuple[int, float]:
    """Returns the number of living units and the standard deviation of μ(ε) over ε, averaged over z."""
    net = state.family.conditional.net
    eps = jax.random.normal(jax.random.key(3), (NUM_DRAWS, net.noise_dim))
    hidden = eps
    for layer in net.layers[:-1]:
        hidden = net.activation(jax.vmap(layer)(hidden))
    spread = jnp.mean(jnp.std(jax.vmap(net)(eps), 0))
    return int(jnp.sum(jnp.max(hidden, 0) > 0)), float(spread)


def main() -> None:
    """Prints the number of living units along a fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=500, help="number of updates")
    parser.add_argument("--experiment", default="logreg-mnist", help="name of a regression experiment")
    args = parser.parse_args()
    experiment = EXPERIMENTS[args.experiment]
    recipe = experiment.recipes["paper"]["uivi"]
    target = experiment.task("smoke").target(jax.random.key(0), recipe)
    method = Method(recipe.estimator, presets.paper_optimizer(args.updates))
    family = recipe.family(jax.random.key(0), target.dim)
    state = initial_state(jax.random.key(1), method, family, target)
    print(f"update  units alive (of {regression.WIDTH})  sd of the mean over noise")
    for updates in (0, *[args.updates // LOOKS] * LOOKS):
        if updates:
            state, _ = run_updates(method, state, updates)
        alive, spread = alive_and_spread(state)
        print(f"{int(state.step):6d}  {alive:5d}  {spread:.4f}", flush=True)


if __name__ == "__main__":
    main()
