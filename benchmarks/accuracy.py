"""`uivi.fit` with defaults on three posteriors against reference draws.

    python -m benchmarks.accuracy [--seeds 5]      # from the root; prints a table, writes accuracy.json

Error: sliced 2-Wasserstein distance between 10,000 draws and one half of the reference, over that between
the two halves of the reference (1 = as good as exact draws). Seconds include compilation.
"""

import argparse
import json
import pathlib
import statistics
import time

import jax
import jax.numpy as jnp

import uivi
from tests.posteriors import POSTERIORS, reference


def error(posterior: uivi.Posterior, draws: jax.Array) -> float:
    """Distance to the reference in units of the reference's own noise."""
    first, second = jnp.split(jnp.asarray(draws), 2)
    fitted = posterior.sample(jax.random.key(1), first.shape[0])
    distance = lambda a, b: float(uivi.metrics.sliced_wasserstein(jax.random.key(2), a, b))
    return distance(fitted, first) / distance(second, first)


def main() -> None:
    """Fit every posterior with every seed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", default=pathlib.Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    rows = []
    for make in POSTERIORS:
        problem = make()
        draws = reference(problem)
        for seed in range(args.seeds):
            began = time.perf_counter()
            fitted = uivi.fit(problem.log_density, problem.dim, key=jax.random.key(seed), progress=False)
            seconds = time.perf_counter() - began
            found = fitted.check()
            row = {
                "posterior": problem.name,
                "seed": seed,
                "error": error(fitted, draws),
                "seconds": seconds,
                "pareto_k": found.pareto_k_lower,
                "moved": found.mixing.moved,
                "advice": found.advice,
            }
            rows.append(row)
            print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
        mine = [r for r in rows if r["posterior"] == problem.name]
        errors, seconds = [r["error"] for r in mine], [r["seconds"] for r in mine]
        print(f"{problem.name}: error {statistics.median(errors):.2f} [{max(errors):.2f}], "
              f"{statistics.median(seconds):.0f} s [{max(seconds):.0f}]", flush=True)  # fmt: skip
    pathlib.Path(args.out).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
