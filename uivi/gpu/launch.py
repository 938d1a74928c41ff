"""How the fused kernels are launched: all lanes at once, with programs that may wait for each other or not."""

import importlib.util
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
"""Of inputs with a lane axis."""
LOW_SCALE = 2048.0
"""Of the weights' low pieces: `SCALE` of `triton_network`."""
NUM_PROCESSORS = 132
"""Of an H100 or H200. Each holds one program at a time."""
MOST_WAITING = NUM_PROCESSORS // 2
"""Programs that may wait for each other: all of a lane must run at once, beside those of another launch."""


class KernelCall(NamedTuple):
    """A launch of a kernel: its arrays in order, its outputs, its grid and its constants.

    The last output is for the kernel's own use, and must be zero before it.

    Attributes:
        program: imports the Triton function.
        num_stages: of Triton's software pipelines.
    """

    arrays: tuple[jax.Array, ...]
    out_shape: tuple[jax.ShapeDtypeStruct, ...]
    grid: tuple[int]
    constants: dict[str, Any]
    tiling: Any
    program: Callable[[], Any]
    num_stages: int


def is_available() -> bool:
    """Whether this process can run `fused_moves`: a Hopper GPU (H100, H200), Triton and jax-triton."""
    if jax.default_backend() != "gpu":
        return False
    has_packages = all(importlib.util.find_spec(name) for name in ("triton", "jax_triton"))
    return has_packages and str(getattr(jax.devices()[0], "compute_capability", "")).startswith("9.")


def over_lanes(launch: Launch) -> Launch:
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


def check_types(inputs: Inputs) -> None:
    """Raise unless all arrays are in float32."""
    for name, array in inputs._asdict().items():
        if array.dtype != jnp.float32:
            raise ValueError(f"expected `{name}` in float32, got {array.dtype}: cast it, or use plain HMC")


def check_shapes(inputs: Inputs, others: dict[str, tuple[int, ...]], advice: str) -> None:
    """Raise unless the arrays have the shapes that `momenta` and the width of b2 give, and the others these."""
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
    """The sizes and the rule that every kernel takes."""
    _, num_moves, num_chains, noise_dim = lanes.momenta.shape
    adapted, rate, target = adaptation or Adaptation(0, 0.0, 1.0)
    sizes = {"N": num_chains, "T": num_moves, "L": num_leapfrog, "E": noise_dim, "H": lanes.b2.shape[-1]}
    return sizes | {"ADAPTED": adapted, "RATE": rate, "TARGET": target}


def outputs(lanes: Inputs, num_adapted: int) -> tuple[jax.ShapeDtypeStruct, ...]:
    """What a launch returns: the `Moves` of all lanes, and the counters of their programs."""
    num_lanes, num_moves = lanes.uniforms.shape[:2]
    positions = jax.ShapeDtypeStruct(lanes.momenta.shape, jnp.float32)
    scalars = jax.ShapeDtypeStruct(lanes.uniforms.shape, jnp.float32)
    steps = jax.ShapeDtypeStruct((num_lanes, num_moves), jnp.float32)
    counters = jax.ShapeDtypeStruct((1 + num_lanes * num_adapted,), jnp.int32)
    return (positions, scalars, scalars, scalars, steps, counters)


def float16_pieces(weight: Array) -> tuple[Array, Array]:
    """Of weight = high + low / LOW_SCALE, to 22 bits; both are float16's, in float32."""
    # XLA may drop a cast to float16 and back; it must keep this.
    high = jax.lax.reduce_precision(weight, exponent_bits=5, mantissa_bits=10)
    return high, (weight - high) * LOW_SCALE


def moves_of_lane(call: Callable[..., KernelCall], inputs: Inputs, adaptation: Adaptation | None) -> Moves:
    """Of one lane; those that `jax.vmap` adds share the launches."""
    run = over_lanes(lambda lanes: launches(call, lanes, adaptation))
    moves = run(jax.tree.map(lambda array: array[None], inputs))
    return jax.tree.map(lambda array: array[0], moves)


def launches(call: Callable[..., KernelCall], lanes: Inputs, adaptation: Adaptation | None) -> Moves:
    """One launch, or one for each adapted move and one for the rest if a lane's programs must not wait."""
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
    """One launch."""
    import jax_triton  # pyright: ignore[reportMissingImports]

    outputs = jax_triton.triton_call(
        *call.arrays,
        kernel=call.program(),
        out_shape=call.out_shape,
        grid=call.grid,
        name="uivi_moves",
        num_warps=call.tiling.num_warps,
        num_stages=call.num_stages,
        zeroed_outputs=(len(call.out_shape) - 1,) if call.constants["ADAPTED"] else (),
        **call.constants,
    )
    return Moves(*outputs[:-1])
