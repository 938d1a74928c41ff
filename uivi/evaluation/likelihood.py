"""Log p(x) of an amortised model, per site: several estimators, one code path and one budget for all methods.

With z_s ~ q(z|x) from ε_s, fresh ε_1..M ~ q(ε) and w_s = p(x, z_s) / q̂(z_s):

- paper: q̂ is the mean of q(z|ε_m) over the fresh ε alone, as in Table 2. The component that made z is
  missing, so rare z get enormous weights: no bound, it drifts upwards with S and downwards with M.
- lower: ε_s is among those averaged. By exchangeability the mean of w is unbiased for p(x), so its
  log is a lower bound in expectation (Jensen).
- student: importance sampling from an explicit Student-t for each image, fitted to q and then to the weights
  of earlier, independent draws; unbiased for p(x) too.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from uivi import _checks
from uivi._jax import seldom_jit
from uivi._types import Context, Key, Latent, Scalar
from uivi.evaluation.bounds import BoundValue, Side
from uivi.families.base import AbstractFamily
from uivi.families.explicit import AbstractExplicit
from uivi.families.semi_implicit import SemiImplicit
from uivi.targets.base import AbstractTarget

BLOCK = 500
"""Fresh ε at a time: bounds the memory, which is sites_at_once * S * BLOCK floats."""


class Terms(NamedTuple):
    """What the estimators from draws of q need, for one site.

    Attributes:
        log_joint: log p(x, z_s).
        own: log q(z_s|ε_s).
        fresh: log Σ_m q(z_s|ε_m) over each block of fresh ε.

    An explicit family has no ε: every q(z_s|ε) is q(z_s).
    """

    log_joint: Float[Array, "S"]
    own: Float[Array, "S"]
    fresh: Float[Array, "J S"]


class SiteValues(NamedTuple):
    """Estimates for each site, and their Monte Carlo variances (same fields, delta method)."""

    paper: np.ndarray
    lower: np.ndarray
    student: np.ndarray
    elbo_lower: np.ndarray
    elbo_upper: np.ndarray


SIDES: dict[str, tuple[str, Side]] = {
    "paper": ("log p(x), paper's estimator", "none"),
    "lower": ("log p(x), generating ε included", "lower"),
    "student": ("log p(x), Student-t importance sampling", "lower"),
    "elbo_lower": ("ELBO", "lower"),
    "elbo_upper": ("ELBO", "upper"),
}


class StudentT(eqx.Module):
    """How the explicit proposal is fitted and used.

    Args:
        degrees: of freedom.
        rounds: of S draws each, whose weighted moments refine those of q.
        times: the estimate itself takes `times` * S further draws.
    """

    degrees: float = eqx.field(static=True, default=8.0)
    rounds: int = eqx.field(static=True, default=3)
    times: int = eqx.field(static=True, default=10)


class Likelihood(eqx.Module):
    """Evaluates log p(x) and the ELBO of an amortised model on many sites.

    Args:
        num_draws: S, for every estimator; the Student-t takes more, see there.
        num_mixing: M.
        sites_at_once: how many sites are evaluated side by side.
        student: the explicit proposal.
    """

    num_draws: int = eqx.field(static=True, default=1_000)
    num_mixing: int = eqx.field(static=True, default=10_000)
    sites_at_once: int = eqx.field(static=True, default=20)
    student: StudentT = eqx.field(default_factory=StudentT)

    def __check_init__(self):
        for name in ("num_draws", "num_mixing", "sites_at_once"):
            _checks.positive_int(name, getattr(self, name))

    def __call__(
        self, key: Key, family: AbstractFamily, target: AbstractTarget, sites: Float[Array, "N P"]
    ) -> dict[str, BoundValue]:
        """Averages over the sites; the standard error is that of the Monte Carlo, for these sites.

        It leaves out that the draws of a site share their fresh ε, which matters where M is not much larger
        than S. For the paper's estimator it means little: the error of that is a bias.
        """
        return self.averages(*self.per_site(key, family, target, sites))

    def averages(self, values: SiteValues, variances: SiteValues) -> dict[str, BoundValue]:
        """Over the sites, of what `per_site` gave."""
        made = {}
        for name, (text, side) in SIDES.items():
            mean, total = getattr(values, name), getattr(variances, name)
            stderr = float(np.sqrt(total.sum()) / total.size)
            made[name] = BoundValue(text, side, float(mean.mean()), stderr, self.num_draws * mean.size)
        return made

    def per_site(
        self, key: Key, family: AbstractFamily, target: AbstractTarget, sites: Float[Array, "N P"]
    ) -> tuple[SiteValues, SiteValues]:
        """Estimates and their variances for every site."""
        number = sites.shape[0]
        at_once = min(self.sites_at_once, number)
        keys = jax.random.split(key, number)
        # One program whatever the number of sites: the last ones are filled up with the first.
        batches = np.resize(np.arange(number), (-(-number // at_once), at_once))
        made = [_evaluate(self, keys[batch], family, target, sites[batch]) for batch in batches]
        join = lambda *parts: np.concatenate([_double(part) for part in parts])[:number]
        values, variances = jax.tree.map(join, *made)
        return SiteValues(*values), SiteValues(*variances)


@seldom_jit
def _evaluate(settings: Likelihood, keys: Array, family, target, sites):
    def one(key: Key, site: Array):
        terms_key, student_key = jax.random.split(key)
        log_joint = lambda z: target.log_joint(z, site)  # noqa: E731
        budget = (settings.num_draws, settings.num_mixing)
        terms, draws = evaluate_terms(terms_key, family, log_joint, target.context(site), *budget)
        low, high = log_marginals(terms, settings.num_mixing)
        student = _student(student_key, settings, log_joint, draws)
        parts = (
            _log_mean(terms.log_joint - low),
            _log_mean(terms.log_joint - high),
            _log_mean(student),
            _mean(terms.log_joint - high),
            _mean(terms.log_joint - low),
        )
        return tuple(zip(*parts, strict=True))

    return jax.vmap(one)(keys, sites)


def evaluate_terms(
    key: Key,
    family: AbstractFamily,
    log_joint: Callable[[Latent], Scalar],
    context: Context,
    num_draws: int,
    num_mixing: int,
) -> tuple[Terms, Float[Array, "S D"]]:
    """Draw from q at one site and evaluate the parts of all estimators; also the draws.

    The fresh ε are shared by the draws.
    """
    draw_key, mixing_key = jax.random.split(key)
    draws = jax.vmap(lambda k: family.sample(k, context))(jax.random.split(draw_key, num_draws))
    log_p = jax.vmap(log_joint)(draws.z)
    if isinstance(family, AbstractExplicit):
        own = jax.vmap(lambda z: family.log_prob(z, context))(draws.z)
        return Terms(log_p, own, own[None] + jnp.log(num_mixing)), draws.z
    assert isinstance(family, SemiImplicit)
    conditional = family.conditional
    own = jax.vmap(lambda d: conditional.log_prob(d.z, d.eps, context))(draws)
    block = min(BLOCK, num_mixing)

    def add(_, numbered):
        number, key = numbered
        eps = jax.vmap(family.mixing.sample)(jax.random.split(key, block))
        used = number * block + jnp.arange(block) < num_mixing
        values = jnp.where(used[:, None], conditional.log_prob_pairs(draws.z, eps, context), -jnp.inf)
        return None, jax.nn.logsumexp(values, 0)

    blocks = -(-num_mixing // block)
    numbered = (jnp.arange(blocks), jax.random.split(mixing_key, blocks))
    fresh = jax.lax.scan(add, None, numbered)[1]
    return Terms(log_p, own, fresh), draws.z


def log_marginals(terms: Terms, num_mixing: int) -> tuple[Float[Array, "S"], Float[Array, "S"]]:
    """Log q̂(z_s) without and with the generating ε: too low and too high in expectation."""
    fresh = jax.nn.logsumexp(terms.fresh, 0)
    high = jnp.logaddexp(fresh, terms.own) - jnp.log1p(num_mixing)
    return fresh - jnp.log(num_mixing), high


class _Student(NamedTuple):
    loc: Float[Array, "D"]
    factor: Float[Array, "D D"]
    degrees: float

    def sample(self, key: Key, num: int) -> Float[Array, "S D"]:
        normal_key, gamma_key = jax.random.split(key)
        u = jax.random.normal(normal_key, (num, self.loc.shape[0]))
        scale = jax.random.gamma(gamma_key, self.degrees / 2, (num, 1)) / (self.degrees / 2)
        return self.loc[None] + (u * jax.lax.rsqrt(scale)) @ self.factor.T

    def log_prob(self, z: Latent) -> Scalar:
        dim, v = z.shape[0], self.degrees
        u = solve_triangular(self.factor, z - self.loc, lower=True)
        constant = jax.lax.lgamma(0.5 * (v + dim)) - jax.lax.lgamma(0.5 * v) - 0.5 * dim * np.log(v * np.pi)
        log_det = jnp.sum(jnp.log(jnp.diagonal(self.factor)))
        return constant.astype(z.dtype) - log_det - 0.5 * (v + dim) * jnp.log1p(jnp.sum(u**2) / v)


def _student(
    key: Key, settings: Likelihood, log_joint: Callable[[Latent], Scalar], draws: Float[Array, "S D"]
) -> Float[Array, "T"]:
    """Log weights of fresh draws from a Student-t that was fitted to draws of q, then to weighted ones."""
    degrees, dim = settings.student.degrees, draws.shape[1]

    def weigh(proposal: _Student, key: Key):
        z = proposal.sample(key, settings.num_draws)
        return z, jax.vmap(log_joint)(z) - jax.vmap(proposal.log_prob)(z)

    def refine(moments: tuple[Array, Array], key: Key):
        z, log_weights = weigh(_fitted(*moments, degrees), key)
        weights = jax.nn.softmax(log_weights)
        effective = 1 / jnp.sum(weights**2)
        trust = effective / (effective + 2 * dim)
        return jax.tree.map(lambda old, new: old + trust * (new - old), moments, _moments(z, weights)), None

    moments = _moments(draws, jnp.full(draws.shape[:1], 1.0 / draws.shape[0]))
    keys = jax.random.split(key, settings.student.rounds + 1)
    moments, _ = jax.lax.scan(refine, moments, keys[:-1])
    proposal = _fitted(moments[0], moments[1], degrees)
    final_keys = jax.random.split(keys[-1], settings.student.times)
    return jnp.ravel(jax.lax.map(lambda k: weigh(proposal, k)[1], final_keys))


def _moments(z: Float[Array, "S D"], weights: Float[Array, "S"]) -> tuple[Array, Array]:
    loc = weights @ z
    centred = z - loc[None]
    return loc, (weights[:, None] * centred).T @ centred


def _fitted(loc: Array, spread: Array, degrees: float) -> _Student:
    floor = 1e-6 * jnp.trace(spread) / loc.shape[0] + 1e-8
    return _Student(loc, jnp.linalg.cholesky(spread + floor * jnp.eye(loc.shape[0])), degrees)


def _log_mean(log_weights: Float[Array, "S"]) -> tuple[Scalar, Scalar]:
    """Log of the mean weight, and the variance of that by the delta method."""
    number = log_weights.shape[0]
    value = jax.nn.logsumexp(log_weights) - jnp.log(number)
    relative = jnp.exp(log_weights - value)
    return value, jnp.var(relative) / number


def _mean(terms: Float[Array, "S"]) -> tuple[Scalar, Scalar]:
    return jnp.mean(terms), jnp.var(terms) / terms.shape[0]


def _double(values: Array) -> np.ndarray:
    return np.asarray(values, np.float64)
