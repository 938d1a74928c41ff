"""Bounds on the ELBO, each with its side and its standard error.

log q(z) is intractable. Its estimate from L proposals *and* the ε that generated z is too high in expectation,
which gives a lower bound on the ELBO. The estimate from the L proposals alone is too low, which gives an upper
bound (on the ELBO, not on the evidence).
"""

from typing import Any, Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from uivi import _checks
from uivi._jax import seldom_jit
from uivi._types import Context, Draw, Key
from uivi.families.base import AbstractFamily
from uivi.families.explicit import AbstractExplicit
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.proposals import FittedProposal, from_mixing
from uivi.targets.base import AbstractTarget, log_density_at
from uivi.targets.traced import traced

BATCH = 1_024
"""Number of draws that one call of the evaluation's program treats."""
PAIRS_AT_ONCE = 65_536
"""Pairs (z, ε) evaluated side by side. It bounds the memory whatever the number of draws and proposals."""

Side = Literal["lower", "upper", "unbiased", "none"]

_Values = TypeVar("_Values", Array, np.ndarray)


class BoundValue(NamedTuple):
    """An estimate in nats.

    Attributes:
        name: the quantity, and the estimator if there are several.
        side: "lower" if its expectation is at most the true value, "upper" if at least, "unbiased" if equal,
            "none" if its bias has an unknown sign.
        mean: the estimate.
        stderr: standard error of the estimate over the draws.
        num_draws: number of draws z.
    """

    name: str
    side: Side
    mean: float
    stderr: float
    num_draws: int

    def __str__(self) -> str:
        """Returns a human-readable line."""
        side = "no bound" if self.side == "none" else f"{self.side} side"
        return f"{self.name} = {self.mean:.4f} ± {self.stderr:.4f} ({side})"


class Evaluated(NamedTuple):
    """Draws z from a fit with log p(x, z) and both estimates of log q(z).

    Attributes:
        z: draws from q.
        log_p: log p(x, z) of each draw.
        log_q_high: estimate of log q(z) that is too high in expectation.
        log_q_low: estimate of log q(z) that is too low in expectation.
    """

    z: Float[np.ndarray, "S D"]
    log_p: Float[np.ndarray, "S"]
    log_q_high: Float[np.ndarray, "S"]
    log_q_low: Float[np.ndarray, "S"]

    @property
    def log_weights(self) -> Float[np.ndarray, "S"]:
        """Log p/q of each draw, with log q from above.

        That estimate includes the ε of the draw. Without it, log q of a draw that no proposal finds is far too
        low, and its weight enormous. The differences are in double precision: float32 would round them if log p
        has a large constant.
        """
        return self.log_p.astype(np.float64) - self.log_q_high

    @property
    def unsure(self) -> float:
        """Share of the draws at which the two estimates of log q differ by more than a nat."""
        return float(np.mean(~(self.log_q_high - self.log_q_low <= 1.0)))


def evaluate(
    key: Key,
    family: AbstractFamily,
    target: AbstractTarget,
    num_draws: int,
    num_mixing: int,
    proposal: FittedProposal | None = None,
) -> Evaluated:
    """Draws z ~ q and estimates log q(z) from both sides.

    Args:
        key: random key.
        family: a family without context.
        target: a target with a single site.
        num_draws: number of draws z, S.
        num_mixing: number of proposals per z, L. They are independent between draws.
        proposal: a proposal for q(ε|z), by default q(ε). A good one tightens the bounds.
    """
    _checks.positive_int("num_draws", num_draws)
    _checks.positive_int("num_mixing", num_mixing)
    if family.context_dim:
        raise ValueError("expected a family without context: bounds of amortised families need data")
    if isinstance(family, SemiImplicit):
        proposal = from_mixing() if proposal is None else proposal
    else:
        need_known(family)
        proposal = None
    # Batches of one size, so that any number of draws runs the same program.
    size = min(num_draws, BATCH)
    batches = [
        _evaluate(key, np.int32(number), family, traced(target), size, num_mixing, proposal)
        for number in range(-(-num_draws // size))
    ]
    return Evaluated(*(np.concatenate(parts)[:num_draws] for parts in zip(*batches, strict=True)))


def bracket(evaluated: Evaluated) -> tuple[BoundValue, BoundValue]:
    """Returns the ELBO from below and from above, from the same draws."""
    lower = _value("ELBO", "lower", evaluated.log_p - evaluated.log_q_high)
    upper = _value("ELBO", "upper", evaluated.log_p - evaluated.log_q_low)
    return lower, upper


def paper_elbo(
    key: Key,
    family: AbstractFamily,
    target: AbstractTarget,
    *,
    num_draws: int = 100,
    num_mixing: int = 10_000,
) -> BoundValue:
    """Returns the ELBO as the paper's curves estimate it (`compute_elbo.m`), which is biased upwards.

    The estimate is the mean of log p(x, z) - log (1/L) Σ q(z|ε_l) over draws z. All draws share the same fresh
    ε from q(ε), and the ε that generated z is not among them. Sharing correlates the draws; the standard error
    ignores this and covers the average over z alone.

    Args:
        key: random key.
        family: a family without context.
        target: a target with a single site.
        num_draws: number of draws z.
        num_mixing: number of fresh ε, L.
    """
    _checks.positive_int("num_draws", num_draws)
    _checks.positive_int("num_mixing", num_mixing)
    draw_key, mixing_key = jax.random.split(key)
    draws = _sample(draw_key, family, num_draws)
    log_p = log_density_at(target, draws.z)
    if isinstance(family, SemiImplicit):
        mixing = jax.vmap(family.mixing.sample)(jax.random.split(mixing_key, num_mixing))
        log_q = _mean_log_prob(family, draws.z, mixing)
    else:
        log_q = jax.vmap(need_known(family).log_prob)(draws.z)
    return _value("ELBO, paper's estimator", "upper", log_p - log_q)


@seldom_jit
def _evaluate(
    key: Key, number: Any, family, target, num_draws: int, num_mixing: int, proposal
) -> tuple[Array, Array, Array, Array]:
    draw_key, mixing_key = jax.random.split(jax.random.fold_in(key, number))
    draws = _sample(draw_key, family, num_draws)
    log_p = log_density_at(target, draws.z)
    if proposal is None:
        log_q = jax.vmap(family.log_prob)(draws.z)
        return draws.z, log_p, log_q, log_q

    def one(args):
        key, draw = args
        return log_marginal_sides(key, family, draw, num_mixing, proposal)

    keys = jax.random.split(mixing_key, num_draws)
    high, low = jax.lax.map(one, (keys, draws), batch_size=max(1, PAIRS_AT_ONCE // num_mixing))
    return draws.z, log_p, high, low


def log_marginal_sides(
    key: Key,
    family: SemiImplicit,
    draw: Draw,
    num_mixing: int,
    proposal: FittedProposal,
    context: Context = None,
) -> tuple[Array, Array]:
    """Returns estimates of log q(z) that are too high and too low in expectation, for one draw (z, ε).

    With w(ε) = q(z|ε) q(ε) / m(ε|z) and ε_l ~ m, the high one is the log of the mean of w over ε_1..L and the
    generating ε, and the low one is the log of the mean over ε_1..L alone.
    """
    weights = importance_weights(key, family, draw, num_mixing, proposal, context)[1]
    return high_and_low(jax.nn.logsumexp(weights[1:]), weights[0], num_mixing)


def high_and_low(log_sum: _Values, own: _Values, num_mixing: int) -> tuple[_Values, _Values]:
    """Returns log means of weights with and without the generating ε: too high and too low for log q(z).

    The mean over ε_1..L alone is unbiased for q(z), so its log is too low (Jensen). The generating ε is a draw
    from q(ε|z): with it, the inverse of the mean is unbiased for 1/q(z), so the log of the mean is too high.

    Args:
        log_sum: log of the sum of the weights of ε_1..L; JAX or NumPy array.
        own: log weight of the generating ε, same shape.
        num_mixing: number of weights in the sum, L.
    """
    # Stored terms are studied with NumPy, in float64 without JAX's x64 mode; everything else is JAX.
    xp = log_sum.__array_namespace__()
    return xp.logaddexp(log_sum, own) - xp.log(num_mixing + 1), log_sum - xp.log(num_mixing)


def importance_weights(
    key: Key,
    family: SemiImplicit,
    draw: Draw,
    num_mixing: int,
    proposal: FittedProposal,
    context: Context = None,
) -> tuple[Float[Array, "M E"], Float[Array, "M"]]:
    """Returns the generating ε followed by L proposals for q(ε|z), and the log weights of all of them."""
    at = proposal.at(family, draw.z, context)
    density = family.reverse_log_density(draw.z, draw.eps, context)
    # In one array, so that the network is compiled once.
    eps = jnp.concatenate([draw.eps[None], at.sample(key, num_mixing)])
    return eps, jax.vmap(lambda e: density(e) - at.log_prob(e))(eps)


def _sample(key: Key, family: AbstractFamily, num: int) -> Draw:
    return jax.vmap(lambda k: family.sample(k))(jax.random.split(key, num))


@seldom_jit
def _mean_log_prob(family: SemiImplicit, z: Array, mixing: Array) -> Array:
    def one(z):
        return jax.nn.logsumexp(jax.vmap(family.conditional.log_prob_of(z))(mixing))

    # Eight z at a time: with the paper's 10,000 ε that is about PAIRS_AT_ONCE.
    return jax.lax.map(one, z, batch_size=8) - jnp.log(mixing.shape[0])


def need_known(family: AbstractFamily) -> AbstractExplicit:
    """Returns the family if it has a density, otherwise raises."""
    if isinstance(family, AbstractExplicit):
        return family
    raise TypeError(f"expected a family with a density or a SemiImplicit, got {type(family).__name__}")


def _value(name: str, side: Side, terms: Float[Array, "S"] | Float[np.ndarray, "S"]) -> BoundValue:
    terms = np.asarray(terms, np.float64)
    # ddof=1, written so that a single draw gives 0 instead of NaN, which JSON does not have.
    stderr = np.std(terms) / np.sqrt(max(len(terms) - 1, 1))
    return BoundValue(name, side, float(np.mean(terms)), float(stderr), len(terms))
