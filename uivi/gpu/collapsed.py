"""All moves of HMC chains with a collapsed density in one GPU launch: the paper's logistic regression.

As in `moves`, an error of the force costs acceptance and never exactness, as long as it is a function of the
position. But here thousands of outputs depend on the features. Features with 11 bits make the force noise where
the density is sharp. A Gram matrix with 11 bits makes it depend on the origin, hence on the start of the chain.
So the forward passes and the product with the Gram matrix are accurate in every leapfrog step, with two float16
pieces per factor, and the energies come for free. Float16 is enough for the backward pass: its error is
relative.

A gradient needs eight matrices, 520 KB. That is too much for shared memory, so they come from registers, L1 and
L2, whose bandwidth sets the speed of the kernel.

A program runs eight chains, the fewest that the tensor cores take. Fewer chains take the same time.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi import _checks
from uivi.gpu.launch import (
    KernelCall,
    check_shapes,
    check_types,
    float16_pieces,
    moves_of_lane,
    outputs,
    shared_constants,
)
from uivi.gpu.types import Adaptation, CollapsedInputs, Moves

MOST = {"E": 128, "H": 256}
"""Largest sizes that a program's warps cover."""
ROWS = 8
"""Chains per program."""
TILE = 16
"""Rows and columns of a tile of weights. It must equal `STEP` of `triton_network`."""


class CollapsedTiling(NamedTuple):
    """How the work is divided. The moves do not depend on it beyond rounding.

    Attributes:
        num_warps: 8 or 16.
        held_first: number of steps of 16 columns of w1 that stay in registers.
        held_second: number of steps of 16 columns of w2 that stay in registers.
        cache: source of the other steps of w1 and w2: "" is L1, ".cg" is L2, which leaves L1 to other weights.
        cache_low: source of all low pieces.
    """

    num_warps: int = 8
    held_first: int = 0
    held_second: int = 0
    cache: str = ""
    cache_low: str = ".cg"


def collapsed_misfit(noise_dim: int, width: int) -> str:
    """Returns why `collapsed_moves` cannot run a network of these sizes, or an empty string if it can."""
    for name, size in (("H", width), ("E", noise_dim)):
        if size > MOST[name]:
            return f"expected {name} of at most {MOST[name]}, got {size}"
    return ""


def collapsed_moves(
    inputs: CollapsedInputs,
    num_leapfrog: int,
    adaptation: Adaptation | None = None,
    *,
    tiling: CollapsedTiling | None = None,
) -> Moves:
    """Computes `reference_moves` of one lane in one launch. It has no derivatives.

    It behaves like `fused_moves` under `jax.vmap`, for values beyond float16's range, and for adapted step
    sizes. Up to eight chains are a single program, which has no other to wait for.

    Args:
        inputs: arrays of one lane, float32.
        num_leapfrog: number of leapfrog steps per move.
        adaptation: how the step size changes after the first moves; None keeps it constant.
        tiling: how the work is divided.
    """
    _check(inputs, num_leapfrog)
    call = lambda lanes, adaptation: kernel_call(lanes, num_leapfrog, adaptation, tiling=tiling)
    return moves_of_lane(call, inputs, adaptation)


def kernel_call(
    lanes: CollapsedInputs,
    num_leapfrog: int,
    adaptation: Adaptation | None,
    *,
    tiling: CollapsedTiling | None = None,
) -> KernelCall:
    """Returns the launch for inputs with a leading lane axis."""
    num_lanes, _, num_chains, noise_dim = lanes.momenta.shape
    width = lanes.b2.shape[-1]
    tiling = tiling or CollapsedTiling()
    # Tiles of 16 units per warp.
    blocks = 1 if width <= TILE * tiling.num_warps else 2
    constants = shared_constants(lanes, num_leapfrog, adaptation) | {
        "ROWS": ROWS,
        "BLOCKS": blocks,
        "HELD_FIRST": min(tiling.held_first, -(-noise_dim // TILE)),
        "HELD_SECOND": min(tiling.held_second, -(-width // TILE)),
        "CACHE": tiling.cache,
        "CACHE_LOW": tiling.cache_low,
        "G": tiling.num_warps,
    }
    unscale = _unscale(lanes.gram)
    vectors = _vectors(lanes, unscale, tiling.num_warps * blocks)
    halves = _halves(lanes, unscale, tiling.num_warps, blocks)
    return KernelCall(
        arrays=(lanes.eps, lanes.momenta, lanes.uniforms, lanes.step, vectors, unscale, halves),
        out_shape=outputs(lanes, constants["ADAPTED"]),
        grid=(num_lanes * -(-num_chains // ROWS),),
        constants=constants,
        tiling=tiling,
        program=_program,
        # Weights go straight to registers: a software pipeline would stage them in shared memory.
        num_stages=1,
    )


def _program():
    """Imports the kernel, which needs Triton."""
    from uivi.gpu.triton_collapsed import collapsed_kernel

    return collapsed_kernel


def _unscale(gram: Float[Array, "L H H"]) -> Float[Array, "L"]:
    """Returns a power of two near the root of the largest element, so that gram / unscale² fits float16.

    A power of two: division by it changes the exponent only and loses no bits.
    """
    largest = jnp.max(jnp.abs(gram), (1, 2))
    exponent = jnp.ceil(0.5 * jnp.log2(jnp.maximum(largest, 1e-30)))
    return jnp.ldexp(jnp.ones_like(largest), exponent.astype(jnp.int32))


def _vectors(lanes: CollapsedInputs, unscale: Float[Array, "L"], num_tiles: int) -> Float[Array, "L P"]:
    """Returns first bias, second bias, origin and scaled slope, in the order in which `sums` reads them."""
    second = jnp.broadcast_to(lanes.b2[:, None], lanes.origin.shape)
    slope = lanes.slope / unscale[:, None, None]
    whole = jnp.stack([lanes.first_bias, second, lanes.origin, slope], 1)
    num_lanes, kinds, num_chains, width = whole.shape
    whole = jnp.pad(whole, ((0, 0), (0, 0), (0, -num_chains % ROWS), (0, TILE * num_tiles - width)))
    # Thread 4 g + t of a warp holds rows g and g + 8 and columns 2 t and 2 t + 1 of a tile of sums. The axis of
    # chains splits into (program, t, column of t), the axis of units into (tile, upper or lower half, g).
    parts = whole.reshape(num_lanes, kinds, -1, ROWS // 2, 2, num_tiles, 2, 8)
    return parts.transpose(0, 2, 1, 5, 7, 3, 6, 4).reshape(num_lanes, -1)


def _halves(
    lanes: CollapsedInputs, unscale: Float[Array, "L"], num_warps: int, blocks: int
) -> Float[Array, "L P"]:
    """Returns all float16 weights of each lane, in the order in which `collapsed_kernel` reads them."""
    gram = lanes.gram / (unscale**2)[:, None, None]
    high, low = zip(*map(float16_pieces, (lanes.w1, lanes.w2, gram)), strict=True)
    turned = lambda weight: jnp.swapaxes(weight, 1, 2)
    wide = num_warps * blocks
    parts = [_packed(weight, wide) for weight in (*high, turned(high[1]))]
    parts += [_packed(turned(high[0]), num_warps)] + [_packed(weight, wide) for weight in low]
    return jnp.concatenate(parts, 1).astype(jnp.float16)


def _packed(weight: Float[Array, "L M K"], num_tiles: int) -> Float[Array, "L P"]:
    """Returns tiles of 16 x 16, column of tiles after column, each in the order in which `packed` reads it."""
    num_lanes, rows, columns = weight.shape
    weight = jnp.pad(weight, ((0, 0), (0, TILE * num_tiles - rows), (0, -columns % TILE)))
    # Thread 4 g + t holds rows g and g + 8 and columns 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of a tile. The axis of
    # rows splits into (tile, upper or lower half, g), the columns into (step, left or right half, t, column of
    # t).
    parts = weight.reshape(num_lanes, num_tiles, 2, 8, -1, 2, 4, 2)
    return parts.transpose(0, 4, 1, 3, 6, 5, 2, 7).reshape(num_lanes, -1)


def _check(inputs: CollapsedInputs, num_leapfrog: int) -> None:
    _checks.positive_int("num_leapfrog", num_leapfrog)
    check_types(inputs)
    if inputs.momenta.ndim != 3 or inputs.gram.ndim != 2:
        raise ValueError(
            f"expected `momenta` of shape (T, N, E) and `gram` of shape (H, H), got {inputs.momenta.shape} and "
            f"{inputs.gram.shape}: pass one lane, and map over lanes with jax.vmap"
        )
    (_, chains, noise), width = inputs.momenta.shape, inputs.gram.shape[0]
    if reason := collapsed_misfit(noise, width):
        raise ValueError(f"{reason}: use a smaller network, or plain HMC")
    others = {"b2": (width,), "origin": (chains, width), "slope": (chains, width), "gram": (width, width)}
    advice = f"`momenta` gives T, N, E = {inputs.momenta.shape} and `gram` H = {width}"
    check_shapes(inputs, others, advice)
