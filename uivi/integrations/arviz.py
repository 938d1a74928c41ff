"""Export to ArviZ 1 (arviz-base) or 0.2x: `posterior.to_arviz(key)`."""

import importlib.metadata
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from uivi import _checks
from uivi._types import Key
from uivi.integrations._optional import needs
from uivi.targets.model import AbstractModelTarget

if TYPE_CHECKING:
    from uivi.fitting.posterior import Posterior

Group = dict[str, np.ndarray]

NUM_CHAINS = 4
"""Number of chains to which draws are dealt: ArviZ has no R-hat of one chain, and warns."""
FEWEST = 4
"""Least number of draws in each of several chains: of shorter chains ArviZ has no R-hat either."""


def to_arviz(
    posterior: "Posterior",
    key: Key,
    num_draws: int = 1_000,
    *,
    log_likelihood: bool = True,
    predictive: bool = True,
) -> Any:
    """Returns independent draws with their densities, as four chains.

    The groups are posterior, unconstrained_posterior and sample_stats; for a model also log_likelihood,
    posterior_predictive, observed_data and constant_data. The sample_stats are `log_p` (unnormalised),
    `log_q_lower` and `log_q_upper` (estimates of log q that are too low and too high in expectation) and
    `log_weight` (Pareto-smoothed, normalised). The result is a DataTree, or InferenceData if the installed
    ArviZ is older than 1, as PyMC 5 needs it.

    The draws are no Markov chain. They are dealt to four chains, because ArviZ's numbers need several; fewer
    than 16 draws stay in one. R-hat is 1 and the effective sample size is the number of draws, up to chance,
    however bad the fit is: use `posterior.check()` instead.

    Args:
        posterior: a posterior with its target.
        key: random key.
        num_draws: number of draws in all chains together, from 16 on rounded up to a multiple of four.
        log_likelihood: whether to evaluate every observation at every draw.
        predictive: whether to draw new observations.
    """
    draw_key, predict_key = jax.random.split(_checks.prng_key(key))
    num_draws = _checks.positive_int("num_draws", num_draws)
    chains = NUM_CHAINS if num_draws >= NUM_CHAINS * FEWEST else 1
    evaluated = posterior.evaluate(draw_key, num_draws + -num_draws % chains)
    draws = posterior.structured(evaluated.z)
    weights, k = posterior.smoothed_weights(evaluated)
    groups: dict[str, Group] = {
        "posterior": named(draws),
        "unconstrained_posterior": {"z": np.asarray(evaluated.z)},
        "sample_stats": {
            "log_p": np.asarray(evaluated.log_p),
            "log_q_lower": np.asarray(evaluated.log_q_low),
            "log_q_upper": np.asarray(evaluated.log_q_high),
            "log_weight": weights,
        },
    }
    fixed: dict[str, Group] = {}
    dims: dict[str, list[str]] = {}
    coords: dict[str, Any] = {}
    if isinstance(posterior.target, AbstractModelTarget):
        model = posterior.target.model
        dims, coords = model.dims, model.coords
        latent = {name: draws[name] for name in model.example}
        groups["unconstrained_posterior"] = named(
            jax.vmap(posterior.target.unflatten)(jnp.asarray(evaluated.z))
        )
        if log_likelihood:
            groups["log_likelihood"] = model.log_likelihood(latent)
        if predictive:
            groups["posterior_predictive"] = model.predict(predict_key, latent)
        fixed = {"observed_data": model.observed(), "constant_data": model.constants}
    every = {name: _dealt(group, chains) for name, group in groups.items()} | fixed
    filled = {name: group for name, group in every.items() if group}
    return _convert(filled, dims, coords, {"inference_library": "uivi", "pareto_k": k})


def named(draws: PyTree) -> Group:
    """Returns the arrays by name: "z" for a plain vector, the path of the leaf in other structures."""
    leaves = jax.tree_util.tree_flatten_with_path(draws)[0]
    name = lambda path: "_".join(str(getattr(p, "key", getattr(p, "idx", p))) for p in path) or "z"
    return {name(path): np.asarray(leaf) for path, leaf in leaves}


def _dealt(group: Group, chains: int) -> Group:
    """Deals independent draws to chains of equal length."""
    return {name: np.reshape(value, (chains, -1, *np.shape(value)[1:])) for name, value in group.items()}


def _convert(groups: dict[str, Group], dims: dict, coords: dict, attrs: dict[str, Any]) -> Any:
    # A transform may change the shape of a variable (a simplex loses one entry). The dims describe constrained
    # variables, so the unconstrained group is converted without them.
    unconstrained = groups.pop("unconstrained_posterior")
    if _is_before_one():
        return _to_inference_data(groups, unconstrained, dims, coords, attrs)
    with needs("ArviZ", extra="arviz"):
        import arviz_base
    tree = arviz_base.from_dict(groups, dims=dims, coords=coords)
    plain = arviz_base.from_dict({"unconstrained_posterior": unconstrained})
    tree["unconstrained_posterior"] = plain["unconstrained_posterior"]
    tree["posterior"].attrs.update(attrs)
    return tree


def _is_before_one() -> bool:
    """Whether the installed ArviZ, which PyMC 5 shares, takes InferenceData. arviz-base may be there too."""
    try:
        return importlib.metadata.version("arviz").startswith("0.")
    except importlib.metadata.PackageNotFoundError:
        return False


def _to_inference_data(
    groups: dict[str, Group], unconstrained: Group, dims: dict, coords: dict, attrs: dict[str, Any]
) -> Any:
    import arviz

    # ArviZ 1 has no such names, and a type checker sees one version only.
    tools: Any = vars(arviz)
    data = tools["from_dict"](**groups, dims=dims, coords=coords)
    data.add_groups({"unconstrained_posterior": tools["dict_to_dataset"](unconstrained)})
    data.posterior.attrs.update(attrs)
    return data
