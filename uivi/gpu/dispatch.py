"""When `HMC` runs on a fused GPU kernel, and on which one. No other module decides this.

`is_chosen` goes through these conditions in order. The kernel runs if all hold:

1. `HMC.is_fused` is not False. With None, an unmet condition below means plain HMC; with True, it is an error.
2. The family is a `SemiImplicit` with a `Gaussian` conditional and `StandardNormal` noise.
3. The network has exactly two hidden ReLU layers, of one width, without a skip connection. A context is fine:
   it is folded into the first bias.
4. The network is small enough, with H units a layer, E noise dimensions and D latent dimensions. There are
   two kernels, and the first one that takes the family runs:

   - `fused_moves`, if D < 4 H (the conditional is not collapsed), H <= 256, E and D <= 64 (16 if H > 128);
   - `collapsed_moves`, for any D, if H <= 256 and E <= 128.

5. The weights are float32.
6. The process has a Hopper GPU (H100, H200), Triton and jax-triton: `pip install 'uivi[gpu]'`.

`Chains` then turns the family into the arrays that the chosen kernel takes.
"""

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


def is_chosen(family: SemiImplicit, *, wanted: bool | None) -> bool:
    """Whether chains of this family run on a fused kernel.

    Args:
        family: the family whose reverse conditional the chains explore.
        wanted: `HMC.is_fused`. None uses a kernel wherever one can run, True insists on one, False forbids it.

    Raises:
        ValueError: if `wanted` is True and no kernel can run here. The message has the reason.
    """
    if wanted is False:
        return False
    reason = _obstacle(family)
    if reason and wanted:
        raise ValueError(
            f"expected a family that a fused kernel can run, but {reason}: set is_fused=None to fall back to "
            "plain HMC"
        )
    return not reason


def _obstacle(family: SemiImplicit) -> str:
    """Returns why no kernel can run chains of this family here, or an empty string if one can."""
    conditional = family.conditional
    if not isinstance(conditional, Gaussian) or not isinstance(family.mixing, StandardNormal):
        return "the family is not a Gaussian conditional with standard normal noise"
    net = conditional.net
    if len(net.layers) != 3 or net.skip is not None or net.activation is not jax.nn.relu:
        return "its network does not have exactly two hidden ReLU layers, without a skip connection"
    rows, columns = net.layers[1].weight.shape
    if rows != columns:
        return f"its hidden layers have different widths, {columns} and {rows}"
    if _takes_collapsed(conditional) and (misfit := collapsed_misfit(net.noise_dim, _width(conditional))):
        return f"its network is too large ({misfit})"
    if net.layers[0].weight.dtype != jnp.float32:
        return f"its weights are {net.layers[0].weight.dtype}, not float32"
    return "" if is_available() else "the kernel needs a Hopper GPU and pip install 'uivi[gpu]'"


def _takes_collapsed(conditional: Gaussian) -> bool:
    """Whether chains take `collapsed_moves`: z is large, or the network is too large for `fused_moves`."""
    net = conditional.net
    return conditional.is_collapsed or bool(misfit(net.noise_dim, net.out_dim, _width(conditional)))


def _width(conditional: Gaussian) -> int:
    return conditional.net.layers[1].weight.shape[0]


class Chains(eqx.Module):
    """N chains of one family, each at its start, and the density that each explores.

    Attributes:
        draws: the pairs (z, ε) of the chains; a chain explores q(ε|z) from its ε.
        first_bias: bias of the first layer, with the context folded in.
        features: last hidden layer at each start.
        conditional: q(z|ε).
    """

    draws: Draw
    first_bias: Float[Array, "N H"]
    features: Float[Array, "N H"]
    conditional: Gaussian

    @classmethod
    def create(cls, family: SemiImplicit, draws: Draw, contexts: Array | None) -> "Chains":
        """Computes once what does not change along a chain."""
        conditional = family.conditional
        assert isinstance(conditional, Gaussian)

        def one(eps, context):
            net = conditional.net.bind(context)
            return net.layers[0].bias, net.features(eps)

        return cls(draws, *jax.vmap(one)(draws.eps, contexts), conditional)

    def move(
        self,
        *,
        momenta: Float[Array, "N T E"],
        uniforms: Float[Array, "N T"],
        step: Scalar,
        num_leapfrog: int,
        adaptation: Adaptation | None,
    ) -> Moves:
        """Runs T moves of all chains in one launch.

        Args:
            momenta: standard normal draws.
            uniforms: uniform draws on [0, 1).
            step: step size of the first move.
            num_leapfrog: leapfrog steps in a move.
            adaptation: how the step size changes after the first moves, or None.
        """
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
        """Returns the inputs of `fused_moves`, which evaluates all outputs of the network."""
        last = self.conditional.net.layers[-1]
        centre = self.draws.z - last.bias[None]
        precision = 1 / self.conditional.scale() ** 2
        return MoveInputs(**common, w3=last.weight, centre=centre, precision=precision)

    def _collapsed(self, common: dict[str, Array]) -> CollapsedInputs:
        """Returns the inputs of `collapsed_moves`, which sees z through a quadratic form in the features."""

        def one(z, features):
            density = self.conditional.collapsed(z, features)
            return (density.origin, density.slope), density.gram

        # All chains have one Gram matrix: unbatched, it stays one array that the kernel reads for all of them.
        made, gram = jax.vmap(one, out_axes=(0, None))(self.draws.z, self.features)
        origin, slope = made
        return CollapsedInputs(**common, origin=origin, slope=slope, gram=gram)
