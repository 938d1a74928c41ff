"""Bounds on the ELBO, each with its side and its standard error.

log q(z) is intractable. Its estimate from L proposals *and* the ε that made z is too high in expectation, which
gives a lower bound of the ELBO; the estimate from the L proposals alone is too low, which gives an upper
bound (of the ELBO, not of the evidence).
"""

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi import _checks
from uivi._types import Draw, Key
from uivi.families.base import AbstractFamily
from uivi.families.explicit import AbstractExplicit
from uivi.families.semi_implicit import SemiImplicit
from uivi.reverse.proposals import FittedProposal, FromMixing
from uivi.targets.base import AbstractTarget, log_density_at

Side = Literal["lower", "upper", "unbiased", "none"]


class BoundValue(NamedTuple):
    """An estimate in nats.

    Attributes:
        name: of what, by which estimator.
        side: "lower": its expectation is at most the ELBO; "upper": at least; "unbiased": equal;
            "none": a biased estimate of unknown sign.
        mean: the estimate.
        stderr: its standard error over the draws.
        num_draws: how many z.
    """

    name: str
    side: Side
    mean: float
    stderr: float
    num_draws: int

    def __str__(self) -> str:
        """For people."""
        side = "no bound" if self.side == "none" else f"{self.side} side"
        return f"{self.name} = {self.mean:.4f} ± {self.stderr:.4f} ({side})"


class Evaluated(NamedTuple):
    """Draws z of a fit with log p(z) and both estimates of log q(z)."""

    z: Float[Array, "S D"]
    log_p: Float[Array, "S"]
    log_q_high: Float[Array, "S"]
    log_q_low: Float[Array, "S"]


class AbstractBound(eqx.Module):
    """A bound on the ELBO of a family without context; its budget is its own field."""

    def __call__(
        self,
        key: Key,
        family: AbstractFamily,
        target: AbstractTarget,
        proposal: FittedProposal | None = None,
    ) -> BoundValue:
        """Evaluate the bound; a good `proposal` for q(ε|z) tightens it."""
        raise NotImplementedError


class AbstractElboSide(AbstractBound):
    """One side of the ELBO; both come from the same draws."""

    num_draws: int = eqx.field(static=True, default=1000)
    num_mixing: int = eqx.field(static=True, default=1000)

    def pick(self, lower: BoundValue, upper: BoundValue) -> BoundValue:
        """The side that this bound is."""
        raise NotImplementedError

    def __call__(
        self,
        key: Key,
        family: AbstractFamily,
        target: AbstractTarget,
        proposal: FittedProposal | None = None,
    ) -> BoundValue:
        """Mean of log p(x, z) - log q(z), log q over- or underestimated."""
        return self.pick(*bracket(evaluate(key, family, target, self.num_draws, self.num_mixing, proposal)))


class ElboLower(AbstractElboSide):
    """ELBO from below: the generating ε is among those that estimate log q(z)."""

    def pick(self, lower: BoundValue, upper: BoundValue) -> BoundValue:
        """The lower one."""
        del upper
        return lower


class ElboUpper(AbstractElboSide):
    """ELBO from above: the generating ε is left out."""

    def pick(self, lower: BoundValue, upper: BoundValue) -> BoundValue:
        """The upper one."""
        del lower
        return upper


class PaperElbo(AbstractBound):
    """The estimator behind the paper's ELBO curves (`compute_elbo.m`): biased upwards.

    10,000 fresh ε from q(ε), shared by 100 draws z, the generating ε left out. The sharing ties the draws
    together, so the standard error is only that of the outer average.
    """

    num_draws: int = eqx.field(static=True, default=100)
    num_mixing: int = eqx.field(static=True, default=10_000)

    def __call__(
        self,
        key: Key,
        family: AbstractFamily,
        target: AbstractTarget,
        proposal: FittedProposal | None = None,
    ) -> BoundValue:
        """Mean of log p(x, z) - log (1/L) Σ q(z|ε_l)."""
        del proposal
        _checks.positive_int("num_draws", self.num_draws)
        _checks.positive_int("num_mixing", self.num_mixing)
        draw_key, mixing_key = jax.random.split(key)
        draws = _sample(draw_key, family, self.num_draws)
        log_p = log_density_at(target, draws.z)
        if isinstance(family, SemiImplicit):
            mixing = jax.vmap(family.mixing.sample)(jax.random.split(mixing_key, self.num_mixing))
            log_q = _mean_log_prob(family, draws.z, mixing)
        else:
            log_q = jax.vmap(_need_known(family).log_prob)(draws.z)
        return _value("ELBO, paper's estimator", "upper", log_p - log_q)


def evaluate(
    key: Key,
    family: AbstractFamily,
    target: AbstractTarget,
    num_draws: int,
    num_mixing: int,
    proposal: FittedProposal | None = None,
) -> Evaluated:
    """Draw z ~ q and estimate log q(z) from both sides.

    Args:
        key: random key.
        family: without context.
        target: with a single site.
        num_draws: S.
        num_mixing: L, proposals per z, independent between z.
        proposal: for q(ε|z), by default q(ε).
    """
    _checks.positive_int("num_draws", num_draws)
    _checks.positive_int("num_mixing", num_mixing)
    if family.context_dim:
        raise ValueError("expected a family without context: bounds of amortised families need data")
    proposal = FittedProposal(FromMixing(), ()) if proposal is None else proposal
    return _evaluate(key, family, target, num_draws, num_mixing, proposal)


def bracket(evaluated: Evaluated) -> tuple[BoundValue, BoundValue]:
    """ELBO from below and from above, from the same draws."""
    lower = _value("ELBO", "lower", evaluated.log_p - evaluated.log_q_high)
    upper = _value("ELBO", "upper", evaluated.log_p - evaluated.log_q_low)
    return lower, upper


@eqx.filter_jit
def _evaluate(key: Key, family, target, num_draws: int, num_mixing: int, proposal) -> Evaluated:
    draw_key, mixing_key = jax.random.split(key)
    draws = _sample(draw_key, family, num_draws)
    log_p = log_density_at(target, draws.z)
    if not isinstance(family, SemiImplicit):
        log_q = jax.vmap(_need_known(family).log_prob)(draws.z)
        return Evaluated(draws.z, log_p, log_q, log_q)

    def one(args):
        key, draw = args
        return log_marginal_sides(key, family, draw, num_mixing, proposal)

    keys = jax.random.split(mixing_key, num_draws)
    high, low = jax.lax.map(one, (keys, draws), batch_size=max(1, 65_536 // num_mixing))
    return Evaluated(draws.z, log_p, high, low)


def log_marginal_sides(
    key: Key, family: SemiImplicit, draw: Draw, num_mixing: int, proposal: FittedProposal
) -> tuple[Array, Array]:
    """Estimates of log q(z) that are too high and too low in expectation, for one (z, ε).

    With w(ε) = q(z|ε) q(ε) / m(ε|z) and ε_l ~ m: log of the mean of w over ε_1..L and the generating ε (high);
    log of the mean over ε_1..L alone (low).
    """
    fresh, own = importance_weights(key, family, draw, num_mixing, proposal)[1:]
    low = jax.nn.logsumexp(fresh) - jnp.log(num_mixing)
    high = jnp.logaddexp(jax.nn.logsumexp(fresh), own) - jnp.log(num_mixing + 1)
    return high, low


def importance_weights(
    key: Key, family: SemiImplicit, draw: Draw, num_mixing: int, proposal: FittedProposal
) -> tuple[Float[Array, "L E"], Float[Array, "L"], Float[Array, ""]]:
    """Proposals, their log weights, and the log weight of the generating ε."""
    at = proposal.at(family, draw.z, None)
    density = family.reverse_log_density(draw.z, draw.eps)
    weigh = lambda eps: density(eps) - at.log_prob(eps)  # noqa: E731
    eps = at.sample(key, num_mixing)
    return eps, jax.vmap(weigh)(eps), weigh(draw.eps)


def _sample(key: Key, family: AbstractFamily, num: int) -> Draw:
    return jax.vmap(lambda k: family.sample(k))(jax.random.split(key, num))


@eqx.filter_jit
def _mean_log_prob(family: SemiImplicit, z: Array, mixing: Array) -> Array:
    def one(z):
        return jax.nn.logsumexp(jax.vmap(family.conditional.log_prob_of(z))(mixing))

    return jax.lax.map(one, z, batch_size=8) - jnp.log(mixing.shape[0])


def _need_known(family: AbstractFamily) -> AbstractExplicit:
    if isinstance(family, AbstractExplicit):
        return family
    raise TypeError(f"expected a family with a density or a SemiImplicit, got {type(family).__name__}")


def _value(name: str, side: Side, terms: Float[Array, "S"]) -> BoundValue:
    number = terms.shape[0]
    stderr = jnp.std(terms) / jnp.sqrt(max(number - 1, 1))
    return BoundValue(name, side, float(jnp.mean(terms)), float(stderr), number)
