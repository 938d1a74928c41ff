"""Time of one update of the VAE's recipes on this device, for several fits side by side.

    python -m benchmarks.vae_update --recipes paper-uivi,default-uivi --lanes 1,2 --updates 300

Images are random: the arithmetic does not depend on them. XLA's flags are taken from the environment, so that
variants are compared by calling it again. Prints compile time and milliseconds per update of all lanes; the
smallest of three calls.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

from uivi import loop
from uivi.experiments.running import UPDATE_PRECISION
from uivi.experiments.vae import RECIPES
from uivi.presets import vae
from uivi.targets import BernoulliVAE, Rows

NUM_IMAGES = 60_000


def make(
    name: str, lanes: int, images: np.ndarray, precision: str | None = None
) -> tuple[loop.Method, loop.FitState]:
    """The method and the first state of `lanes` equal fits."""
    preset, _, method_name = name.partition("-")
    recipe = RECIPES[preset][method_name]
    method = loop.Method(recipe.estimator, recipe.optimizer(recipe.num_steps), precision)
    family_key, run_key = jax.random.split(jax.random.key(0))
    assert recipe.model is not None
    target = BernoulliVAE(recipe.model(family_key, images), Rows.create(images), vae.BATCH_SIZE)
    state = loop.init(run_key, method, recipe.family(family_key, target.dim), target)
    return method, state if lanes == 1 else loop.stack([state] * lanes)


def measure(name: str, lanes: int, updates: int, images: np.ndarray, precision: str) -> tuple[float, float]:
    """Seconds to compile, and milliseconds per update of all lanes."""
    method, state = make(name, lanes, images, precision)
    began = time.perf_counter()
    state, _ = loop.run(method, state, 1)
    compiled = time.perf_counter() - began
    times = []
    for _ in range(3):
        began = time.perf_counter()
        state, _ = loop.run(method, state, updates)
        times.append(time.perf_counter() - began)
    assert bool(jnp.all(loop.all_finite(state.family)))
    return compiled, 1e3 * min(times) / updates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipes", default="paper-explicit,paper-sivi,paper-uivi,default-uivi")
    parser.add_argument("--lanes", default="1")
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--precision", default=UPDATE_PRECISION)
    args = parser.parse_args()
    images = (np.random.default_rng(0).random((NUM_IMAGES, vae.PIXELS)) < 0.2).astype(np.uint8)
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}, precision {args.precision}")
    for name in args.recipes.split(","):
        for lanes in map(int, args.lanes.split(",")):
            compiled, per_update = measure(name, lanes, args.updates, images, args.precision)
            row = f"compiled in {compiled:5.1f} s  {per_update:8.3f} ms per update of all"
            print(f"{name:20s} {lanes:3d} lanes  {row}", flush=True)


if __name__ == "__main__":
    main()
