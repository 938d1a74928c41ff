"""Tests the estimators of log p(x): their drift with the budget, and an annealed reference."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from uivi._jax import seldom_jit
from uivi._types import Key
from uivi.evaluation.annealing import AIS
from uivi.evaluation.bounds import high_and_low
from uivi.evaluation.likelihood import BLOCK, Likelihood, Terms, evaluate_terms
from uivi.families import AbstractFamily, StandardNormal
from uivi.targets.vae import BernoulliVAE

Images = Float[Array, "N P"]


def drift(
    key: Key, family: AbstractFamily, target: BernoulliVAE, images: Images, settings: Likelihood
) -> list[dict[str, Any]]:
    """Evaluates the paper's estimator and the one that includes the generating ε at parts of the budget.

    All rows share the same draws, so they differ only in S and M.
    """
    terms = _terms(settings, key, family, target, images)
    log_p, own, fresh = (np.asarray(x, np.float64) for x in terms)
    rows = []
    for draws in _parts(settings.num_draws):
        for used in _parts(fresh.shape[1]):
            mixing = settings.num_mixing if used == fresh.shape[1] else used * BLOCK
            weights = log_p[:, :draws], own[:, :draws], fresh[:, :used, :draws]
            rows.append({"draws": draws, "mixing": mixing, **_estimates(*weights, mixing)})
    return rows


def _parts(total: int) -> list[int]:
    """Returns about a tenth, a fifth, a half and all of `total`."""
    return sorted({max(1, round(total * share)) for share in (0.1, 0.2, 0.5, 1.0)})


def _estimates(log_p: np.ndarray, own: np.ndarray, fresh: np.ndarray, mixing: int) -> dict[str, float]:
    high, low = high_and_low(np.logaddexp.reduce(fresh, 1), own, mixing)
    mean = lambda log_w: float(np.mean(np.logaddexp.reduce(log_w, 1) - np.log(log_w.shape[1])))
    return {"paper": mean(log_p - low), "lower": mean(log_p - high)}


@seldom_jit
def _terms(settings: Likelihood, key: Key, family, target, images: Images) -> Terms:
    def one(args):
        key, x = args
        log_joint = lambda z: target.log_joint(z, x)
        return evaluate_terms(key, family, log_joint, x, settings.num_draws, settings.num_mixing)[0]

    keys = jax.random.split(key, images.shape[0])
    return jax.lax.map(one, (keys, images), batch_size=min(settings.sites_at_once, images.shape[0]))


def truth(
    key: Key,
    family: AbstractFamily,
    target: BernoulliVAE,
    images: Images,
    settings: Likelihood,
    annealing: AIS,
    chains: int,
) -> dict[str, Any]:
    """Evaluates all estimators and annealed importance sampling on the same images.

    On real images, annealing gives a lower bound. On images simulated from the model, the z that generated x is
    an exact draw from the posterior, so the backward chain gives an upper bound as well.
    """
    simulate_key, real_key, fake_key, estimate_key = jax.random.split(key, 4)
    made, z = _simulate(simulate_key, target, images.shape[0])
    real_lower = _anneal(annealing, real_key, target, images, None, chains)[0]
    fake_lower, fake_upper = _anneal(annealing, fake_key, target, made, z, chains)
    return {
        "images": images.shape[0],
        "real": {"ais_lower": _mean(real_lower), **_all(settings, estimate_key, family, target, images)},
        "simulated": {
            "ais_lower": _mean(fake_lower),
            "ais_upper": _mean(fake_upper),
            **_all(settings, estimate_key, family, target, made),
        },
    }


def _all(settings: Likelihood, key: Key, family, target, images: Images) -> dict[str, dict[str, float]]:
    values = settings(key, family, target, images)
    return {name: {"mean": values[name].mean, "stderr": values[name].stderr} for name in values}


def _mean(values: Array | None) -> dict[str, float]:
    assert values is not None
    return {"mean": float(np.mean(np.asarray(values, np.float64)))}


@seldom_jit
def _simulate(key: Key, target: BernoulliVAE, num: int) -> tuple[Images, Float[Array, "N D"]]:
    z_key, x_key = jax.random.split(key)
    z = jax.random.normal(z_key, (num, target.dim))
    mean = jax.vmap(target.decode)(z)
    return jax.random.bernoulli(x_key, mean).astype(z.dtype), z


@seldom_jit
def _anneal(annealing: AIS, key: Key, target: BernoulliVAE, images: Images, starts, chains: int):
    def one(key, x, start):
        log_likelihood = lambda z: target.log_likelihood(z, x)
        result = annealing.sandwich(key, StandardNormal(target.dim), log_likelihood, start, chains)
        return result.lower, result.upper

    return jax.vmap(one)(jax.random.split(key, images.shape[0]), images, starts)
