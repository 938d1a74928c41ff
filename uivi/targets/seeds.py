"""A binomial regression with random effects: how many seeds sprouted on each plate (Crowder, 1978)."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi._types import Latent, Scalar
from uivi.targets.base import AbstractGlobalTarget
from uivi.targets.priors import standard_normal_log_prob

SPROUTED = (10, 23, 23, 26, 17, 5, 53, 55, 32, 46, 10, 8, 10, 8, 23, 0, 3, 22, 15, 32, 3)
SOWN = (39, 62, 81, 51, 39, 6, 74, 72, 51, 79, 13, 16, 30, 28, 45, 4, 12, 41, 30, 51, 7)
SEED_TYPES = (0,) * 11 + (1,) * 10
EXTRACTS = (0,) * 5 + (1,) * 6 + (0,) * 5 + (1,) * 5
"""The 21 plates, as BUGS has them."""

PRIOR_SCALE = 10.0
GAMMA = 0.01
"""Shape and rate of the precision's prior."""


class Seeds(AbstractGlobalTarget):
    """The posterior of z = (a₀, a₁, a₂, a₁₂, log τ, b₁, …, b_N), of 26 variables for the 21 plates of BUGS.

    r_i ~ Binomial(n_i, p_i) with logit p_i = a₀ + a₁ x_i + a₂ w_i + a₁₂ x_i w_i + b_i, for the seed type x and
    the root extract w. The priors are a ~ N(0, 10²), b ~ N(0, 1/τ) and τ ~ Gamma(0.01, 0.01). The density is
    that of log τ, so it has the Jacobian τ, and the binomial coefficients are included.

    Attributes:
        sprouted: r, for each plate.
        sown: n.
        seed_types: x, 0 or 1.
        extracts: w, 0 or 1.
    """

    sprouted: tuple[int, ...] = eqx.field(static=True, default=SPROUTED)
    sown: tuple[int, ...] = eqx.field(static=True, default=SOWN)
    seed_types: tuple[int, ...] = eqx.field(static=True, default=SEED_TYPES)
    extracts: tuple[int, ...] = eqx.field(static=True, default=EXTRACTS)

    def __check_init__(self):
        lengths = [len(x) for x in (self.sprouted, self.sown, self.seed_types, self.extracts)]
        if len(set(lengths)) != 1 or not lengths[0]:
            raise ValueError(
                f"expected `sprouted`, `sown`, `seed_types` and `extracts` with one number per plate, got "
                f"{lengths} numbers"
            )
        for i, (r, n) in enumerate(zip(self.sprouted, self.sown, strict=True)):
            if not 0 <= r <= n:
                raise ValueError(f"expected 0 to {n} seeds sprouted on plate {i} (those sown), got {r}")

    @property
    def dim(self) -> int:
        """Number of plates, and 5."""
        return 5 + len(self.sown)

    def log_joint(self, z: Latent, site: tuple = ()) -> Scalar:
        """Returns log p(r, z), normalised in r and z."""
        del site
        numbers = lambda values: jnp.asarray(values, z.dtype)
        weights, log_precision, effects = z[:4], z[4], z[5:]
        types, extracts = numbers(self.seed_types), numbers(self.extracts)
        features = jnp.stack([jnp.ones_like(types), types, extracts, types * extracts], 1)
        logits = features @ weights + effects
        log_likelihood = jnp.sum(numbers(self.sprouted) * logits - numbers(self.sown) * jax.nn.softplus(logits))
        return log_likelihood + self._log_coefficients() + _log_prior(weights, log_precision, effects)

    def _log_coefficients(self) -> float:
        return sum(math.log(math.comb(n, r)) for n, r in zip(self.sown, self.sprouted, strict=True))


def _log_prior(weights: Float[Array, "4"], log_precision: Scalar, effects: Float[Array, "N"]) -> Scalar:
    on_weights = standard_normal_log_prob(weights / PRIOR_SCALE) - 4 * math.log(PRIOR_SCALE)
    constant = GAMMA * math.log(GAMMA) - math.lgamma(GAMMA)
    on_precision = GAMMA * log_precision - GAMMA * jnp.exp(log_precision) + constant
    standardised = effects * jnp.exp(0.5 * log_precision)
    on_effects = standard_normal_log_prob(standardised) + 0.5 * effects.shape[0] * log_precision
    return on_weights + on_precision + on_effects
