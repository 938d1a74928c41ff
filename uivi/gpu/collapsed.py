"""All moves of HMC chains with a collapsed density in one GPU launch: the paper's logistic regression.

As in `moves`, the error of a force costs acceptance, never exactness, if it is a function of the position.
But here thousands of outputs see the features: an error of 11 bits in these makes forces noise where the
density is sharp, and with one in the Gram matrix the force would depend on the origin, so on where a chain
began. So the forward passes and the product with the Gram matrix are accurate in every leapfrog, of two float16
pieces a factor; they give the energies as well. Float16 is enough for the backward pass: its error is relative.

A gradient takes eight matrices, 520 KB: too much for shared memory. So they come from registers, L1 and L2, and
the kernel is as fast as these.

A program runs eight chains, the least that the tensor cores take; fewer take as long.
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
ROWS = 8
"""Chains a program."""
TILE = 16
"""Rows and columns of a tile of weights: `STEP` of `triton_network`."""


class CollapsedTiling(NamedTuple):
    """How the work is cut up. The moves do not depend on it beyond rounding.

    Attributes:
        num_warps: 8 or 16.
        held_first: steps of 16 columns of w1 that stay in registers.
        held_second: the same of w2.
        cache: where the other steps of w1 and w2 come from: "", L1, or ".cg", L2, which leaves L1 to the rest.
        cache_low: the same for all low pieces.
    """

    num_warps: int = 8
    held_first: int = 0
    held_second: int = 0
    cache: str = ""
    cache_low: str = ".cg"


def collapsed_misfit(noise_dim: int, width: int) -> str:
    """Why `collapsed_moves` cannot run a network of these sizes; empty if it can."""
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
    """`reference_moves` of one lane in one launch, without derivatives.

    As `fused_moves` under `jax.vmap`, for values beyond float16's range, and for adapted steps: up to eight
    chains are one program, which waits for none.

    Args:
        inputs: one lane, float32.
        num_leapfrog: leapfrog steps a move.
        adaptation: how the step changes after the first moves; None: it does not.
        tiling: how the work is cut up.
    """
    _check(inputs, num_leapfrog)
    call = lambda lanes, adaptation: kernel_call(lanes, num_leapfrog, adaptation, tiling)
    return moves_of_lane(call, inputs, adaptation)


def kernel_call(
    lanes: CollapsedInputs, num_leapfrog: int, adaptation: Adaptation | None, tiling: CollapsedTiling | None
) -> KernelCall:
    """The launch for inputs with a leading lane axis."""
    num_lanes, _, num_chains, noise_dim = lanes.momenta.shape
    width = lanes.b2.shape[-1]
    tiling = tiling or CollapsedTiling()
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
    arrays = (lanes.eps, lanes.momenta, lanes.uniforms, lanes.step, vectors, unscale, halves)
    grid = (num_lanes * -(-num_chains // ROWS),)
    return KernelCall(arrays, outputs(lanes, constants["ADAPTED"]), grid, constants, tiling, _program, 1)


def _program():
    from uivi.gpu.triton_collapsed import collapsed_kernel

    return collapsed_kernel


def _unscale(gram: Float[Array, "L H H"]) -> Float[Array, "L"]:
    """A power of two near the root of the largest element: what is divided by it fits float16."""
    largest = jnp.max(jnp.abs(gram), (1, 2))
    exponent = jnp.ceil(0.5 * jnp.log2(jnp.maximum(largest, 1e-30)))
    return jnp.ldexp(jnp.ones_like(largest), exponent.astype(jnp.int32))


def _vectors(lanes: CollapsedInputs, unscale: Float[Array, "L"], num_tiles: int) -> Float[Array, "L P"]:
    """First bias, second bias, origin and scaled slope, in the order of `sums`."""
    second = jnp.broadcast_to(lanes.b2[:, None], lanes.origin.shape)
    slope = lanes.slope / unscale[:, None, None]
    whole = jnp.stack([lanes.first_bias, second, lanes.origin, slope], 1)
    num_lanes, kinds, num_chains, width = whole.shape
    whole = jnp.pad(whole, ((0, 0), (0, 0), (0, -num_chains % ROWS), (0, TILE * num_tiles - width)))
    # Chains: program, t, column of t. Units: tile, upper or lower half, g.
    parts = whole.reshape(num_lanes, kinds, -1, ROWS // 2, 2, num_tiles, 2, 8)
    return parts.transpose(0, 2, 1, 5, 7, 3, 6, 4).reshape(num_lanes, -1)


def _halves(
    lanes: CollapsedInputs, unscale: Float[Array, "L"], num_warps: int, blocks: int
) -> Float[Array, "L P"]:
    """All float16 weights of each lane, in the order of `collapsed_kernel`."""
    gram = lanes.gram / (unscale**2)[:, None, None]
    high, low = zip(*map(float16_pieces, (lanes.w1, lanes.w2, gram)), strict=True)
    turned = lambda weight: jnp.swapaxes(weight, 1, 2)
    wide = num_warps * blocks
    parts = [_packed(weight, wide) for weight in (*high, turned(high[1]))]
    parts += [_packed(turned(high[0]), num_warps)] + [_packed(weight, wide) for weight in low]
    return jnp.concatenate(parts, 1).astype(jnp.float16)


def _packed(weight: Float[Array, "L M K"], num_tiles: int) -> Float[Array, "L P"]:
    """Tiles of 16 x 16, one column of `num_tiles` after the other, each in the order of `packed`."""
    num_lanes, rows, columns = weight.shape
    weight = jnp.pad(weight, ((0, 0), (0, TILE * num_tiles - rows), (0, -columns % TILE)))
    # Rows: tile, upper or lower half, g. Columns: step, left or right half, t, column of t.
    parts = weight.reshape(num_lanes, num_tiles, 2, 8, -1, 2, 4, 2)
    return parts.transpose(0, 4, 1, 3, 6, 5, 2, 7).reshape(num_lanes, -1)


def _check(inputs: CollapsedInputs, num_leapfrog: int) -> None:
    _checks.positive_int("num_leapfrog", num_leapfrog)
    check_types(inputs)
    if inputs.momenta.ndim != 3 or inputs.gram.ndim != 2:
        raise ValueError(
            f"expected `momenta` of shape (T, N, E) and `gram` of shape (H, H), got {inputs.momenta.shape} and "
            f"{inputs.gram.shape}: give one lane, and map over lanes with jax.vmap"
        )
    (_, chains, noise), width = inputs.momenta.shape, inputs.gram.shape[0]
    if reason := collapsed_misfit(noise, width):
        raise ValueError(f"{reason}: use a smaller network, or plain HMC")
    others = {"b2": (width,), "origin": (chains, width), "slope": (chains, width), "gram": (width, width)}
    advice = f"`momenta` gives T, N, E = {inputs.momenta.shape} and `gram` H = {width}"
    check_shapes(inputs, others, advice)
