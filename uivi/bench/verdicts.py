"""Whether verdicts are right: fits that fail must not be called good, and right ones must.

    python -m uivi.bench.verdicts [NAMES] --seeds 1 [--out rows.jsonl]
    python -m uivi.bench.verdicts --group unseen
    python -m uivi.bench.verdicts --table rows.jsonl

A fit that is refused with an error counts as not good. The real errors come from exact draws, which neither the
fit nor its check sees: the largest error of a mean, in standard deviations, and of an sd, relative.
"""

import argparse
import json
import math
import pathlib
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

import uivi
from uivi.bench.verdict_cases import FAILURES, RIGHT, Case
from uivi.bench.verdict_unseen import UNSEEN

NUM_DRAWS = 20_000
"""Number of draws of q for its real errors."""
NUM_EXACT = 200_000
"""Number of exact draws."""
LIMIT = 0.1
"""Largest real error of a fit that is right: twice what a good verdict allows, since users expect 10 %."""
GROUPS = {"should fail": FAILURES, "should be right": RIGHT, "unseen": UNSEEN}
"""Lists of cases. The last one had no part in the rules of the verdict."""
CASES = {case.name: case for cases in GROUPS.values() for case in cases}
REFUSED = "refused"
"""In place of a verdict, if `uivi.fit` raises an error."""
GOOD = str(uivi.Verdict.GOOD)


def verdict_row(case: Case, seed: int) -> dict[str, Any]:
    """Fits a case and returns the verdict, the advice and the real errors."""
    began = time.perf_counter()
    group = next(name for name, cases in GROUPS.items() if case in cases)
    row: dict[str, Any] = {"case": case.name, "seed": seed, "group": group, "advice": []}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            settings = {"dim": case.dim, "key": jax.random.key(seed), "progress": False, **case.settings()}
            posterior = uivi.fit(case.log_density, **settings)
            found = posterior.check()
        except (TypeError, ValueError) as error:
            row |= {"verdict": REFUSED, "advice": [str(error)]}
        else:
            weights = {name: getattr(found.weights, name) for name in ("pareto_k", "kl", "ess", "unsure")}
            gaps = found.gaps._asdict() if found.gaps else {}
            mean, sd = real_errors(case, np.asarray(posterior.sample_flat(jax.random.key(seed), NUM_DRAWS)))
            row |= {
                "verdict": str(found.verdict),
                "advice": list(found.advice),
                "mean_error": mean,
                "sd_error": sd,
                **{name: _finite(value) for name, value in weights.items()},
                "gaps": {name: _finite(value) for name, value in gaps.items()},
            }
    row["warnings"] = sorted({str(w.message) for w in warned if issubclass(w.category, UserWarning)})
    return row | {"seconds": time.perf_counter() - began}


def real_errors(case: Case, draws: np.ndarray) -> tuple[float | None, float | None]:
    """Returns the largest errors of a mean and of an sd, against exact draws; None without these."""
    if case.exact is None:
        return None, None
    exact = np.asarray(jax.vmap(case.exact)(jax.random.split(jax.random.key(2019), NUM_EXACT)), np.float64)
    mean, sd = exact.mean(0), exact.std(0) if case.sd is None else np.full(case.dim, case.sd)
    with np.errstate(all="ignore"):  # draws of a fit that broke down
        shift = np.max(np.abs(draws.astype(np.float64).mean(0) - mean) / sd)
        change = np.max(np.abs(draws.astype(np.float64).std(0) / sd - 1))
    return _finite(shift), _finite(change)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def verdict_rows(cases: Sequence[Case], seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yields a row for each case and seed."""
    for case in cases:
        for seed in seeds:
            yield verdict_row(case, seed)
        # Every density has programs of its own, which nobody needs again.
        jax.clear_caches()


def is_right(row: dict[str, Any]) -> bool:
    """Whether exact draws show errors up to `LIMIT`. Where there are none, the list of the case decides."""
    mean, sd = row.get("mean_error"), row.get("sd_error")
    return row["group"] == "should be right" if mean is None or sd is None else max(mean, sd) <= LIMIT


def rates(rows: Sequence[dict[str, Any]]) -> str:
    """Says how many fits are wrong and called good, and how many right ones are called good, in each list."""
    lines = []
    for group in GROUPS:
        if fits := [row for row in rows if row["group"] == group]:
            right = [row for row in fits if is_right(row)]
            good = [row for row in fits if row["verdict"] == GOOD]
            wrong = sum(not is_right(row) for row in good)
            lines.append(
                f"{group}: {len(fits)} fits; {wrong} of {len(fits) - len(right)} wrong ones are called good, "
                f"{len(good) - wrong} of {len(right)} right ones"
            )
    return "\n".join(lines)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Formats the rows as Markdown, with the rates on top."""
    lines = [rates(rows)]
    for group in GROUPS:
        if fits := [row for row in rows if row["group"] == group]:
            lines += ["", f"| {group} | error of a mean | of an sd | k-hat | KL | verdict |", f"|{6 * '---|'}"]
            for row in fits:
                numbers = [_number(row.get(name)) for name in ("mean_error", "sd_error", "pareto_k", "kl")]
                lines.append("| " + " | ".join([row["case"], *numbers, row["verdict"]]) + " |")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}"


def main() -> None:
    """Measures, or shows earlier measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAMES", help="names of cases; default: all")
    parser.add_argument("--group", choices=GROUPS, action="append", help="run a list of cases; default: all")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds")
    parser.add_argument("--out", type=pathlib.Path, help="file to append the rows to")
    parser.add_argument("--table", type=pathlib.Path, nargs="+", help="show these files and measure nothing")
    args = parser.parse_args()
    if unknown := sorted(set(args.names) - set(CASES)):
        parser.error(f"unknown cases {', '.join(unknown)}: known: {', '.join(CASES)}")
    if args.table:
        print(table([json.loads(line) for path in args.table for line in path.read_text().splitlines()]))
        return
    rows = []
    chosen = [case for group in args.group or GROUPS for case in GROUPS[group]]
    cases = [CASES[name] for name in args.names] or chosen
    for row in verdict_rows(cases, range(args.seeds)):
        rows.append(row)
        print(f"{row['case']}, seed {row['seed']}: {row['verdict']} ({row['seconds']:.0f} s)", file=sys.stderr)
        if args.out:
            with args.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
