"""`uivi.fit` with defaults on models with reference draws.

    python -m benchmarks.modelling [NAMES] [--seeds 5] [--out modelling.json]     # from the root

Error of a mean: in reference standard deviations; of a standard deviation: its ratio to the reference's, less
one. Seconds include compilation.
"""

import argparse
import json
import pathlib
import time

import jax
import numpy as np

import uivi
from benchmarks.models import MODELS


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


def main() -> None:
    """Fit every model with every seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(MODELS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    rows = []
    for name in args.names:
        model = MODELS[name]
        for seed in range(args.seeds):
            began = time.perf_counter()
            fitted = uivi.fit(
                model.model,
                model_args=model.args,
                model_kwargs=model.kwargs,
                key=jax.random.key(seed),
                progress=False,
            )
            seconds = time.perf_counter() - began
            shift, ratio, where = errors(fitted.sample(jax.random.key(1), 20_000), model)
            found = fitted.check()
            row = {
                "model": name,
                "dim": fitted.dim,
                "seed": seed,
                "mean_error": shift,
                "sd_error": ratio,
                "worst_sd": where,
                "pareto_k": found.pareto_k_lower,
                "elbo": found.lower.mean,
                "seconds": seconds,
                "verdict": str(found.verdict),
                "advice": list(found.advice),
            }
            rows.append(row)
            print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    if args.out:
        args.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
