"""The network as a NumPyro model, its posterior on the training rows of a split, and its predictions."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from uivi._types import Latent
from uivi.integrations._optional import needs
from uivi.paper.methods.problems import prediction_scores
from uivi.paper.networks.splits import Split
from uivi.targets.model import AbstractModelTarget, Named

AT_ONCE = 64
"""Draws whose predictions are computed at once."""


def needs_numpyro() -> None:
    """Raises an `ImportError` that names the extra if NumPyro is missing."""
    with needs("NumPyro", extra="numpyro"):
        import numpyro  # noqa: F401


def network(x: Any, y: Any = None, *, width: int) -> None:
    """A layer of ReLUs, y ~ N(f(x), 1/γ).

    The weights of a layer have the prior N(0, 1/λ), with a precision λ ~ Gamma(1, 1) of its own. They are
    written as λ^(-1/2) times a standard normal. The precision γ of the noise has the prior Gamma(1, 0.1).
    """
    import numpyro
    from numpyro.distributions import Gamma, Normal

    normal = lambda name, *shape: numpyro.sample(name, Normal(0.0, 1.0).expand(shape).to_event())
    scale = lambda name, rate: numpyro.sample(name, Gamma(1.0, rate)) ** -0.5
    inner, outer, noise = scale("inner", 1.0), scale("outer", 1.0), scale("noise", 0.1)
    hidden = jax.nn.relu(inner * (x @ normal("first", x.shape[1], width) + normal("bias", width)))
    mean = outer * (hidden @ normal("last", width)) + normal("offset")
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", Normal(mean, noise), obs=y)


def posterior(rows: Split, width: int, batch_size: int | None) -> AbstractModelTarget:
    """Returns the posterior of a network of this width, on minibatches if there is a size for them."""
    needs_numpyro()
    from uivi.integrations import numpyro

    settings = {"width": width}
    if batch_size is None:
        return numpyro.target(network, (rows.x, rows.y), settings)
    return numpyro.minibatched(network, {"x": rows.x, "y": rows.y}, batch_size, model_kwargs=settings)


def predict(named: Named, x: Float[Array, "R F"]) -> Float[Array, "R"]:
    """Returns f(x) of each row, by one unconstrained draw."""
    # NumPyro's unconstrained precisions are logarithms. Everything else is unconstrained as it is.
    inner, outer = (jnp.exp(-0.5 * named[name]) for name in ("inner", "outer"))
    hidden = jax.nn.relu(inner * (x @ named["first"] + named["bias"][None]))
    return outer * (hidden @ named["last"]) + named["offset"]


def scores(target: AbstractModelTarget, draws: Float[np.ndarray, "S D"], rows: Split) -> dict[str, float]:
    """Returns RMSE and NLL on the test rows in the units of the data, and RMSE in standard deviations."""
    predicted = _predictions(target, jnp.asarray(draws, float), jnp.asarray(rows.test_x, float))
    mean, log_precision = (np.asarray(x, np.float64) for x in predicted)
    in_units = prediction_scores(mean, log_precision, rows.test_y, rows.unit)
    return in_units | {"rmse_in_sds": in_units["rmse"] / rows.unit}


@eqx.filter_jit
def _predictions(target: AbstractModelTarget, draws: Array, x: Array) -> tuple[Array, Array]:
    def one(z: Latent) -> tuple[Array, Array]:
        named = target.unflatten(z)
        return predict(named, x), named["noise"]

    return jax.lax.map(one, draws, batch_size=AT_ONCE)
