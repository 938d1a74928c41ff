"""All moves of short HMC chains in one GPU launch, with the network's weights held on the chip.

A leapfrog step with any force field keeps volume and is reversible: the error of the force costs
acceptance, never exactness. So the forces use float16 products with float32 sums. Not bfloat16: where σ is
small against the location, 8 bits of the location are a good part of σ, and the force is noise. Float16
has 11 bits, and its range suffices: activations are far below 65504, and the backward pass is scaled.
The energies, which decide acceptance, take one forward pass a move, and that one is accurate. The force at the
same place goes back from it: so the ends of a trajectory have another force field than the points between,
whichever end it starts from, and it stays reversible.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from uivi import _checks
from uivi.gpu.launch import (
    MOST_WAITING,
    NUM_PROCESSORS,
    KernelCall,
    check_shapes,
    check_types,
    float16_pieces,
    moves_of_lane,
    outputs,
    shared_constants,
)
from uivi.gpu.types import Adaptation, MoveInputs, Moves

ENERGIES = ("f16x3", "tf32x3")
STEP = 16
"""Units a step of a product with w2: `STEP` of `triton_network`."""
MOST = {"E": 64, "D": 64, "H": 256}
"""The largest sizes that fit on the chip; `misfit` has the whole rule."""
SHARED_MEMORY = 227 * 1024
"""Bytes a program."""
NUM_STAGES = 3
"""Steps of w2 in flight where an energy reads it from L2."""


class Tiling(NamedTuple):
    """How the work is cut up. The moves do not depend on it beyond rounding.

    w2 is on the chip in steps of 16 units: forward, backward, and the low piece, which only energies use.

    Attributes:
        rows: chains a program: 8 or 16.
        held: steps of w2's forward form in registers; the others, and its backward form, are in shared memory.
        resident: steps of its low piece in shared memory; energies read the others from L2.
        num_warps: 4 or 8; each has 16 or 32 units.
    """

    rows: int
    held: int
    resident: int
    num_warps: int = 8


def misfit(noise_dim: int, latent_dim: int, width: int) -> str:
    """Why a network of these sizes does not fit on the chip; empty if it does."""
    most = MOST if width <= 128 else MOST | {"E": 16, "D": 16}
    for name, size in (("H", width), ("E", noise_dim), ("D", latent_dim)):
        if size > most[name]:
            return f"expected {name} of at most {most[name]} (for H = {width}), got {size}"
    return ""


def fused_moves(
    inputs: MoveInputs,
    num_leapfrog: int,
    adaptation: Adaptation | None = None,
    *,
    energy: str = "f16x3",
    tiling: Tiling | None = None,
) -> Moves:
    """`reference_moves` of one lane in one launch, without derivatives.

    Under `jax.vmap` (nested too) all lanes share the launch. Activations beyond float16's 65504 make a force,
    and a value of "f16x3", not finite: such a trajectory is rejected.

    An adapted step depends on all chains of the lane, so their programs wait for each other. If a lane has more
    programs than `MOST_WAITING`, every adapted move is a launch.

    Args:
        inputs: one lane, float32.
        num_leapfrog: leapfrog steps a move.
        adaptation: how the step changes after the first moves; None: it does not.
        energy: products of the energy: "f16x3", of two float16 pieces a factor, or "tf32x3", slower and with
            float32's range. Both have float32's accuracy but for its last bits; either is a fixed function
            of ε, so the moves are exactly invariant for its exponential.
        tiling: how the work is cut up; None chooses by the number of chains.
    """
    _check(inputs, num_leapfrog, energy)
    call = lambda lanes, adaptation: kernel_call(lanes, num_leapfrog, adaptation, energy, tiling)
    return moves_of_lane(call, inputs, adaptation)


def kernel_call(
    lanes: MoveInputs, num_leapfrog: int, adaptation: Adaptation | None, energy: str, tiling: Tiling | None
) -> KernelCall:
    """The launch for inputs with a leading lane axis."""
    num_lanes, _, num_chains, noise_dim = lanes.momenta.shape
    latent_dim, width = lanes.w3.shape[1:]
    tiling = tiling or _tiling(lanes, energy, MOST_WAITING if adaptation else NUM_PROCESSORS)
    constants = shared_constants(lanes, num_leapfrog, adaptation) | {
        "D": latent_dim,
        "NOISE": _padded(noise_dim),
        "WIDTH": _padded(width, 64),
        "LATENT": _padded(latent_dim),
        "ROWS": tiling.rows,
        "HELD": tiling.held,
        "RESIDENT": tiling.resident,
        "G": tiling.num_warps,
        "ENERGY": energy,
    }
    arrays = (*lanes, _halves(lanes))
    grid = (num_lanes * -(-num_chains // tiling.rows),)
    return KernelCall(
        arrays, outputs(lanes, constants["ADAPTED"]), grid, constants, tiling, _program, NUM_STAGES
    )


def _program():
    from uivi.gpu.triton_moves import moves_kernel

    return moves_kernel


def _halves(lanes: MoveInputs) -> Float[Array, "L P"]:
    """The float16 weights of each lane: two pieces of w2 = high + low / LOW_SCALE, to 22 bits; w1; w3."""
    parts = (*float16_pieces(lanes.w2), lanes.w1, lanes.w3)
    return jnp.concatenate([part.reshape(part.shape[0], -1) for part in parts], 1).astype(jnp.float16)


def _tiling(lanes: MoveInputs, energy: str, most_of_lane: int) -> Tiling:
    """8 chains a program while there are processors for all, else 16: twice the time, half the turns."""
    num_lanes, num_chains, noise_dim = lanes.eps.shape
    latent_dim, width = lanes.w3.shape[1:]
    programs_of_lane = -(-num_chains // 8)
    is_small = programs_of_lane <= most_of_lane and num_lanes * programs_of_lane <= NUM_PROCESSORS
    rows = 8 if is_small else 16
    padded_width = _padded(width, 64)
    # The tensor cores want 16 units of each warp.
    num_warps = min(8, padded_width // 16)
    features = _padded(noise_dim) + _padded(latent_dim)
    scratch = 4 * rows * max(padded_width, num_warps * features)
    num_steps = -(-width // STEP)
    num_shared = (SHARED_MEMORY - scratch - 2 * features * padded_width) // (2 * STEP * padded_width)
    # An energy that reads w2 from L2 reads two steps ahead, into shared memory.
    num_ahead = 2 if energy == "f16x3" else 4
    held = num_steps if rows == 8 else max(num_steps // 2, 2 * num_steps + num_ahead - num_shared)
    room = num_shared - (2 * num_steps - held)
    # A single step needs no reading ahead.
    resident = min(room, num_steps) if room >= num_steps - 1 else room - num_ahead
    return Tiling(rows, held, resident, num_warps)


def _padded(size: int, least: int = STEP) -> int:
    """A power of two."""
    return max(least, 1 << (size - 1).bit_length())


def _check(inputs: MoveInputs, num_leapfrog: int, energy: str) -> None:
    _checks.positive_int("num_leapfrog", num_leapfrog)
    _checks.known_name("energy", energy, ENERGIES)
    check_types(inputs)
    if inputs.momenta.ndim != 3 or inputs.w3.ndim != 2:
        raise ValueError(
            f"expected `momenta` of shape (T, N, E) and `w3` of shape (D, H), got {inputs.momenta.shape} and "
            f"{inputs.w3.shape}: give one lane, and map over lanes with jax.vmap"
        )
    (_, chains, noise), (latent, width) = inputs.momenta.shape, inputs.w3.shape
    if reason := misfit(noise, latent, width):
        raise ValueError(f"{reason}: the network must fit on the chip; use a smaller one, or plain HMC")
    others = {"b2": (width,), "centre": (chains, latent), "precision": (latent,)}
    advice = f"`momenta` gives T, N, E = {inputs.momenta.shape} and `w3` D, H = {inputs.w3.shape}"
    check_shapes(inputs, others, advice)
