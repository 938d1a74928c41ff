"""Other methods on the X-shaped toy, which all papers define alike, by the measures that they publish.

    python -m benchmarks.published_toys [METHODS] [--seeds 3] [--out rows.jsonl]
    python -m benchmarks.published_toys --table rows.jsonl

KL(q‖p) is by quadrature. KL(p‖q) is the mean over 20,000 exact draws of p, with q(z) from 16,384 even ε.
"sliced W2" is between 10,000 draws of each, along 100 directions; two samples of p itself give the row "exact".
`SETTINGS` has what each fit was given.
"""

import collections
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import uivi
from benchmarks.rows import kept, need_known, parser, read
from uivi.estimators import IWHVI, KSIVI, SIVISM, AbstractEstimator
from uivi.evaluation import kl_quadrature
from uivi.evaluation.metrics import sliced_wasserstein, sobol_mixing
from uivi.families import MLP, Gaussian, LogScale, SemiImplicit, StandardNormal
from uivi.presets import methods
from uivi.reverse import Amortised, Importance, LearnedFlow

TOY = uivi.targets.XShaped()
NUM_FORWARD, LOG2_MIXING, BLOCK = 20_000, 14, 1_000
NUM_SLICED, NUM_DIRECTIONS = 10_000, 100


def plain_family(key) -> SemiImplicit:
    """Returns the family of most papers: three ε, two layers of 50 units, one scale for each coordinate."""
    return SemiImplicit(StandardNormal(3), Gaussian(MLP.create(key, 3, 2, width=50), LogScale.create(2, 0.7)))


def falling(rate: float, factor: float, every: int) -> optax.GradientTransformation:
    """Returns Adam with a rate that is multiplied by a factor every so many updates."""
    return optax.adam(optax.exponential_decay(rate, every, factor, staircase=True))


class Setting(NamedTuple):
    """How a method is fitted."""

    estimator: AbstractEstimator
    optimizer: Callable[[], optax.GradientTransformation]
    num_steps: int
    family: Callable[..., SemiImplicit] = plain_family


PVI = methods.paper_pvi(num_draws=10)
SETTINGS = {
    # The authors' settings for this toy, but for the family.
    "AISIVI": Setting(
        uivi.UIVI(128, Importance(256, LearnedFlow(num_layers=4, learning_rate=1e-3))),
        lambda: falling(1e-2, 0.1, 2_000),
        4_000,
    ),
    "KSIVI": Setting(KSIVI(128), lambda: falling(1e-3, 0.9, 1_000), 10_000),
    "SIVI-SM": Setting(SIVISM(128), lambda: falling(1e-3, 0.9, 1_000), 10_000),
    "PVI": Setting(
        PVI,
        lambda: methods.particle_optimizer(1e-3, PVI.step_size),
        4_000,
        lambda key: methods.particle_family(key, 2, num_particles=50, width=64),
    ),
    "IWHVI": Setting(IWHVI(16, 16, Amortised(width=64)), lambda: falling(1e-3, 0.9, 1_000), 10_000),
}


def forward_kl(family: SemiImplicit) -> tuple[float, float]:
    """Returns KL(p‖q) and its standard error."""
    z = jax.vmap(TOY.sample)(jax.random.split(jax.random.key(11), NUM_FORWARD))
    eps = sobol_mixing(family.mixing, LOG2_MIXING)

    @jax.jit
    def log_q(block):
        return jax.nn.logsumexp(family.conditional.log_prob_pairs(block, eps), 0) - jnp.log(1.0 * len(eps))

    found = np.concatenate([log_q(block) for block in z.reshape(-1, BLOCK, 2)])
    ratio = np.asarray(jax.vmap(TOY.log_joint)(z), np.float64) - found
    return float(ratio.mean()), float(ratio.std() / len(ratio) ** 0.5)


def sliced(draws) -> float:
    """Returns the sliced distance of draws from as many of p."""
    exact = jax.vmap(TOY.sample)(jax.random.split(jax.random.key(12), NUM_SLICED))
    return float(sliced_wasserstein(jax.random.key(13), draws, exact, NUM_DIRECTIONS))


def row(name: str, seed: int) -> dict[str, Any]:
    """Fits one method and measures it."""
    setting, family_key = SETTINGS[name], jax.random.key(100 + seed)
    posterior = uivi.fit(
        TOY,
        key=jax.random.key(seed),
        family=setting.family(family_key),
        estimator=setting.estimator,
        optimizer=setting.optimizer(),
        num_steps=setting.num_steps,
        check=False,
        progress=False,
    )
    kl, stderr = forward_kl(posterior.family)
    return {
        "method": name,
        "seed": seed,
        "updates": setting.num_steps,
        "seconds": posterior.phases["updates"],
        "KL(q‖p)": kl_quadrature(posterior.family, TOY).kl,
        "KL(p‖q)": kl,
        "stderr": stderr,
        "sliced W2": sliced(posterior.sample(jax.random.key(14), NUM_SLICED)),
    }


def table(found: list[dict[str, Any]]) -> str:
    """Formats means over the seeds, with the smallest and the largest, as Markdown."""
    grouped = collections.defaultdict(list)
    for one in found:
        grouped[one["method"]].append(one)
    columns = ("KL(q‖p)", "KL(p‖q)", "sliced W2")
    lines = ["| method | seeds | updates | " + " | ".join(columns) + " |", f"|{(3 + len(columns)) * '---|'}"]
    for name, group in grouped.items():
        values = [[one[column] for one in group] for column in columns]
        cells = [f"{np.mean(v):.2g} ({min(v):.2g} to {max(v):.2g})" for v in values]
        lines.append(f"| {name} | {len(group)} | {group[0]['updates']:,} | " + " | ".join(cells) + " |")
    again = jax.vmap(TOY.sample)(jax.random.split(jax.random.key(15), NUM_SLICED))
    return "\n".join([*lines, f"| exact | | | 0 | 0 | {sliced(again):.2g} |"])


def main() -> None:
    """Measures, or shows earlier measurements."""
    options = parser(__doc__, "methods", SETTINGS, seeds=3)
    args = options.parse_args()
    need_known(options, "methods", args.names, SETTINGS)
    if args.table:
        print(table(read(args.table)))
        return
    pairs = itertools.product(range(args.seeds), args.names or SETTINGS)
    print(table(kept((row(name, seed) for seed, name in pairs), args.out)))


if __name__ == "__main__":
    main()
