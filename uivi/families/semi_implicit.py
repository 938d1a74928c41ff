"""The semi-implicit family q(z) = ∫ q(z|ε) q(ε) dε."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from uivi import _checks
from uivi._types import Context, Draw, Key, Latent, Noise, Scalar
from uivi.families.base import AbstractFamily
from uivi.families.conditionals.base import AbstractConditional
from uivi.families.mixing import AbstractMixing


class SemiImplicit(AbstractFamily):
    """The family q(z) = ∫ q(z|ε) q(ε) dε (Titsias & Ruiz 2019, eqs. 2 and 3).

    It has no `log_prob(z)`, because the marginal is intractable. `uivi.evaluation` bounds it from both sides.
    """

    mixing: AbstractMixing
    conditional: AbstractConditional

    def __check_init__(self):
        parts = ("mixing", self.mixing, AbstractMixing), ("conditional", self.conditional, AbstractConditional)
        for name, value, kind in parts:
            if not isinstance(value, kind):
                raise TypeError(
                    f"expected `{name}` from uivi.families, such as StandardNormal(2) or Gaussian(net), "
                    f"got {type(value).__name__} {str(value)[:80]!r}"
                )
        noise_dim, mixing_dim = self.conditional.noise_dim, self.mixing.dim
        if noise_dim != mixing_dim:
            raise ValueError(
                f"expected `eps` of shape ({noise_dim},) for this conditional, but the mixing "
                f"distribution draws ({mixing_dim},): give the mixing dim={noise_dim} or the network "
                f"noise_dim={mixing_dim}"
            )
        _check_shapes(self)

    @property
    def dim(self) -> int:
        """Size of the latent vector z, D."""
        return self.conditional.dim

    @property
    def noise_dim(self) -> int:
        """Size of the noise ε, E."""
        return self.mixing.dim

    @property
    def context_dim(self) -> int:
        """Size of the context, C."""
        return self.conditional.context_dim

    def sample(self, key: Key, context: Context = None) -> Draw:
        """Draws ε ~ q(ε), then z = h(u; ε) (eqs. 2 and 4)."""
        eps_key, z_key = jax.random.split(key)
        eps = self.mixing.sample(eps_key)
        return Draw(self.conditional.sample(z_key, eps, context), eps)

    def log_joint(self, z: Latent, eps: Noise, context: Context = None) -> Scalar:
        """Returns log q(z|ε) + log q(ε)."""
        return self.conditional.log_prob(z, eps, context) + self.mixing.log_prob(eps)

    def reverse_log_density(self, z: Latent, near: Noise, context: Context = None) -> Callable[[Noise], Scalar]:
        """Returns the unnormalised log density of the reverse conditional, ε -> log q(z|ε) + log q(ε).

        It is meant for a chain that starts at `near`; see `log_prob_near` of the conditional.
        """
        log_prob = self.conditional.log_prob_near(z, near, context)
        return lambda eps: log_prob(eps) + self.mixing.log_prob(eps)


def _check_shapes(family: SemiImplicit) -> None:
    """Traces one draw and one density, so that a conditional with inconsistent shapes fails at once."""
    conditional = family.conditional
    context = None
    if conditional.context_dim:
        context = jax.ShapeDtypeStruct((conditional.context_dim,), jnp.result_type(float))
    key = jax.eval_shape(lambda: jax.random.key(0))
    name = type(conditional).__name__
    draw = jax.eval_shape(family.sample, key, context)
    advice = "make `sample` and `log_prob` of the conditional agree with its `dim`"
    _checks.shape(f"a draw z of {name}", draw.z, (conditional.dim,), advice)
    density = jax.eval_shape(family.log_joint, draw.z, draw.eps, context)
    _checks.shape(f"log_prob of {name}", density, (), advice)
