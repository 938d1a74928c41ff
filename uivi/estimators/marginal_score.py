"""Gradients of log q(z) from weighted reverse draws: the only place that forms them."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi._types import Context, Latent, ReverseDraws, Scalar
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


def surrogate(family: SemiImplicit, z: Latent, reverse: ReverseDraws, context: Context = None) -> Scalar:
    """Returns Σ_m w_m log q(z|ε′_m), whose gradient estimates that of log q(z), in z and in the parameters.

    By Fisher's identity ∇ log q(z) = E_{q(ε|z)}[∇ log q(z|ε)], for either gradient. The draws and weights are
    constants. The value is no estimate of log q(z).
    """
    weights, eps = jax.lax.stop_gradient((reverse.weights, reverse.eps))
    # A draw of weight zero may have an infinite slope: its place is taken by the draw of the largest weight.
    used = jnp.where((weights != 0)[:, None], eps, eps[jnp.argmax(weights)][None])
    return weights @ jax.vmap(family.conditional.log_prob_of(z, context))(used)
