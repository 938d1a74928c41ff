"""All moves of short HMC chains in one GPU launch, with the network's weights held on the chip.

A leapfrog step with any force field keeps volume and is reversible: the error of the force costs
acceptance, never exactness. So the forces use float16 products with float32 sums. Not bfloat16: where σ is
small against the location, 8 bits of the location are a good part of σ, and the force is noise. Float16
has 11 bits, and its range suffices: activations are far below 65504, and the backward pass is scaled.
The energies, which decide acceptance, take one forward pass a move, and that one is accurate.
"""

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

from uivi import _checks
from uivi.kernels.types import MoveInputs, Moves

ENERGIES = ("f16x3", "tf32x3")
LOW_SCALE = 2048.0
"""Of the weights' low pieces: `SCALE` of `triton_network`."""
MOST = {"E": 64, "D": 64, "H": 256}
"""The largest sizes that fit on the chip; `misfit` has the whole rule."""
NUM_PROCESSORS = 132
"""Of an H100 or H200. Each holds one program at a time."""


class Tiling(NamedTuple):
    """How the work is cut up. The moves do not depend on it beyond rounding.

    Attributes:
        rows: chains a program: 16 or 32.
        chunk: columns of w2 that the energy reads at a time, 32 or 64; half of them for "tf32x3".
        num_warps: most warps a program: 4 or 8.
        num_stages: chunks in flight.
    """

    rows: int = 16
    chunk: int = 32
    num_warps: int = 8
    num_stages: int = 3


class KernelCall(NamedTuple):
    """A launch of `moves_kernel`: its arrays in order, its outputs, its grid and its constants."""

    arrays: tuple[jax.Array, ...]
    out_shape: tuple[jax.ShapeDtypeStruct, ...]
    grid: tuple[int, int]
    constants: dict[str, Any]
    tiling: Tiling


def is_available() -> bool:
    """Whether this process can run `fused_moves`: a Hopper GPU (H100, H200), Triton and jax-triton."""
    if jax.default_backend() != "gpu":
        return False
    has_packages = all(importlib.util.find_spec(name) for name in ("triton", "jax_triton"))
    return has_packages and str(getattr(jax.devices()[0], "compute_capability", "")).startswith("9.")


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
    *,
    energy: str = "f16x3",
    tiling: Tiling | None = None,
) -> Moves:
    """`reference_moves` of one lane in one launch, without derivatives.

    Under `jax.vmap` (nested too) all lanes share the launch. Activations beyond float16's 65504 make a force,
    and a value of "f16x3", not finite: such a trajectory is rejected.

    Args:
        inputs: one lane, float32.
        num_leapfrog: leapfrog steps a move.
        energy: products of the energy: "f16x3", of two float16 pieces a factor, or "tf32x3", slower and with
            float32's range. Both have float32's accuracy but for its last bits; either is a fixed function
            of ε, so the moves are exactly invariant for its exponential.
        tiling: how the work is cut up; None chooses by the number of chains.
    """
    _check(inputs, num_leapfrog, energy)
    run = over_lanes(lambda lanes: _launch(kernel_call(lanes, num_leapfrog, energy, tiling)))
    moves = run(jax.tree.map(lambda array: array[None], inputs))
    return jax.tree.map(lambda array: array[0], moves)


def over_lanes(launch: Callable[[MoveInputs], Moves]) -> Callable[[MoveInputs], Moves]:
    """`launch` takes and returns arrays with a leading lane axis, to which `jax.vmap` now adds its lanes."""

    @custom_vmap
    def run(lanes):
        return launch(lanes)

    @run.def_vmap
    def _fold(axis_size, is_batched, lanes):
        def fold(array, batched):
            array = array if batched else jnp.broadcast_to(array[None], (axis_size, *array.shape))
            return array.reshape(-1, *array.shape[2:])

        moves = run(jax.tree.map(fold, lanes, is_batched[0]))
        unfolded = jax.tree.map(lambda array: array.reshape(axis_size, -1, *array.shape[1:]), moves)
        return unfolded, jax.tree.map(lambda _: True, moves)

    return run


def kernel_call(lanes: MoveInputs, num_leapfrog: int, energy: str, tiling: Tiling | None) -> KernelCall:
    """The launch for inputs with a leading lane axis."""
    num_lanes, num_moves, num_chains, noise_dim = lanes.momenta.shape
    latent_dim, width = lanes.w3.shape[1:]
    # The tensor cores want sizes of at least 16, and that of each warp's units too.
    padded_width = max(64, _power_of_two(width))
    tiling = tiling or _tiling(num_lanes, num_chains)
    tiling = tiling._replace(num_warps=min(tiling.num_warps, padded_width // 16))
    constants = {
        "N": num_chains,
        "T": num_moves,
        "L": num_leapfrog,
        "E": noise_dim,
        "H": width,
        "D": latent_dim,
        "NOISE": max(16, _power_of_two(noise_dim)),
        "WIDTH": padded_width,
        "LATENT": max(16, _power_of_two(latent_dim)),
        "ROWS": tiling.rows,
        "CHUNK": tiling.chunk if energy == "f16x3" else tiling.chunk // 2,
        "G": tiling.num_warps,
        "ENERGY": energy,
    }
    arrays = (*lanes[:7], _two_pieces(lanes.w2), *lanes[7:])
    positions = jax.ShapeDtypeStruct(lanes.momenta.shape, jnp.float32)
    scalars = jax.ShapeDtypeStruct(lanes.uniforms.shape, jnp.float32)
    grid = (num_lanes, -(-num_chains // tiling.rows))
    return KernelCall(arrays, (positions, scalars, scalars, scalars), grid, constants, tiling)


def _launch(call: KernelCall) -> Moves:
    import jax_triton  # pyright: ignore[reportMissingImports]

    from uivi.kernels.triton_moves import moves_kernel

    outputs = jax_triton.triton_call(
        *call.arrays,
        kernel=moves_kernel,
        out_shape=call.out_shape,
        grid=call.grid,
        name="uivi_moves",
        num_warps=call.tiling.num_warps,
        num_stages=call.tiling.num_stages,
        **call.constants,
    )
    return Moves(*outputs)


def _two_pieces(weight: Float[Array, "L H H"]) -> Float[Array, "L 2 H H"]:
    """Two float16 matrices, high and low, with weight = high + low / LOW_SCALE to 22 bits."""
    # XLA may drop a cast to float16 and back; it must keep this.
    high = jax.lax.reduce_precision(weight, exponent_bits=5, mantissa_bits=10)
    return jnp.stack([high, (weight - high) * LOW_SCALE], 1).astype(jnp.float16)


def _tiling(num_lanes: int, num_chains: int) -> Tiling:
    """16 chains a program while all programs run at once, else 32: a program's time hardly grows."""
    num_programs = num_lanes * -(-num_chains // 16)
    return Tiling(rows=16 if num_programs <= NUM_PROCESSORS else 32)


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()


def _check(inputs: MoveInputs, num_leapfrog: int, energy: str) -> None:
    _checks.positive_int("num_leapfrog", num_leapfrog)
    _checks.known_name("energy", energy, ENERGIES)
    for name, array in inputs._asdict().items():
        if array.dtype != jnp.float32:
            raise ValueError(f"expected `{name}` in float32, got {array.dtype}: cast it, or use plain HMC")
    if inputs.momenta.ndim != 3 or inputs.w3.ndim != 2:
        raise ValueError(
            f"expected `momenta` of shape (T, N, E) and `w3` of shape (D, H), got {inputs.momenta.shape} and "
            f"{inputs.w3.shape}: give one lane, and map over lanes with jax.vmap"
        )
    (moves, chains, noise), (latent, width) = inputs.momenta.shape, inputs.w3.shape
    if reason := misfit(noise, latent, width):
        raise ValueError(f"{reason}: the network must fit on the chip; use a smaller one, or plain HMC")
    expected = {
        "eps": (chains, noise),
        "momenta": (moves, chains, noise),
        "uniforms": (moves, chains),
        "step": (),
        "first_bias": (chains, width),
        "w1": (width, noise),
        "w2": (width, width),
        "b2": (width,),
        "w3": (latent, width),
        "centre": (chains, latent),
        "precision": (latent,),
    }
    advice = f"`momenta` gives T, N, E = {inputs.momenta.shape} and `w3` D, H = {inputs.w3.shape}"
    for name, shape in expected.items():
        _checks.shape(f"`{name}`", getattr(inputs, name), shape, advice)
