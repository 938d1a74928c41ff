"""Models with reference draws: `uivi.fit` with defaults against NUTS and NumPyro's guides at equal time.

    python -m benchmarks.modelling [NAMES] [--seeds 5] [--rivals] [--out modelling.json]     # from the root

Error of a mean: in reference standard deviations; of a standard deviation: its ratio to the reference's, less
one. The worst variable counts. Distance: sliced 2-Wasserstein, in reference standard deviations. Seconds
include compilation; a rival gets as many as `uivi.fit` took.
"""

import argparse
import json
import pathlib
import time
from typing import Any

import jax
import numpy as np

import uivi
from benchmarks.models import MODELS, Model
from benchmarks.rivals import RIVALS, sliced

NUM_DRAWS = 20_000


def errors(draws: dict[str, jax.Array], model) -> tuple[float, float, str]:
    """The worst error of a mean, the worst of a standard deviation (|ratio - 1|), and where that is."""
    means, sds = model.moments()
    shift, ratio, where = 0.0, 0.0, ""
    for name, mean in means.items():
        mine = np.asarray(draws[name], np.float64)
        far = np.abs(mine.mean(0) - mean) / sds[name]
        off = np.abs(mine.std(0) / sds[name] - 1)
        shift = max(shift, float(far.max()))
        if off.max() > ratio:
            ratio, where = float(off.max()), name
    return shift, ratio, where


def measured(name: str, method: str, seed: int, draws: dict[str, jax.Array], seconds: float) -> dict[str, Any]:
    """One row of the table."""
    shift, ratio, where = errors(draws, MODELS[name])
    return {
        "model": name,
        "method": method,
        "seed": seed,
        "mean_error": shift,
        "sd_error": ratio,
        "worst_sd": where,
        "distance": sliced(draws, MODELS[name]),
        "seconds": seconds,
    }


def ours(name: str, model: Model, seed: int) -> list[dict[str, Any]]:
    """With defaults only: draws of q, and reweighted ones."""
    began = time.perf_counter()
    settings = {"model_args": model.args, "model_kwargs": model.kwargs, "progress": False}
    fitted = uivi.fit(model.model, key=jax.random.key(seed), **settings)
    seconds = time.perf_counter() - began
    found = fitted.check()
    words = {
        "pareto_k": found.pareto_k_lower,
        "verdict": str(found.verdict),
        "advice": list(found.advice),
        "gaps": found.gaps and found.gaps._asdict(),
        "elbo": found.lower.mean,
        "work": f"{fitted.history['step'][-1]} updates",
    }
    rows = []
    for method, number in (("uivi", NUM_DRAWS), ("uivi, reweighted", NUM_DRAWS // 4)):
        draws = fitted.sample(jax.random.key(1), number, reweight=method != "uivi")
        rows.append(measured(name, method, seed, draws, seconds) | words)
    return rows


def rivals(name: str, model: Model, seed: int, seconds: float) -> list[dict[str, Any]]:
    """Every rival for `seconds`."""
    rows = []
    for method, run in RIVALS.items():
        began = time.perf_counter()
        answer = run(model, seed, seconds)
        row = measured(name, method, seed, answer.draws, time.perf_counter() - began)
        rows.append(row | {"pareto_k": answer.pareto_k, "work": answer.work})
    return rows


def main() -> None:
    """Every model with every seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(MODELS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    rows = []
    for name in args.names:
        for seed in range(args.first, args.first + args.seeds):
            made = ours(name, MODELS[name], seed)
            made += rivals(name, MODELS[name], seed, made[0]["seconds"]) if args.rivals else []
            for row in made:
                print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
            rows += made
            if args.out:
                args.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
