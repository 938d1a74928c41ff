"""The reference of `uivi run methods-waveform`: moments of the posterior by a long run of NUTS.

    UIVI_DATA=... python -m benchmarks.waveform_reference [--chains 4] [--draws 20000]

It writes `uivi/paper/methods/waveform_reference.csv`: for each coefficient its mean, then its row of the
covariance. R-hat, effective sample sizes and the settings stand in the comments at the top.
"""

import argparse
import pathlib

import jax
import numpy as np
import numpyro

from uivi.paper.methods.problems import waveform_target
from uivi.paper.methods.waveform import REFERENCE

NUM_WARMUP = 1_000


def sampled(chains: int, draws: int) -> tuple[np.ndarray, dict[str, float]]:
    """Returns draws of all chains, shape (chains, draws, D), with the worst R-hat and effective sample size."""
    target = waveform_target()
    kernel = numpyro.infer.NUTS(potential_fn=lambda z: -target.log_density(z), dense_mass=True)
    mcmc = numpyro.infer.MCMC(
        kernel,
        num_warmup=NUM_WARMUP,
        num_samples=draws,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    start = 0.1 * jax.random.normal(jax.random.key(1), (chains, target.dim))
    mcmc.run(jax.random.key(0), init_params=start)
    found = np.asarray(mcmc.get_samples(group_by_chain=True), np.float64)
    ess = numpyro.diagnostics.effective_sample_size
    rhat = numpyro.diagnostics.split_gelman_rubin(found)
    return found, {
        "R-hat": float(np.max(rhat)),
        "ess": float(np.min(ess(found))),
        "ess of the squares": float(np.min(ess((found - found.mean((0, 1))) ** 2))),
        "divergences": int(np.sum(mcmc.get_extra_fields()["diverging"])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--draws", type=int, default=20_000, help="draws of each chain")
    parser.add_argument("--out", type=pathlib.Path, default=REFERENCE)
    args = parser.parse_args()
    draws, found = sampled(args.chains, args.draws)
    halves = [np.cov(part.reshape(-1, draws.shape[-1]), rowvar=False) for part in (draws[::2], draws[1::2])]
    noise = np.linalg.norm(halves[0] - halves[1]) / np.linalg.norm(halves[0])
    flat = draws.reshape(-1, draws.shape[-1])
    words = [
        "mean, then row of the covariance, of each coefficient; by python -m benchmarks.waveform_reference",
        f"NumPyro {numpyro.__version__}, NUTS, {args.chains} chains of {args.draws} draws after {NUM_WARMUP}",
        f"R-hat at most {found['R-hat']:.5f}, {found['divergences']} divergences",
        f"effective sample size at least {found['ess']:.0f}, of squares {found['ess of the squares']:.0f}",
        f"relative Frobenius distance of the covariances of half the chains each: {noise:.4f}",
    ]
    rows = np.column_stack([flat.mean(0), np.cov(flat, rowvar=False)])
    np.savetxt(args.out, rows, fmt="%.6g", delimiter=",", header="\n".join(words))
    print("\n".join(words))


if __name__ == "__main__":
    main()
