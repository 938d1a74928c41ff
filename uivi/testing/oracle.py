"""A linear-Gaussian family and a Gaussian target in two dimensions: every quantity has a closed form."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from uivi._types import Latent, Scalar
from uivi.families.linear_gaussian import LinearGaussian
from uivi.families.mixing import StandardNormal
from uivi.families.semi_implicit import SemiImplicit
from uivi.targets.density import Density
from uivi.testing.sampling import flat

TARGET_MEAN = np.array([0.7, -1.1])
"""Mean of the target of `make_oracle`."""
TARGET_COVARIANCE = np.array([[1.3, 0.5], [0.5, 0.6]])
"""Its covariance."""
LOG_CONSTANT = 1.7
"""The target is not normalised."""


class Oracle(NamedTuple):
    """A linear-Gaussian family and its target. It is the pair (family, target) that estimators take.

    `conditional` has the exact marginal q(z), its score and the reverse conditional q(ε|z).
    """

    family: SemiImplicit
    target: Density

    @property
    def conditional(self) -> LinearGaussian:
        """The conditional of the family."""
        conditional = self.family.conditional
        if not isinstance(conditional, LinearGaussian):
            raise TypeError(f"expected a LinearGaussian conditional, got {type(conditional).__name__}")
        return conditional


def make_oracle(noise_dim: int = 2) -> Oracle:
    """Returns an oracle of two dimensions, with up to three of noise.

    Nothing in it is symmetric, so that signs, transposes and swapped axes show.
    """
    weight = jnp.array([[0.9, 0.4, -0.3], [-0.5, 0.7, 0.6]])[:, :noise_dim]
    conditional = LinearGaussian(weight, jnp.array([0.3, -0.2]), jnp.array([0.6, 0.9]))
    return Oracle(SemiImplicit(StandardNormal(noise_dim), conditional), Density(_log_density, 2))


def _log_density(z: Latent) -> Scalar:
    residual = z - jnp.asarray(TARGET_MEAN, z.dtype)
    precision = jnp.asarray(np.linalg.inv(TARGET_COVARIANCE), z.dtype)
    return LOG_CONSTANT - 0.5 * residual @ precision @ residual


def expected_log_density(mean: Float[Array, "D"], covariance: Float[Array, "D D"]) -> Scalar:
    """Returns E log p(x, z) of the oracle's target under N(mean, covariance)."""
    precision = jnp.linalg.inv(jnp.asarray(TARGET_COVARIANCE, mean.dtype))
    return _log_density(mean) - 0.5 * jnp.trace(precision @ covariance)


def negative_elbo(conditional: LinearGaussian) -> Scalar:
    """Returns the oracle's negative ELBO, with the entropy of the marginal."""
    mean, covariance = conditional.marginal()
    entropy = 0.5 * jnp.linalg.slogdet(2 * jnp.pi * jnp.e * covariance)[1]
    return -expected_log_density(mean, covariance) - entropy


def negative_conditional_elbo(conditional: LinearGaussian) -> Scalar:
    """Returns the same with H(z|ε) in place of H(z): what a reverse sampler that never moves minimises."""
    entropy = jnp.sum(jnp.log(conditional.scale)) + 0.5 * conditional.dim * jnp.log(2 * jnp.pi * jnp.e)
    return -expected_log_density(*conditional.marginal()) - entropy


def score_difference(conditional: LinearGaussian) -> tuple[Float[Array, "D D"], Float[Array, "D"]]:
    """Returns matrix and offset of s_p(z) - s_q(z), which is affine in z."""
    mean, covariance = conditional.marginal()
    precision, own = jnp.linalg.inv(jnp.asarray(TARGET_COVARIANCE)), jnp.linalg.inv(covariance)
    return own - precision, precision @ TARGET_MEAN - own @ mean


def fisher_divergence(conditional: LinearGaussian) -> Scalar:
    """Returns E |s_p(z) - s_q(z)|² under the oracle's q."""
    mean, covariance = conditional.marginal()
    matrix, offset = score_difference(conditional)
    middle = matrix @ mean + offset
    return jnp.trace(matrix @ covariance @ matrix.T) + middle @ middle


def exact_gradient(
    objective: Callable[[LinearGaussian], Scalar], conditional: LinearGaussian
) -> Float[Array, "P"]:
    """Returns the gradient of a closed-form objective in weight, bias and scale, in one vector."""
    return flat(jax.grad(objective)(conditional))
