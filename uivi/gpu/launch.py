"""Launches of the fused kernels: all lanes in one launch, whose programs may wait for each other."""

import importlib.util
import inspect
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array

from uivi import _checks
from uivi.gpu.types import Adaptation, CollapsedInputs, MoveInputs, Moves

Inputs = MoveInputs | CollapsedInputs
Launch = Callable[[Any], Moves]
"""A launch takes inputs with a leading lane axis."""
LOW_SCALE = 2048.0
"""Factor of the low pieces of the weights. It must equal `SCALE` of `triton_network`."""
NUM_PROCESSORS = 132
"""Streaming multiprocessors of an H100 or H200. Each holds one program at a time."""
MOST_WAITING = NUM_PROCESSORS // 2
"""Largest number of programs that may wait for each other.

Programs of a lane that wait must all be on the chip at once, or they would wait for ever. Half of the chip
leaves room for another launch that waits too, from a second process.
"""


class KernelCall(NamedTuple):
    """Everything that one launch of a kernel needs.

    Attributes:
        arrays: inputs of the kernel, in order.
        out_shape: shapes of its outputs, in order. The last output holds counters, which must start at zero.
        grid: number of programs.
        constants: compile-time constants of the kernel.
        tiling: how the work is divided.
        program: imports the Triton function.
        num_stages: depth of Triton's software pipelines.
    """

    arrays: tuple[jax.Array, ...]
    out_shape: tuple[jax.ShapeDtypeStruct, ...]
    grid: tuple[int]
    constants: dict[str, Any]
    tiling: Any
    program: Callable[[], Any]
    num_stages: int


def is_available() -> bool:
    """Whether this process can run the kernels: it needs a Hopper GPU (H100, H200), Triton and jax-triton."""
    if jax.default_backend() != "gpu":
        return False
    has_packages = all(importlib.util.find_spec(name) for name in ("triton", "jax_triton"))
    # Triton compiles for other GPUs as well, but the tilings assume Hopper's registers and shared memory.
    return has_packages and str(getattr(jax.devices()[0], "compute_capability", "")).startswith("9.")


def over_lanes(launch: Launch) -> Launch:
    """Makes `jax.vmap` of a launch one larger launch: the mapped axis is folded into the lane axis."""

    @custom_vmap
    def run(lanes):
        return launch(lanes)

    @run.def_vmap
    def _fold(axis_size, is_batched, lanes):
        # It calls `run` and not `launch`, so that a nested vmap folds again.
        def fold(array, batched):
            array = array if batched else jnp.broadcast_to(array[None], (axis_size, *array.shape))
            return array.reshape(-1, *array.shape[2:])

        moves = run(jax.tree.map(fold, lanes, is_batched[0]))
        unfolded = jax.tree.map(lambda array: array.reshape(axis_size, -1, *array.shape[1:]), moves)
        return unfolded, jax.tree.map(lambda _: True, moves)

    return run


def check_types(inputs: Inputs) -> None:
    """Raises unless all arrays are float32."""
    for name, array in inputs._asdict().items():
        if array.dtype != jnp.float32:
            raise ValueError(f"expected `{name}` in float32, got {array.dtype}: cast it, or use plain HMC")


def check_shapes(inputs: Inputs, others: dict[str, tuple[int, ...]], advice: str) -> None:
    """Raises unless the arrays have the right shapes.

    Args:
        inputs: arrays of one lane.
        others: shapes of the arrays that only one kernel takes, and of b2, which gives the width.
        advice: how to fix a wrong shape.
    """
    (moves, chains, noise), (width,) = inputs.momenta.shape, others["b2"]
    shared = {
        "eps": (chains, noise),
        "uniforms": (moves, chains),
        "step": (),
        "first_bias": (chains, width),
        "w1": (width, noise),
        "w2": (width, width),
    }
    for name, shape in (shared | others).items():
        _checks.shape(f"`{name}`", getattr(inputs, name), shape, advice)


def shared_constants(lanes: Inputs, num_leapfrog: int, adaptation: Adaptation | None) -> dict[str, Any]:
    """Returns the constants that every kernel takes: sizes, and the rule of the step size."""
    _, num_moves, num_chains, noise_dim = lanes.momenta.shape
    adapted, rate, target = adaptation or Adaptation(0, 0.0, 1.0)
    sizes = {"N": num_chains, "T": num_moves, "L": num_leapfrog, "E": noise_dim, "H": lanes.b2.shape[-1]}
    return sizes | {"ADAPTED": adapted, "RATE": rate, "TARGET": target}


def outputs(lanes: Inputs, num_adapted: int) -> tuple[jax.ShapeDtypeStruct, ...]:
    """Returns the shapes of a launch's outputs: the `Moves` of all lanes, and counters for their programs."""
    num_lanes, num_moves = lanes.uniforms.shape[:2]
    positions = jax.ShapeDtypeStruct(lanes.momenta.shape, jnp.float32)
    scalars = jax.ShapeDtypeStruct(lanes.uniforms.shape, jnp.float32)
    steps = jax.ShapeDtypeStruct((num_lanes, num_moves), jnp.float32)
    counters = jax.ShapeDtypeStruct((1 + num_lanes * num_adapted,), jnp.int32)
    return (positions, scalars, scalars, scalars, steps, counters)


def float16_pieces(weight: Array) -> tuple[Array, Array]:
    """Splits weight = high + low / LOW_SCALE, to 22 bits. Both pieces have float16 values, stored as float32.

    Three float16 products of such pieces replace one float32 product on the tensor cores.
    """
    # XLA may remove a cast to float16 and back as if it were exact. It must keep `reduce_precision`.
    high = jax.lax.reduce_precision(weight, exponent_bits=5, mantissa_bits=10)
    return high, (weight - high) * LOW_SCALE


def moves_of_lane(call: Callable[..., KernelCall], inputs: Inputs, adaptation: Adaptation | None) -> Moves:
    """Makes the moves of one lane. Lanes that `jax.vmap` adds share its launches."""
    run = over_lanes(lambda lanes: launches(call, lanes, adaptation))
    moves = run(jax.tree.map(lambda array: array[None], inputs))
    return jax.tree.map(lambda array: array[0], moves)


def launches(call: Callable[..., KernelCall], lanes: Inputs, adaptation: Adaptation | None) -> Moves:
    """Makes the moves of all lanes, in a single launch if the programs of a lane may wait for each other.

    Otherwise every adapted move has its own launch, after which the step size is changed outside, and one more
    launch makes the other moves.
    """
    whole = call(lanes, adaptation)
    if not adaptation or whole.grid[0] // lanes.momenta.shape[0] <= MOST_WAITING:
        return launch(whole)
    num_moves = lanes.momenta.shape[1]
    num_adapted = min(adaptation.num_moves, num_moves)
    made = []
    for first, last in itertools.pairwise(sorted({*range(num_adapted + 1), num_moves})):
        part = lanes._replace(momenta=lanes.momenta[:, first:last], uniforms=lanes.uniforms[:, first:last])
        moves = launch(call(part, None))
        if first < num_adapted:
            step = jax.vmap(adaptation.after)(lanes.step, jnp.mean(moves.accepted, (1, 2)))
            moves = moves._replace(step=step[:, None])
        made.append(moves)
        lanes = lanes._replace(eps=moves.eps[:, -1], step=moves.step[:, -1])
    return jax.tree.map(lambda *parts: jnp.concatenate(parts, 1), *made)


def launch(call: KernelCall) -> Moves:
    """Runs one launch."""
    try:
        import jax_triton  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError(
            f"expected jax-triton to be installed, but its import failed ({error}): pip install 'uivi[gpu]'"
        ) from error

    # jax-triton 0.4 renamed the argument, and warns about the old name.
    parameters = inspect.signature(jax_triton.triton_call).parameters
    outputs = jax_triton.triton_call(
        *call.arrays,
        kernel=call.program(),
        **{"out_type" if "out_type" in parameters else "out_shape": call.out_shape},
        grid=call.grid,
        name="uivi_moves",
        num_warps=call.tiling.num_warps,
        num_stages=call.num_stages,
        # Without adaptation no program reads the counters, and zeroing them would be a launch of its own.
        zeroed_outputs=(len(call.out_shape) - 1,) if call.constants["ADAPTED"] else (),
        **call.constants,
    )
    return Moves(*outputs[:-1])
