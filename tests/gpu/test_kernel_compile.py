"""The fused kernels compile for a Hopper GPU and fit on it. The compilation needs no GPU."""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile

import jax
import jax.numpy as jnp
import pytest

from uivi.gpu import Adaptation, CollapsedInputs, CollapsedTiling, MoveInputs, collapsed
from uivi.gpu.launch import KernelCall
from uivi.gpu.moves import SHARED_MEMORY, kernel_call


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param((16, 256, 16), marks=pytest.mark.slow),
        pytest.param((64, 128, 64), marks=pytest.mark.slow),
        pytest.param((10, 200, 10), marks=pytest.mark.slow),
        (3, 20, 2),
    ],
)
def test_largest_sizes_fit_on_the_chip(sizes):
    """Compiles in another process, because Triton interprets in this one."""
    command = [sys.executable, "-m", "tests.gpu.test_kernel_compile", *map(str, sizes)]
    made = subprocess.run(
        command,
        env=os.environ | {"TRITON_INTERPRET": "0"},
        check=True,
        timeout=300,
        capture_output=True,
        text=True,
    )
    taken, arrivals, looks = zip(*(map(int, line.split()) for line in made.stdout.splitlines()), strict=True)
    assert len(taken) == 4
    assert max(taken) <= SHARED_MEMORY
    assert set(arrivals) == {2}
    assert set(looks) == {2}, "the loop that waits does not look again"


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
@pytest.mark.parametrize("sizes", [pytest.param((100, 200), marks=pytest.mark.slow), (3, 20)])
def test_collapsed_weights_are_read_into_place(sizes):
    """No tile passes through shared memory, which would make the kernel slow; few registers are spilled."""
    command = [sys.executable, "-m", "tests.gpu.test_kernel_compile", "collapsed", *map(str, sizes)]
    environment = os.environ | {"TRITON_INTERPRET": "0"}
    made = subprocess.run(command, env=environment, check=True, timeout=300, capture_output=True, text=True)
    num_warps, shared, registers, spilled, products, arrivals, looks = map(int, made.stdout.split())
    noise_steps, unit_steps = (-(-size // 16) for size in sizes)
    assert shared <= 16 * 1024
    assert registers <= 255
    assert spilled <= 256, "bytes per thread"
    blocks = 1 if sizes[1] <= 16 * num_warps else 2
    # A forward product counts three times, a backward product once.
    assert products == blocks * (3 * noise_steps + 7 * unit_steps) + unit_steps
    assert (arrivals, looks) == (2, 2)


def compiled(noise: int, width: int, latent: int, energy: str, num_chains: int) -> tuple[int, int, int]:
    """Bytes of shared memory per program, and how often its code adds to a counter and reads one."""
    shapes = {"eps": (num_chains, noise), "momenta": (2, num_chains, noise), "uniforms": (2, num_chains)}
    shapes |= {"step": (), "first_bias": (num_chains, width), "w1": (width, noise), "w2": (width, width)}
    shapes |= {"b2": (width,), "w3": (latent, width), "centre": (num_chains, latent), "precision": (latent,)}
    lanes = MoveInputs(**{name: jnp.zeros((1, *shape)) for name, shape in shapes.items()})
    made = compile_call(kernel_call(lanes, 5, Adaptation(1, 0.01, 0.9), energy=energy))
    return made.metadata.shared, *counters(made)


def compiled_collapsed(noise: int, width: int) -> tuple[int, ...]:
    """Warps, shared memory, registers and spilled bytes per thread, tensor core products, and counters."""
    shapes = {"eps": (9, noise), "momenta": (2, 9, noise), "uniforms": (2, 9), "step": ()}
    shapes |= {"first_bias": (9, width), "w1": (width, noise), "w2": (width, width), "b2": (width,)}
    shapes |= {"origin": (9, width), "slope": (9, width), "gram": (width, width)}
    lanes = CollapsedInputs(**{name: jnp.zeros((1, *shape)) for name, shape in shapes.items()})
    tiling = CollapsedTiling()
    made = compile_call(collapsed.kernel_call(lanes, 5, Adaptation(1, 0.01, 0.9), tiling=tiling))
    registers, spilled = usage(made)
    products = made.asm["ptx"].count("mma.sync")
    return tiling.num_warps, made.metadata.shared, registers, spilled, products, *counters(made)


def compile_call(call: KernelCall):
    import triton
    from triton.backends.compiler import GPUTarget

    kernel = call.program()
    names = [name for name in kernel.arg_names if name not in call.constants]
    types = dict.fromkeys(names, "*fp32") | {"halves": "*fp16", "counters": "*i32"}
    types |= dict.fromkeys(call.constants, "constexpr")
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(len(names))}
    source = triton.compiler.ASTSource(kernel, types, call.constants, aligned)
    options = {"num_warps": call.tiling.num_warps, "num_stages": call.num_stages}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def counters(made) -> tuple[int, int]:
    number = lambda instruction: made.asm["ptx"].count(instruction)
    return number("atom.global.gpu.relaxed.add"), number("ld.global.gpu.relaxed")


def usage(made) -> tuple[int, int]:
    """Registers and bytes of the stack, from Triton's own copy of cuobjdump."""
    import triton.knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, "-res-usage", file.name]
        found = subprocess.run(command, check=True, capture_output=True, text=True)
    text = found.stdout + found.stderr
    return int(re.findall(r"REG:(\d+)", text)[0]), int(re.findall(r"STACK:(\d+)", text)[0])


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    if sys.argv[1] == "collapsed":
        print(*compiled_collapsed(*map(int, sys.argv[2:])))
    else:
        for energy in ("f16x3", "tf32x3"):
            for num_chains in (9, 9000):
                print(*compiled(*map(int, sys.argv[1:]), energy, num_chains))
