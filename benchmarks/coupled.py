"""Coupled chains against the default's i-SIR at equal time, from the same starts.

    python -m benchmarks.coupled [PROBLEMS] [--seeds 3] [--updates 6000] [--out rows.jsonl]
    python -m benchmarks.coupled --table rows.jsonl

i-SIR has 32 proposals and counts its start by the fifth power of its weight, as `uivi.fit` does. Coupled
chains have 32 a step, or 16 for as many evaluations. The updates of i-SIR set the seconds of all, compilation
aside. The toys are judged by KL(q‖p) from quadrature, the models by the ELBO from below and by their reference
moments. "variance" is that of the gradient at the fit by i-SIR, summed over all parameters; "cost" is the time
of an update. Both are divided by i-SIR's.
"""

import collections
import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import uivi
from benchmarks.modelling import errors
from benchmarks.models import MODELS
from benchmarks.rows import kept, need_known, parser, read
from uivi.evaluation import bracket, kl_quadrature
from uivi.reverse import AbstractReverseSampler, Coupled
from uivi.testing import flat

TOYS = {
    "banana": uivi.targets.Banana(),
    "multimodal": uivi.targets.Multimodal(),
    "X": uivi.targets.XShaped(),
}
HARDEST = ("schools_centred", "gp_poisson")
PROBLEMS = (*TOYS, *HARDEST)
SAMPLERS: dict[str, AbstractReverseSampler] = {
    "i-SIR, 32": uivi.presets.default_uivi(32).sampler,
    "coupled, 32": Coupled(32),
    "coupled, 16": Coupled(16),
}
"""The first one sets the time of the others."""
NUM_TIMED = 500
"""Updates that tell how long one takes."""
NUM_DRAWS = 20_000
NUM_GRADIENTS = 400
"""Gradients that tell their variance."""


def fit(problem: str, sampler: AbstractReverseSampler, seed: int, num_steps: int) -> uivi.Posterior:
    """Fits a problem with 64 draws of z an update, as `uivi.fit` does by default."""
    settings: dict[str, Any] = {
        "key": jax.random.key(seed),
        "estimator": uivi.UIVI(num_draws=64, sampler=sampler),
        "num_steps": num_steps,
        "check": False,
        "progress": False,
    }
    if problem in TOYS:
        return uivi.fit(TOYS[problem], **settings)
    model = MODELS[problem]
    return uivi.fit(model.model, model_args=model.args, model_kwargs=model.kwargs, **settings)


def measured(problem: str, posterior: uivi.Posterior, seed: int) -> dict[str, float]:
    """Returns how good a fit is."""
    key = jax.random.key(1_000 + seed)
    if problem in TOYS:
        return {"kl": kl_quadrature(posterior.family, TOYS[problem]).kl}
    lower, _ = bracket(posterior.evaluate(key, NUM_DRAWS))
    mean, sd, _ = errors(posterior.sample(key, NUM_DRAWS), MODELS[problem])
    return {"elbo": lower.mean, "elbo_stderr": lower.stderr, "mean_error": mean, "sd_error": sd}


def variance(fit: uivi.Posterior, sampler: AbstractReverseSampler) -> float:
    """Returns the variance of the gradient with this sampler, in the last state of a fit."""
    estimator, target = uivi.UIVI(num_draws=64, sampler=sampler), fit.target
    assert target is not None

    @eqx.filter_jit
    def gradients(keys, family, target, state):
        def one(key):
            step = jnp.zeros((), int)
            made = estimator.estimate(key, (family, target), target.sites(key, step), step, state)
            return flat(made.grads[0])

        return jax.lax.map(one, keys)

    keys = jax.random.split(jax.random.key(7), NUM_GRADIENTS)
    found = np.asarray(gradients(keys, fit.family, target, fit.est_state), np.float64)
    return float(np.sum(np.var(found, 0)))


def pace(fit: uivi.Posterior) -> float:
    """Returns the seconds of an update, the median over the records of a fit. Compilation is not among them."""
    seconds, steps = np.asarray(fit.history["seconds"]), np.asarray(fit.history["step"])
    return float(np.median(np.diff(seconds) / np.diff(steps)))


def rows(problem: str, seed: int, num_steps: int):
    """Yields the row of each sampler."""
    jax.clear_caches()  # programs of earlier problems would use up the memory maps of the process
    first, unit, own_pace = None, float("nan"), float("nan")
    for name, sampler in SAMPLERS.items():
        if first is None:
            number = num_steps
        else:
            number = round(num_steps * own_pace / pace(fit(problem, sampler, seed, NUM_TIMED)))
        posterior = fit(problem, sampler, seed, number)
        seconds = pace(posterior)
        if first is None:
            first, unit, own_pace = posterior, variance(posterior, sampler), seconds
        steps = posterior.history["steps"][-1] if "steps" in posterior.history else None
        yield {
            "problem": problem,
            "method": name,
            "seed": seed,
            "updates": number,
            "ms": 1e3 * seconds,
            "cost": seconds / own_pace,
            "variance": variance(first, sampler) / unit,
            "steps": steps,
            **measured(problem, posterior, seed),
        }


def table(found: list[dict[str, Any]]) -> str:
    """Formats medians over the seeds as Markdown."""
    grouped = collections.defaultdict(list)
    for row in found:
        grouped[row["problem"], row["method"]].append(row)
    columns = ("updates", "ms", "cost", "variance", "steps", "kl", "elbo", "mean_error", "sd_error")
    lines = ["| problem | sampler | seeds | " + " | ".join(columns) + " |", f"|{(3 + len(columns)) * '---|'}"]
    for (problem, method), group in grouped.items():
        known = [[row[name] for row in group if row.get(name) is not None] for name in columns]
        cells = [f"{np.median(values):.4g}" if values else "–" for values in known]
        lines.append(f"| {problem} | {method} | {len(group)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measures, or shows earlier measurements."""
    options = parser(__doc__, "problems", PROBLEMS, seeds=3)
    options.add_argument("--updates", type=int, default=6_000, help="number of updates with i-SIR")
    args = options.parse_args()
    need_known(options, "problems", args.names, PROBLEMS)
    if args.table:
        print(table(read(args.table)))
        return
    pairs = itertools.product(args.names or PROBLEMS, range(args.seeds))
    measurements = (row for problem, seed in pairs for row in rows(problem, seed, args.updates))
    print(table(kept(measurements, args.out)))


if __name__ == "__main__":
    main()
