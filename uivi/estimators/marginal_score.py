"""The score ∇_z log q(z) from weighted reverse draws: written once, for every method."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi._types import Context, Latent, ReverseDraws
from uivi.families.semi_implicit import SemiImplicit


def score(family: SemiImplicit, z: Latent, reverse: ReverseDraws, context: Context = None) -> Latent:
    """∇_z log q(z) ≈ Σ_m w_m ∇_z log q(z|ε′_m) (Titsias & Ruiz 2019, eq. 8).

    Args:
        family: the semi-implicit family.
        z: where, shape (D,).
        reverse: weighted draws of q(ε|z).
        context: of an amortised family.

    Returns:
        The estimate, shape (D,).
    """
    return family.conditional.mean_score(z, reverse.eps, jnp.exp(reverse.log_weights), context)


def scores(
    family: SemiImplicit,
    z: Float[Array, "N D"],
    reverse: ReverseDraws,
    contexts: Float[Array, "N C"] | None,
) -> Float[Array, "N D"]:
    """`score` of N draws."""
    return jax.vmap(lambda z, r, c: score(family, z, r, c))(z, reverse, contexts)
