"""All moves of short HMC chains in one GPU launch, with the weights of the network held on the chip.

A leapfrog step with any force field preserves volume and is reversible. An error of the force costs acceptance,
never exactness. So the forces use float16 products with float32 sums. Bfloat16 would not do: where σ is small
against the location, the last of its 8 bits is a good part of σ, and the force is noise. Float16 has 11 bits,
and its range suffices: activations are far below 65504, and the backward pass is scaled.

The energies decide about acceptance and need float32 accuracy. Each move takes one accurate forward pass, at
its end, and computes the force there from the same activations. So both ends of a trajectory have another force
field than the points between. That is symmetric in time, and the trajectory stays reversible.
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
"""Hidden units in one step of a product with w2. It must equal `STEP` of `triton_network`."""
MOST = {"E": 64, "D": 64, "H": 256}
"""Largest sizes that fit on the chip. `misfit` has the whole rule."""
SHARED_MEMORY = 227 * 1024
"""Bytes of shared memory that a program may use on Hopper."""
NUM_STAGES = 3
"""Number of steps of w2 in flight where an energy reads it from L2."""


class Tiling(NamedTuple):
    """How the work is divided. The moves do not depend on it beyond rounding.

    w2 is on the chip three times, in steps of 16 units: for the forward pass, for the backward pass, and as its
    low piece, which only energies use.

    Attributes:
        rows: chains per program, 8 or 16.
        held: steps of the forward w2 in registers. The others, and the backward w2, are in shared memory.
        resident: steps of the low piece in shared memory. Energies read the others from L2.
        num_warps: 4 or 8 warps, with 16 or 32 units each.
    """

    rows: int
    held: int
    resident: int
    num_warps: int = 8


def misfit(noise_dim: int, latent_dim: int, width: int) -> str:
    """Returns why a network of these sizes does not fit on the chip, or an empty string if it does."""
    # A wide w2 takes most of the shared memory and leaves little for w1 and w3.
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
    """Computes `reference_moves` of one lane in one launch. It has no derivatives.

    Under `jax.vmap`, also nested, all lanes share the launch. Activations beyond float16's 65504 make the force
    not finite, and with "f16x3" the energy too. Such a trajectory is rejected.

    An adapted step size depends on all chains of the lane, so their programs wait for each other. If a lane has
    more programs than `MOST_WAITING`, every adapted move has its own launch.

    Args:
        inputs: arrays of one lane, float32.
        num_leapfrog: number of leapfrog steps per move.
        adaptation: how the step size changes after the first moves; None keeps it constant.
        energy: how the products of the energy are computed: "f16x3" with two float16 pieces per factor, or
            "tf32x3", which is slower and has float32's range. Both have float32's accuracy except for its last
            bits. Either is a fixed function of ε, so the moves leave its exponential exactly invariant.
        tiling: how the work is divided; None chooses by the number of chains.
    """
    _check(inputs, num_leapfrog, energy)
    call = lambda lanes, adaptation: kernel_call(lanes, num_leapfrog, adaptation, energy=energy, tiling=tiling)
    return moves_of_lane(call, inputs, adaptation)


def kernel_call(
    lanes: MoveInputs,
    num_leapfrog: int,
    adaptation: Adaptation | None,
    *,
    energy: str = "f16x3",
    tiling: Tiling | None = None,
) -> KernelCall:
    """Returns the launch for inputs with a leading lane axis."""
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
    return KernelCall(
        arrays=(*lanes, _halves(lanes)),
        out_shape=outputs(lanes, constants["ADAPTED"]),
        grid=(num_lanes * -(-num_chains // tiling.rows),),
        constants=constants,
        tiling=tiling,
        program=_program,
        num_stages=NUM_STAGES,
    )


def _program():
    """Imports the kernel, which needs Triton."""
    from uivi.gpu.triton_moves import moves_kernel

    return moves_kernel


def _halves(lanes: MoveInputs) -> Float[Array, "L P"]:
    """Returns the float16 weights of each lane: the high and the low piece of w2, then w1, then w3."""
    parts = (*float16_pieces(lanes.w2), lanes.w1, lanes.w3)
    return jnp.concatenate([part.reshape(part.shape[0], -1) for part in parts], 1).astype(jnp.float16)


def _tiling(lanes: MoveInputs, energy: str, most_of_lane: int) -> Tiling:
    """Chooses 8 chains per program while there are processors for all programs, otherwise 16.

    A program with 16 chains takes twice the time, but then half the number of programs wait for a processor.
    """
    num_lanes, num_chains, noise_dim = lanes.eps.shape
    latent_dim, width = lanes.w3.shape[1:]
    programs_of_lane = -(-num_chains // 8)
    is_small = programs_of_lane <= most_of_lane and num_lanes * programs_of_lane <= NUM_PROCESSORS
    rows = 8 if is_small else 16
    padded_width = _padded(width, 64)
    # A tensor core product has 16 rows, so each warp needs at least 16 units.
    num_warps = min(8, padded_width // 16)
    features = _padded(noise_dim) + _padded(latent_dim)
    # Activations pass between the warps through this many bytes.
    scratch = 4 * rows * max(padded_width, num_warps * features)
    num_steps = -(-width // STEP)
    # Steps of w2 that fit into the rest of the shared memory, beside w1 and w3; 2 bytes a number.
    num_shared = (SHARED_MEMORY - scratch - 2 * features * padded_width) // (2 * STEP * padded_width)
    # An energy that reads w2 from L2 reads two steps ahead, into shared memory. A float32 step counts twice.
    num_ahead = 2 if energy == "f16x3" else 4
    # With 8 chains there are registers for the whole forward w2. With 16, hold half of it, or more if the
    # shared memory cannot take the rest.
    held = num_steps if rows == 8 else max(num_steps // 2, 2 * num_steps + num_ahead - num_shared)
    room = num_shared - (2 * num_steps - held)
    # If at most one step is left to L2, it needs no reading ahead.
    resident = min(room, num_steps) if room >= num_steps - 1 else room - num_ahead
    return Tiling(rows, held, resident, num_warps)


def _padded(size: int, least: int = STEP) -> int:
    """Returns the next power of two, at least `least`: Triton's tiles have such sizes only."""
    return max(least, 1 << (size - 1).bit_length())


def _check(inputs: MoveInputs, num_leapfrog: int, energy: str) -> None:
    _checks.positive_int("num_leapfrog", num_leapfrog)
    _checks.known_name("energy", energy, ENERGIES)
    check_types(inputs)
    if inputs.momenta.ndim != 3 or inputs.w3.ndim != 2:
        raise ValueError(
            f"expected `momenta` of shape (T, N, E) and `w3` of shape (D, H), got {inputs.momenta.shape} and "
            f"{inputs.w3.shape}: pass one lane, and map over lanes with jax.vmap"
        )
    (_, chains, noise), (latent, width) = inputs.momenta.shape, inputs.w3.shape
    if reason := misfit(noise, latent, width):
        raise ValueError(f"{reason}: use a smaller network, which fits on the chip, or plain HMC")
    others = {"b2": (width,), "centre": (chains, latent), "precision": (latent,)}
    advice = f"`momenta` gives T, N, E = {inputs.momenta.shape} and `w3` D, H = {inputs.w3.shape}"
    check_shapes(inputs, others, advice)
