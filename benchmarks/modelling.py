"""Compares `uivi.fit` with defaults to NUTS and NumPyro's guides at equal time, on models with reference draws.

    python -m benchmarks.modelling [MODELS] [--seeds 5] [--rivals all] [--out rows.jsonl]     # from the root
    python -m benchmarks.modelling --table rows.jsonl

The error of a mean is in reference standard deviations. The error of a standard deviation is |ratio - 1|, where
ratio is its ratio to the reference's. Both are the largest over all variables. The distance is the sliced
2-Wasserstein distance, in reference standard deviations. Seconds include compilation. A rival gets as many
seconds as `uivi.fit` took, or `--seconds`.
"""

import argparse
import collections
import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

import uivi
from benchmarks.models import MODELS, Model
from benchmarks.rivals import RIVALS, sliced
from benchmarks.rows import kept, need_known, parser, read

NUM_DRAWS = 20_000
COLUMNS = {
    "mean_error": max,
    "sd_error": max,
    "distance": np.median,
    "pareto_k": np.median,
    "seconds": np.median,
}
"""Columns of the table, each with the function that combines its values over the seeds."""


def errors(draws: dict[str, jax.Array], model) -> tuple[float, float, str]:
    """Returns the largest error of a mean, the largest error of an sd, and the variable with the latter."""
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


def measured(
    draws: dict[str, jax.Array], *, name: str, method: str, seed: int, seconds: float
) -> dict[str, Any]:
    """Returns the row of one set of draws."""
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
    """Fits with defaults only. Returns a row for draws from q and a row for reweighted draws."""
    began = time.perf_counter()
    settings = {"model_args": model.args, "model_kwargs": model.kwargs, "check": False, "progress": False}
    fitted = uivi.fit(model.model, key=jax.random.key(seed), **settings)
    seconds = time.perf_counter() - began
    found = fitted.check()
    notes = {
        "pareto_k": found.pareto_k,
        "verdict": str(found.verdict),
        "advice": list(found.advice),
        "gaps": found.gaps and found.gaps._asdict(),
        "elbo": found.lower.mean,
        "work": f"{fitted.history['step'][-1]} updates",
    }
    rows = []
    for method, number in (("uivi", NUM_DRAWS), ("uivi, reweighted", NUM_DRAWS // 4)):
        draws = fitted.sample(jax.random.key(1), number, reweight=method != "uivi")
        rows.append(measured(draws, name=name, method=method, seed=seed, seconds=seconds) | notes)
    return rows


def rival(name: str, model: Model, method: str, seed: int, seconds: float) -> dict[str, Any]:
    """Returns the row of a rival that may take `seconds`."""
    began = time.perf_counter()
    answer = RIVALS[method](model, seed, seconds)
    took = time.perf_counter() - began
    row = measured(answer.draws, name=name, method=method, seed=seed, seconds=took)
    return row | {"pareto_k": answer.pareto_k, "work": answer.work}


def _rivals(args: argparse.Namespace) -> list[str]:
    return list(RIVALS) if args.rivals == "all" else [m for m in args.rivals.split(",") if m]


def rows_of(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yields the rows of every model and seed."""
    for name in args.names or MODELS:
        for seed in range(args.first, args.first + args.seeds):
            seconds = args.seconds
            if seconds is None:
                mine = ours(name, MODELS[name], seed)
                seconds = mine[0]["seconds"]
                yield from mine
            for method in _rivals(args):
                yield rival(name, MODELS[name], method, seed, seconds)


def table(rows: list[dict[str, Any]]) -> str:
    """Formats the rows as Markdown: the largest error over the seeds, and medians of the other columns."""
    lines = [
        "| model | method | seeds | mean | sd | distance | k-hat | seconds | verdicts |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, method in dict.fromkeys((row["model"], row["method"]) for row in rows):
        mine = [row for row in rows if (row["model"], row["method"]) == (name, method)]
        columns = {column: [row[column] for row in mine] for column in COLUMNS}
        verdicts = collections.Counter(row["verdict"] for row in mine if "verdict" in row)
        cells = [name, method, str(len(mine))]
        cells += [f"{COLUMNS[column](values):.3g}" for column, values in columns.items()]
        cells.append(", ".join(f"{number} {verdict}" for verdict, number in verdicts.items()))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measures, or shows earlier measurements."""
    options = parser(__doc__, "models", MODELS, seeds=1)
    options.add_argument("--first", type=int, default=0, help="first seed")
    options.add_argument(
        "--rivals", default="", help=f"rivals separated by commas ({', '.join(RIVALS)}), or `all`"
    )
    options.add_argument("--seconds", type=float, help="seconds for each rival; `uivi.fit` does not run then")
    args = options.parse_args()
    for kind, names, known in (("models", args.names, MODELS), ("rivals", _rivals(args), RIVALS)):
        need_known(options, kind, names, known)
    if args.table:
        print(table(read(args.table)))
        return
    kept(rows_of(args), args.out)


if __name__ == "__main__":
    main()
