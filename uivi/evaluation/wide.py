"""Draws that reach further than q, to see what q's own draws cannot show.

Importance weights p/q only know the places that q visits: a tail or an arm of the posterior that q never
reaches has no weight. So some draws of a look push noise of a larger scale through the same conditional.
Together with the draws of q they are draws of a mixture, and both log q and the mixture's log density come from
the same proposals of ε.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from uivi._random import normal
from uivi._types import Draw, Key, Noise, Scalar
from uivi.families.mixing import AbstractMixing
from uivi.families.semi_implicit import SemiImplicit

STRETCH = 1.5
"""How much further the noise of wide draws reaches: the norm of ε grows by about this, whatever its size."""


class Pooled(NamedTuple):
    """Draws of q and wide draws, as draws of one mixture r of both.

    Attributes:
        z: the draws.
        log_p: log p(x, z) of each.
        log_q: log q(z) of each, from above.
        log_r: log r(z) of each.
        is_wide: whether it is a wide draw.
    """

    z: Float[np.ndarray, "S D"]
    log_p: Float[np.ndarray, "S"]
    log_q: Float[np.ndarray, "S"]
    log_r: Float[np.ndarray, "S"]
    is_wide: Bool[np.ndarray, "S"]


def scale_of(mixing: AbstractMixing) -> float:
    """Returns the scale of the noise behind wide draws."""
    return 1 + STRETCH / math.sqrt(mixing.dim)


def sample_scaled(key: Key, family: SemiImplicit, scale: Scalar) -> Draw:
    """Draws ε with its normal noise multiplied by `scale`, then z given ε. A scale of 1 gives a draw of q."""
    eps_key, z_key = jax.random.split(key)
    eps = family.mixing.from_normal(scale * normal(eps_key, (family.noise_dim,)))
    return Draw(family.conditional.sample(z_key, eps), eps)


def log_ratio(mixing: AbstractMixing, eps: Noise, share: float) -> Scalar:
    """Returns log of r(ε) / q(ε), with r the mixture of q(ε) and, with weight `share`, the wide noise."""
    scale = scale_of(mixing)
    # The map from normal noise to ε is the same for both, so its Jacobian cancels.
    square = jnp.sum(mixing.to_normal(eps) ** 2)
    wide = 0.5 * (1 - scale**-2) * square - mixing.dim * math.log(scale)
    return jnp.logaddexp(math.log1p(-share), math.log(share) + wide)
