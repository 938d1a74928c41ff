"""How many hidden units of the logistic regression's network are alive under the paper's recipe?

    python -m benchmarks.dead_units --updates 500

A unit of the second layer is alive if it is positive for one of 500 draws of ε. Without living units μ(ε) is
constant, q(z) is a mean-field Gaussian, and the reverse chain has nothing to do.
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
    """Living units of the second layer, and the mean standard deviation of μ(ε) over ε."""
    net = state.family.conditional.net
    eps = jax.random.normal(jax.random.key(3), (NUM_DRAWS, net.noise_dim))
    hidden = eps
    for layer in net.layers[:-1]:
        hidden = net.activation(jax.vmap(layer)(hidden))
    spread = jnp.mean(jnp.std(jax.vmap(net)(eps), 0))
    return int(jnp.sum(jnp.max(hidden, 0) > 0)), float(spread)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=500)
    parser.add_argument("--experiment", default="logreg-mnist")
    args = parser.parse_args()
    experiment = EXPERIMENTS[args.experiment]
    recipe = experiment.recipes["paper"]["uivi"]
    target = experiment.task("smoke").target(jax.random.key(0), recipe)
    method = Method(recipe.estimator, presets.paper_optimizer(args.updates))
    family = recipe.family(jax.random.key(0), target.dim)
    state = initial_state(jax.random.key(1), method, family, target)
    print("update  alive of", regression.WIDTH, " sd of the mean over noise")
    print(f"{0:6d}  {alive_and_spread(state)[0]:5d}  {alive_and_spread(state)[1]:.4f}")
    for _ in range(LOOKS):
        state, _ = run_updates(method, state, args.updates // LOOKS)
        alive, spread = alive_and_spread(state)
        print(f"{int(state.step):6d}  {alive:5d}  {spread:.4f}", flush=True)


if __name__ == "__main__":
    main()
