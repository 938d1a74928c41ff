"""Fits of correlated Gaussians from 200 to 10,000 dimensions: KL, seconds and memory.

    python -m benchmarks.dimensions [SIZES] [--seeds 1] [--out rows.jsonl]
    python -m benchmarks.dimensions --table rows.jsonl

"walk" is a stationary autoregression with correlation 0.95 from one variable to the next. "regression" is the
posterior of D coefficients, given 50 observations. Both densities are normalised, so that KL(q‖p) is minus the
ELBO, which is known from both sides. A fit has the defaults, with a single round of 1,500 updates. Every fit
has a process of its own, whose largest memory is measured.
"""

import multiprocessing
import resource
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

import uivi
from benchmarks.rows import Row, kept, parser, read

SIZES = ("200", "400", "1000", "2000", "4000", "10000")
CORRELATION = 0.95
NUM_OBSERVED = 50
NUM_STEPS = 1_500


def walk(dim: int) -> Callable:
    """Returns the log density of a stationary autoregression of variance one."""

    def log_density(z):
        rest = (z[1:] - CORRELATION * z[:-1]) / (1 - CORRELATION**2) ** 0.5
        volume = 0.5 * (dim - 1) * np.log(1 - CORRELATION**2) + 0.5 * dim * np.log(2 * np.pi)
        return -0.5 * (z[0] ** 2 + jnp.sum(rest**2)) - volume

    return log_density


def regression(dim: int) -> Callable:
    """Returns the log density of coefficients with the prior N(0, I), after observations with noise of 0.1."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((NUM_OBSERVED, dim)) / dim**0.5
    y = x @ rng.standard_normal(dim) + 0.1 * rng.standard_normal(NUM_OBSERVED)
    marginal = x @ x.T + 0.01 * np.eye(NUM_OBSERVED)
    evidence = -0.5 * (y @ np.linalg.solve(marginal, y) + np.linalg.slogdet(marginal)[1])
    # The terms in log 2π of the evidence and of the likelihood cancel.
    constant = float(-evidence - NUM_OBSERVED * np.log(0.1) - 0.5 * dim * np.log(2 * np.pi))
    x, y = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
    return lambda z: constant - 0.5 * jnp.sum(z**2) - 50.0 * jnp.sum((y - x @ z) ** 2)


TARGETS = {"walk": walk, "regression": regression}


def measured(name: str, dim: int, seed: int) -> Row:
    """Returns one fit's row."""
    posterior = uivi.fit(TARGETS[name](dim), dim, key=jax.random.key(seed), num_steps=NUM_STEPS, progress=False)
    check, phases = posterior.check(), posterior.phases
    return {
        "target": name,
        "dim": dim,
        "seed": seed,
        "kl_low": -check.upper.mean,
        "kl_high": -check.lower.mean,
        "stderr": check.lower.stderr,
        "verdict": str(check.verdict),
        "search": phases["searching for a start"],
        "ms_update": 1e3 * posterior.seconds / NUM_STEPS,
        "total": sum(phases.values()),
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def rows(sizes: list[str], seeds: int) -> Iterator[Row]:
    """Yields the rows of all fits, each from a new process."""
    spawn = multiprocessing.get_context("spawn")
    for size in sizes:
        for name in TARGETS:
            for seed in range(seeds):
                with spawn.Pool(1) as pool:
                    yield pool.apply(measured, (name, int(size), seed))


def show(found: list[Row]) -> None:
    """Prints a table."""
    print("| target | D | KL(q‖p) | verdict | search, s | an update, ms | all, s | memory, MB |")
    print("|---|---|---|---|---|---|---|---|")
    for row in found:
        kl = f"{row['kl_low']:.3f}–{row['kl_high']:.3f} ± {row['stderr']:.3f}"
        cost = f"{row['search']:.1f} | {row['ms_update']:.1f} | {row['total']:.0f} | {row['memory_mb']:.0f}"
        print(f"| {row['target']} | {row['dim']:,} | {kl} | {row['verdict']} | {cost} |")


def main() -> None:
    """Runs the command line."""
    made = parser(__doc__, "sizes", SIZES, seeds=1)
    args = made.parse_args()
    if args.table:
        show(read(args.table))
        return
    show(kept(rows(args.names or list(SIZES), args.seeds), args.out))


if __name__ == "__main__":
    main()
