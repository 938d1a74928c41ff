"""Models with reference draws: `uivi.fit` with defaults against NUTS and NumPyro's guides at equal time.

    python -m benchmarks.modelling [MODELS] [--seeds 5] [--rivals all] [--out rows.jsonl]     # from the root
    python -m benchmarks.modelling --table rows.jsonl

Error of a mean: in reference standard deviations; of a standard deviation: its ratio to the reference's, less
one. The worst variable counts. Distance: sliced 2-Wasserstein, in reference standard deviations. Seconds
include compilation; a rival gets as many as `uivi.fit` took, or `--seconds`.
"""

import argparse
import collections
import json
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

import uivi
from benchmarks.models import MODELS, Model
from benchmarks.rivals import RIVALS, sliced

NUM_DRAWS = 20_000
COLUMNS = {
    "mean_error": max,
    "sd_error": max,
    "distance": np.median,
    "pareto_k": np.median,
    "seconds": np.median,
}
"""What the table shows of a column's values over the seeds."""


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
    settings = {"model_args": model.args, "model_kwargs": model.kwargs, "check": False, "progress": False}
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


def rival(name: str, model: Model, method: str, seed: int, seconds: float) -> dict[str, Any]:
    """A rival for `seconds`."""
    began = time.perf_counter()
    answer = RIVALS[method](model, seed, seconds)
    row = measured(name, method, seed, answer.draws, time.perf_counter() - began)
    return row | {"pareto_k": answer.pareto_k, "work": answer.work}


def rows_of(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every model with every seed."""
    methods = list(RIVALS) if args.rivals == "all" else [m for m in args.rivals.split(",") if m]
    for name in args.names:
        for seed in range(args.first, args.first + args.seeds):
            seconds = args.seconds
            if seconds is None:
                mine = ours(name, MODELS[name], seed)
                seconds = mine[0]["seconds"]
                yield from mine
            for method in methods:
                yield rival(name, MODELS[name], method, seed, seconds)


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: of each model and method the worst error of all seeds, the median of the rest."""
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
    """Measure, or show what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(MODELS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--rivals", default="", help=f"some of {', '.join(RIVALS)}, with commas; or all")
    parser.add_argument("--seconds", type=float, help="of a rival; `uivi.fit` is left out")
    parser.add_argument("--out", type=pathlib.Path, help="rows are added to this file")
    parser.add_argument("--table", type=pathlib.Path, nargs="+", help="show these files, measure nothing")
    args = parser.parse_args()
    if args.table:
        print(table([json.loads(line) for path in args.table for line in path.read_text().splitlines()]))
        return
    for row in rows_of(args):
        print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
        if args.out:
            with args.out.open("a") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
