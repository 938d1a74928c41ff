"""Searches for the learning rate and weight decay of the VAE's default preset on held-out images.

    python -m benchmarks.vae_search --method uivi --steps 120000 --grid 0.002:0,0.002:0.03 --out search.json

All settings on both data sets are lanes of one program, since the settings are arrays in the optimiser's state.
Settings are judged on images held out of the fit, never on test images.
"""

import argparse
import dataclasses
import json
import pathlib
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from uivi.paper import EXPERIMENTS, GROUPS
from uivi.paper.plan import UPDATE_PRECISION
from uivi.paper.vae.experiments import CHOSEN_ON
from uivi.paper.vae.task import VaeTask
from uivi.presets import vae
from uivi.training import optimisers
from uivi.training.update import (
    FitState,
    Method,
    averaged_state,
    initial_state,
    run_updates,
    stack_states,
    unstack_states,
)

LOOKS = 5


def searched(num_steps: int) -> optax.GradientTransformation:
    """Returns `vae.default_optimizer` with the rate and the weight decay in its state."""
    adam = optax.scale_by_adam()

    def init(params):
        return adam.init(params), jnp.asarray(vae.RATE), jnp.asarray(vae.WEIGHT_DECAY)

    def update(updates, state, params=None):
        inner, rate, decay = state
        count = inner.count.astype(float)
        warm = jnp.minimum((count + 1) / vae.WARMUP, 1.0)
        now = rate * warm * 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(count / num_steps, 1.0)))
        updates, inner = adam.update(updates, inner, params)
        scaled = jax.tree.map(lambda u, p: -now * (u + decay * p), updates, params)
        return scaled, (inner, rate, decay)

    clipped = optax.chain(optax.clip_by_global_norm(10.0), optax.GradientTransformation(init, update))
    return optimisers.with_average(clipped)


def lanes(method: Method, recipe, tasks: list[VaeTask], grid: list[tuple[float, float]]) -> FitState:
    """Returns the stacked states of one fit per setting and data set, all with the same start."""
    family_key, run_key = jax.random.split(jax.random.key(0))
    states = []
    for rate, decay in grid:
        for task in tasks:
            target = task.target(jax.random.fold_in(family_key, 1), recipe)
            state = initial_state(run_key, method, recipe.family(family_key, target.dim), target)
            where = lambda s: s.opt_state.inner[1][1:]
            states.append(eqx.tree_at(where, state, (jnp.asarray(rate), jnp.asarray(decay))))
    return stack_states(states)


def search(method_name: str, num_steps: int, grid: list[tuple[float, float]], num_draws: int) -> list[dict]:
    """Returns the bound of every lane on held-out images at several points of the fit."""
    recipe = EXPERIMENTS[GROUPS["vae"][0]].recipes["default"][method_name]
    estimator = dataclasses.replace(recipe.estimator, num_draws=num_draws)
    recipe = dataclasses.replace(recipe, estimator=estimator, keep_best=CHOSEN_ON)
    tasks = [EXPERIMENTS[name].task("full") for name in GROUPS["vae"]]
    method = Method(recipe.estimator, searched(num_steps), UPDATE_PRECISION)
    state = lanes(method, recipe, tasks, grid)
    monitors = [task.monitors(num_steps, recipe)[0] for task in tasks] * len(grid)
    names = [name for _ in grid for name in GROUPS["vae"]]
    rows, began = [], time.time()
    for _ in range(LOOKS):
        state, _ = run_updates(method, state, num_steps // LOOKS)
        for i, fit in enumerate(unstack_states(state)):
            seen = {k: float(v) for k, v in monitors[i](method, averaged_state(fit)).items()}
            rate, decay = grid[i // len(tasks)]
            rows.append(
                {
                    "experiment": names[i],
                    "method": method_name,
                    "draws": num_draws,
                    "rate": rate,
                    "decay": decay,
                }
                | {"step": int(fit.step), "seconds": time.time() - began, **seen}
            )
    return rows


def main() -> None:
    """Searches and prints the best bound of every setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="uivi", help="method of the default preset")
    parser.add_argument("--steps", type=int, default=120_000, help="number of updates")
    parser.add_argument("--grid", default="0.002:0.0,0.002:0.03", help="settings rate:decay,rate:decay,...")
    parser.add_argument("--draws", type=int, default=1, help="number of draws of z per image, S")
    parser.add_argument(
        "--out", type=pathlib.Path, default=pathlib.Path("search.json"), help="file for all values"
    )
    args = parser.parse_args()
    grid = [tuple(map(float, pair.split(":"))) for pair in args.grid.split(",")]
    rows = search(args.method, args.steps, grid, args.draws)
    args.out.write_text(json.dumps(rows, indent=0))
    print(f"{'data':12s} {'rate':>7s} {'decay':>6s}  best log p(x) on held-out images (Student-t), at update")
    for name in GROUPS["vae"]:
        for rate, decay in grid:
            mine = [r for r in rows if (r["experiment"], r["rate"], r["decay"]) == (name, rate, decay)]
            best = max(mine, key=lambda r: r["heldout_student"])
            print(f"{name:12s} {rate:7.4f} {decay:6.3f}  {best['heldout_student']:.2f} at {best['step']:,}")


if __name__ == "__main__":
    main()
