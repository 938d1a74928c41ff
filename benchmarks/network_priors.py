"""Three priors of a Bayesian network, compared on validation rows: how docs/networks.md came to its model.

    UIVI_DATA=... python -m benchmarks.network_priors [--tables yacht,boston,concrete] [--seed 1000]

The seed splits off the test rows, which are not used. A fifth of the other rows are validation rows.
"""

import argparse

import jax
import numpy as np
import numpyro
from numpyro.distributions import Gamma, Normal

import uivi
from uivi.paper.methods.problems import prediction_scores
from uivi.paper.networks.contenders import NUM_STEPS
from uivi.paper.networks.models import network as by_layer
from uivi.paper.networks.splits import split, standardised

DRAWS = 1_000


def unit(x, y=None, *, width):
    """All weights are N(0, 1)."""
    normal = lambda name, *shape: numpyro.sample(name, Normal(0.0, 1.0).expand(shape).to_event())
    body(normal, x, y, width)


def shared(x, y=None, *, width):
    """All weights are N(0, 1/λ), with λ ~ Gamma(1, 0.1)."""
    scale = numpyro.sample("lambda", Gamma(1.0, 0.1)) ** -0.5
    normal = lambda name, *shape: numpyro.sample(name, Normal(0.0, scale).expand(shape).to_event())
    body(normal, x, y, width)


def body(normal, x, y, width):
    noise = numpyro.sample("noise", Gamma(1.0, 0.1)) ** -0.5
    hidden = jax.nn.relu(x @ normal("first", x.shape[1], width) + normal("bias", width))
    mean = hidden @ normal("last", width) + normal("offset")
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", Normal(mean, noise), obs=y)


PRIORS = {"N(0, 1)": unit, "one λ": shared, "one λ for each layer": by_layer}


def predictions(draws, x):
    """Returns the mean of each row and the log precision of the noise, for each draw."""
    draws = {name: np.asarray(value, np.float64) for name, value in draws.items()}
    ones = np.ones(len(draws["offset"]))
    inner, outer = (draws.get(name, ones) ** -0.5 for name in ("inner", "outer"))
    hidden = np.einsum("rf,sfh->srh", x, draws["first"]) + draws["bias"][:, None]
    hidden = np.maximum(inner[:, None, None] * hidden, 0)
    mean = outer[:, None] * np.einsum("srh,sh->sr", hidden, draws["last"]) + draws["offset"][:, None]
    return mean, np.log(draws["noise"])


def measured(model, table, seed, width=50):
    """Returns the errors on the validation rows, and the ELBO from below."""
    whole = split(table, seed, 0.1)
    size = len(whole.y) // 5
    rows = standardised(whole.x[size:], whole.y[size:], whole.x[:size], whole.y[:size])
    fit = uivi.fit(
        model,
        model_args=(rows.x, rows.y),
        model_kwargs={"width": width},
        key=jax.random.key(seed),
        num_steps=NUM_STEPS,
        progress=False,
    )
    mean, log_precision = predictions(fit.sample(jax.random.key(1), DRAWS), rows.test_x)
    errors = prediction_scores(mean, log_precision, rows.test_y, whole.unit * rows.unit)
    return errors | {"elbo_lower": fit.check().lower.mean}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="yacht,boston,concrete")
    parser.add_argument("--seed", type=int, default=1_000)
    args = parser.parse_args()
    print("| table | prior of the weights | RMSE | NLL | ELBO, lower bound |\n|---|---|---|---|---|")
    for table in args.tables.split(","):
        for words, model in PRIORS.items():
            found = measured(model, table, args.seed)
            cells = f"{found['rmse']:.3f} | {found['nll']:.3f} | {found['elbo_lower']:.0f}"
            print(f"| {table} | {words} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
