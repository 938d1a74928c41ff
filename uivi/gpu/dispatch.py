"""Which reverse chains a fused kernel can run, and how their conditional is handed to it."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi._types import Draw, Scalar
from uivi.families.conditionals.location_scale import Gaussian
from uivi.families.mixing import StandardNormal
from uivi.families.semi_implicit import SemiImplicit
from uivi.gpu.collapsed import collapsed_misfit, collapsed_moves
from uivi.gpu.launch import is_available
from uivi.gpu.moves import fused_moves, misfit
from uivi.gpu.types import Adaptation, CollapsedInputs, MoveInputs, Moves


def is_chosen(wanted: bool | None, family: SemiImplicit) -> bool:  # noqa: FBT001
    """Whether to use a kernel: where it can be used, unless it is forced on (an error if not) or off."""
    if wanted is False:
        return False
    reason = _obstacle(family)
    if reason and wanted:
        raise ValueError(f"expected chains that the fused kernel can run, but {reason}: use is_fused=None")
    return not reason


def _obstacle(family: SemiImplicit) -> str:
    """Why no kernel can run chains of this family here; empty if it can."""
    conditional = family.conditional
    if not isinstance(conditional, Gaussian) or not isinstance(family.mixing, StandardNormal):
        return "the family is not a Gaussian conditional of standard normal noise"
    net = conditional.net
    if len(net.layers) != 3 or net.skip is not None or net.activation is not jax.nn.relu:
        return "its network has not two hidden ReLU layers without a skip connection"
    if _takes_collapsed(conditional) and (misfit := collapsed_misfit(net.noise_dim, _width(conditional))):
        return misfit
    if net.layers[0].weight.dtype != jnp.float32:
        return f"its weights are {net.layers[0].weight.dtype}, not float32"
    return "" if is_available() else "the kernel needs a Hopper GPU and the packages of uivi[gpu]"


def _takes_collapsed(conditional: Gaussian) -> bool:
    """Whether chains take the kernel of collapsed densities: z is large, or too large for the other kernel."""
    net = conditional.net
    return conditional.is_collapsed or bool(misfit(net.noise_dim, net.out_dim, _width(conditional)))


def _width(conditional: Gaussian) -> int:
    return conditional.net.layers[1].weight.shape[0]


class Chains(eqx.Module):
    """N chains of one family, each at its start, and the density that each explores."""

    draws: Draw
    first_bias: Float[Array, "N H"]
    features: Float[Array, "N H"]
    conditional: Gaussian

    @classmethod
    def create(cls, family: SemiImplicit, draws: Draw, contexts: Array | None) -> "Chains":
        """Compute once what does not change along a chain."""
        conditional = family.conditional
        assert isinstance(conditional, Gaussian)

        def one(eps, context):
            net = conditional.net.bind(context)
            return net.layers[0].bias, net.features(eps)

        return cls(draws, *jax.vmap(one)(draws.eps, contexts), conditional)

    def move(
        self,
        momenta: Float[Array, "N T E"],
        uniforms: Float[Array, "N T"],
        step: Scalar,
        num_leapfrog: int,
        adaptation: Adaptation | None,
    ) -> Moves:
        """T moves."""
        first, second, _ = self.conditional.net.layers
        common = {
            "eps": self.draws.eps,
            "momenta": jnp.swapaxes(momenta, 0, 1),
            "uniforms": uniforms.T,
            "step": step.astype(self.draws.eps.dtype),
            "first_bias": self.first_bias,
            "w1": first.weight,
            "w2": second.weight,
            "b2": second.bias,
        }
        if _takes_collapsed(self.conditional):
            return collapsed_moves(self._collapsed(common), num_leapfrog, adaptation)
        return fused_moves(self._whole(common), num_leapfrog, adaptation)

    def _whole(self, common: dict[str, Array]) -> MoveInputs:
        last = self.conditional.net.layers[-1]
        centre = self.draws.z - last.bias[None]
        precision = 1 / self.conditional.scale() ** 2
        return MoveInputs(**common, w3=last.weight, centre=centre, precision=precision)

    def _collapsed(self, common: dict[str, Array]) -> CollapsedInputs:
        def one(z, features):
            density = self.conditional.collapsed(z, features)
            return (density.origin, density.slope), density.gram

        # The Gram matrix is that of all chains.
        made, gram = jax.vmap(one, out_axes=(0, None))(self.draws.z, self.features)
        origin, slope = made
        return CollapsedInputs(**common, origin=origin, slope=slope, gram=gram)
