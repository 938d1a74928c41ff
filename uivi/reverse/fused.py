"""Which reverse chains the fused kernel can run, and how their conditional is handed to it."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi import kernels
from uivi._types import Draw, Scalar
from uivi.families.conditionals.location_scale import Gaussian
from uivi.families.mixing import StandardNormal
from uivi.families.semi_implicit import SemiImplicit


def is_chosen(wanted: bool | None, family: SemiImplicit) -> bool:  # noqa: FBT001
    """Whether to use the kernel: where it can be used, unless it is forced on (an error if not) or off."""
    if wanted is False:
        return False
    reason = _obstacle(family)
    if reason and wanted:
        raise ValueError(f"expected chains that the fused kernel can run, but {reason}: use is_fused=None")
    return not reason


def _obstacle(family: SemiImplicit) -> str:
    """Why the kernel cannot run chains of this family here; empty if it can."""
    conditional = family.conditional
    if not isinstance(conditional, Gaussian) or not isinstance(family.mixing, StandardNormal):
        return "the family is not a Gaussian conditional of standard normal noise"
    net = conditional.net
    if len(net.layers) != 3 or net.skip is not None or net.activation is not jax.nn.relu:
        return "its network has not two hidden ReLU layers without a skip connection"
    misfit = kernels.misfit(net.noise_dim, net.out_dim, net.layers[1].weight.shape[0])
    if misfit:
        return misfit
    if net.layers[0].weight.dtype != jnp.float32:
        return f"its weights are {net.layers[0].weight.dtype}, not float32"
    return "" if kernels.is_available() else "the kernel needs a Hopper GPU and the packages of uivi[gpu]"


class Chains(eqx.Module):
    """N chains of one family, each at its start, and the density that each explores."""

    eps: Float[Array, "N E"]
    first_bias: Float[Array, "N H"]
    centre: Float[Array, "N D"]
    conditional: Gaussian

    @classmethod
    def create(cls, family: SemiImplicit, draws: Draw, contexts: Array | None) -> "Chains":
        """Compute once what does not change along a chain."""
        conditional = family.conditional
        assert isinstance(conditional, Gaussian)
        biases = jax.vmap(lambda c: conditional.net.bind(c).layers[0].bias, axis_size=draws.z.shape[0])
        centre = draws.z - conditional.net.layers[-1].bias[None]
        return cls(draws.eps, biases(contexts), centre, conditional)

    def move(
        self,
        momenta: Float[Array, "N T E"],
        uniforms: Float[Array, "N T"],
        step: Scalar,
        num_leapfrog: int,
        adaptation: kernels.Adaptation | None,
    ) -> kernels.Moves:
        """T moves."""
        first, second, last = self.conditional.net.layers
        inputs = kernels.MoveInputs(
            eps=self.eps,
            momenta=jnp.swapaxes(momenta, 0, 1),
            uniforms=uniforms.T,
            step=step.astype(self.eps.dtype),
            first_bias=self.first_bias,
            w1=first.weight,
            w2=second.weight,
            b2=second.bias,
            w3=last.weight,
            centre=self.centre,
            precision=1 / self.conditional.scale() ** 2,
        )
        return kernels.fused_moves(inputs, num_leapfrog, adaptation)
