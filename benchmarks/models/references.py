"""Makes the reference draws by long NUTS runs of NumPyro in float64.

    python -m benchmarks.models.references [NAMES] [--chains 4] [--draws N] [--check]    # from the root

Sites in `Model.decentre` are sampled non-centred and transformed back. The script fails if any R-hat reaches
1.01 or any bulk or tail effective sample size is below 2,000. With `--check` it writes nothing: it compares a
shorter run with other random numbers to the stored moments, in standard errors of the difference.
"""

import argparse
import sys
import time
from typing import Any, NamedTuple

import jax
import numpy as np
import numpyro
from arviz_stats.base.array import array_stats
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.infer import MCMC, NUTS, init_to_uniform
from numpyro.infer.reparam import LocScaleReparam, Reparam

from benchmarks.models import MODELS, Model

KEPT_DRAWS = 4_000
KEPT_NUMBERS = 500_000
"""Stored draws, and stored numbers in all where a model has many dimensions: the files stay small."""
DENSE_LIMIT = 200
"""Largest number of dimensions with a dense mass matrix."""
ROUND_LIMIT = 10.0
"""Largest inflation (see `save`) at which draws may be rounded."""
CHECK_LIMIT = 4.5
"""Largest difference from the stored moments, in standard errors, over all moments of a model."""


class Run(NamedTuple):
    """The outcome of a NUTS run. Draws are by site, with shape (chains, draws, *site)."""

    draws: dict[str, np.ndarray]
    divergences: int
    seconds: float


class Health(NamedTuple):
    """The worst diagnostics over all components of all sites."""

    rhat: float
    ess_bulk: float
    ess_tail: float

    @property
    def good(self) -> bool:
        """Whether the run may serve as a reference."""
        return self.rhat < 1.01 and min(self.ess_bulk, self.ess_tail) > 2_000


class Latent(NamedTuple):
    """How a site is stored.

    Attributes:
        kind: "real" for the values, "positive" for their logs, "simplex" for log ratios.
        size: number of stored numbers per draw.
    """

    kind: str
    size: int


def latents(model: Model) -> dict[str, Latent]:
    """Returns the latent sites of a model."""
    start = handlers.substitute(handlers.seed(model.model, 0), substitute_fn=init_to_uniform)
    trace: dict[str, Any] = handlers.trace(start).get_trace(*model.args, **model.kwargs)
    found = {}
    for name, site in trace.items():
        if site["type"] == "sample" and not site["is_observed"]:
            kind = _kind(site["fn"].support)
            found[name] = Latent(kind, encode(np.asarray(site["value"]), kind).size)
    return found


def _kind(support: Any) -> str:
    support = getattr(support, "base_constraint", support)
    if support is constraints.simplex:
        return "simplex"
    return "positive" if support is constraints.positive else "real"


def encode(draws: np.ndarray, kind: str) -> np.ndarray:
    """Returns draws in the coordinates in which they are stored. `Model.reference` undoes it."""
    if kind == "positive":
        return np.log(draws)
    return np.log(draws[..., :-1] / draws[..., -1:]) if kind == "simplex" else draws


def run(model: Model, *, chains: int, warmup: int, draws: int, seed: int, dense: bool) -> Run:
    """Runs NUTS on the model, non-centred at the sites in `decentre`."""
    began = time.perf_counter()
    config: dict[str, Reparam] = {site: LocScaleReparam(0) for site in model.decentre}
    kernel = NUTS(handlers.reparam(model.model, config=config), target_accept_prob=0.99, dense_mass=dense)
    mcmc = MCMC(kernel, num_warmup=warmup, num_samples=draws, num_chains=chains,
                chain_method="sequential", progress_bar=False)  # fmt: skip
    mcmc.run(jax.random.key(seed), *model.args, **model.kwargs, extra_fields=("diverging",))
    wanted = latents(model)
    found = {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items() if k in wanted}
    return Run(found, int(mcmc.get_extra_fields()["diverging"].sum()), time.perf_counter() - began)


def _flat(sites: dict[str, np.ndarray], lead: int) -> np.ndarray:
    """Concatenates all components of all sites, after `lead` leading axes."""
    return np.concatenate([x.reshape(*x.shape[:lead], -1) for x in sites.values()], -1)


def _ess(draws: np.ndarray, method: str) -> np.ndarray:
    return np.asarray(array_stats.ess(draws, 0, 1, method, prob=(0.05, 0.95) if method == "tail" else None))


def health(draws: dict[str, np.ndarray]) -> Health:
    """Returns the worst rank-normalised R-hat and effective sample sizes."""
    flat = _flat(draws, 2)
    rhat = np.asarray(array_stats.rhat(flat, 0, 1))
    return Health(float(rhat.max()), float(_ess(flat, "bulk").min()), float(_ess(flat, "tail").min()))


def pack(values: np.ndarray, centre: np.ndarray, scale: np.ndarray, *, exact: bool) -> dict[str, np.ndarray]:
    """Splits the offsets from the centre into whole scales and 256ths of a scale.

    Each takes one byte per number. If `exact`, the 256ths are float32 instead.
    """
    offsets = (values - centre) / scale
    if not exact:
        offsets = np.round(256 * offsets) / 256
    whole = np.floor(offsets)
    return {
        "whole": whole.astype(np.int8),
        "part": (256 * (offsets - whole)).astype(np.float32 if exact else np.uint8),
    }


def save(model: Model, made: Run, found: Health) -> None:
    """Thins, shuffles and writes the draws, with the moments of all draws and how they were made.

    Rounding to 1/256 of a standard deviation does no harm unless a component is almost determined by the
    others. The inflation measures this: the ratio of its standard deviation to the conditional one given all
    others. Above `ROUND_LIMIT`, draws are stored as float32.
    """
    how = latents(model)
    pooled = {site: made.draws[site].reshape(-1, *made.draws[site].shape[2:]) for site in how}
    stored = {site: encode(pooled[site], latent.kind) for site, latent in how.items()}
    flat = _flat(stored, 1)
    total, dim = flat.shape
    kept = np.linspace(0, total - 1, min(KEPT_DRAWS, KEPT_NUMBERS // dim)).astype(int)
    kept = np.random.default_rng(5).permutation(kept)
    inflation = float(np.sqrt(np.diag(np.linalg.inv(np.corrcoef(flat.T)))).max())
    arrays: dict[str, Any] = {}
    for site, latent in how.items():
        centre = stored[site].mean(0).astype(np.float32)
        scale = stored[site].std(0).astype(np.float32)
        parts = pack(stored[site][kept], centre, scale, exact=inflation > ROUND_LIMIT) | {
            "centre": centre,
            "scale": scale,
            "kind": latent.kind,
            "mean": pooled[site].mean(0).astype(np.float32),
            "sd": pooled[site].std(0).astype(np.float32),
        }
        arrays |= {f"{key}/{site}": value for key, value in parts.items()}
    meta = found._asdict() | {
        "dim": dim,
        "chains": next(iter(made.draws.values())).shape[0],
        "draws": total,
        "divergences": made.divergences,
        "seconds": made.seconds,
        "inflation": inflation,
        "versions": f"jax {jax.__version__}, numpyro {numpyro.__version__}, numpy {np.__version__}",
    }
    arrays |= {f"meta/{key}": value for key, value in meta.items()}
    model.path.parent.mkdir(exist_ok=True)
    np.savez_compressed(model.path, **arrays)


def disagreement(model: Model, draws: dict[str, np.ndarray]) -> float:
    """Returns the largest difference of means and variances from the stored ones, in standard errors."""
    means, sds = (_flat(moment, 0) for moment in model.moments())
    flat = _flat({site: draws[site] for site in latents(model)}, 2)
    both = np.sqrt(1 + flat[..., 0].size / model.metadata()["draws"])
    error = lambda x: both * np.asarray(array_stats.mcse(x, 0, 1))
    squares = (flat - means) ** 2
    of_means = (flat.mean((0, 1)) - means) / error(flat)
    of_variances = (squares.mean((0, 1)) - sds**2) / error(squares)
    return float(np.abs([of_means, of_variances]).max())


def main() -> None:
    """Makes or checks the named references, by default all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAMES", help=f"of {', '.join(MODELS)}; default: all")
    parser.add_argument("--chains", type=int, default=4, help="number of chains")
    parser.add_argument("--warmup", type=int, default=1_500, help="warm-up transitions per chain")
    parser.add_argument(
        "--draws", type=int, help="draws per chain; default: 20,000, or 5,000 in 1,000 dimensions"
    )
    parser.add_argument("--check", action="store_true", help="compare a run with 1,000 draws per chain")
    args = parser.parse_args()
    if unknown := set(args.names) - set(MODELS):
        parser.error(f"unknown models {', '.join(sorted(unknown))}: known: {', '.join(MODELS)}")
    jax.config.update("jax_enable_x64", True)
    print(f"{'name':20} {'dim':>5} {'R-hat':>7} {'bulk':>7} {'tail':>7} {'div':>4} {'s':>6}", flush=True)
    bad = []
    for name in args.names or MODELS:
        model = MODELS[name]
        dim = sum(latent.size for latent in latents(model).values())
        draws = args.draws or (1_000 if args.check else 5_000 if dim > DENSE_LIMIT else 20_000)
        made = run(
            model,
            chains=args.chains,
            warmup=args.warmup,
            draws=draws,
            seed=1 + args.check,
            dense=dim <= DENSE_LIMIT,
        )
        found = health(made.draws)
        line = f"{name:20} {dim:5} {found.rhat:7.4f} {found.ess_bulk:7.0f} {found.ess_tail:7.0f}"
        line += f" {made.divergences:4} {made.seconds:6.0f}"
        if args.check:
            off = disagreement(model, made.draws)
            good = off < CHECK_LIMIT
            line += f"  differs by {off:.1f} standard errors"
        else:
            good = found.good
            if good:
                save(model, made, found)
                line += f"  {model.path.stat().st_size / 1e3:.0f} KB"
        print(line + ("" if good else "  BAD"), flush=True)
        bad += [] if good else [name]
    if bad:
        sys.exit(f"not good enough: {', '.join(bad)}")


if __name__ == "__main__":
    main()
