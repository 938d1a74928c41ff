"""The score ∇_z log q(z) from weighted reverse draws: the only place that forms it."""

import jax
from jaxtyping import Array, Float

from uivi._types import Context, Latent, ReverseDraws
from uivi.families.semi_implicit import SemiImplicit


def score(family: SemiImplicit, z: Latent, reverse: ReverseDraws, context: Context = None) -> Latent:
    """Estimates ∇_z log q(z) by Σ_m w_m ∇_z log q(z|ε′_m) (Titsias & Ruiz 2019, eq. 8).

    Args:
        family: the semi-implicit family.
        z: the point, shape (D,).
        reverse: weighted draws of q(ε|z).
        context: context of an amortised family.

    Returns:
        The estimated score, shape (D,).
    """
    return family.conditional.mean_score(z, reverse.eps, reverse.weights, context)


def scores(
    family: SemiImplicit,
    z: Float[Array, "N D"],
    reverse: ReverseDraws,
    contexts: Float[Array, "N C"] | None,
) -> Float[Array, "N D"]:
    """Estimates the score at N draws."""
    return jax.vmap(lambda z, r, c: score(family, z, r, c))(z, reverse, contexts)
