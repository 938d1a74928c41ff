"""The fused kernel compiles for a Hopper GPU (which that needs not) and fits into its shared memory."""

import importlib.util
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from uivi.kernels import Adaptation, MoveInputs
from uivi.kernels.moves import NUM_STAGES, SHARED_MEMORY, kernel_call


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
@pytest.mark.parametrize("sizes", [(16, 256, 16), (64, 128, 64), (10, 200, 10), (3, 20, 2)])
def test_largest_sizes_fit_on_the_chip(sizes):
    """In a process of its own: in that of the tests Triton interprets."""
    command = [sys.executable, "-m", "tests.test_kernel_compile", *map(str, sizes)]
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


def compiled(noise: int, width: int, latent: int, energy: str, num_chains: int) -> tuple[int, int, int]:
    """Bytes of shared memory a program; how often its code adds to a counter, and how often it looks at one."""
    import triton
    from triton.backends.compiler import GPUTarget

    from uivi.kernels.triton_moves import moves_kernel

    shapes = {"eps": (num_chains, noise), "momenta": (2, num_chains, noise), "uniforms": (2, num_chains)}
    shapes |= {"step": (), "first_bias": (num_chains, width), "w1": (width, noise), "w2": (width, width)}
    shapes |= {"b2": (width,), "w3": (latent, width), "centre": (num_chains, latent), "precision": (latent,)}
    lanes = MoveInputs(**{name: jnp.zeros((1, *shape)) for name, shape in shapes.items()})
    call = kernel_call(lanes, 5, Adaptation(1, 0.01, 0.9), energy, None)
    names = [name for name in moves_kernel.arg_names if name not in call.constants]
    types = dict.fromkeys(names, "*fp32") | {"halves": "*fp16", "counters": "*i32"}
    types |= dict.fromkeys(call.constants, "constexpr")
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(len(names))}
    source = triton.compiler.ASTSource(moves_kernel, types, call.constants, aligned)
    options = {"num_warps": call.tiling.num_warps, "num_stages": NUM_STAGES}
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    number = lambda instruction: made.asm["ptx"].count(instruction)
    return made.metadata.shared, number("atom.global.gpu.relaxed.add"), number("ld.global.gpu.relaxed")


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    for energy in ("f16x3", "tf32x3"):
        for num_chains in (9, 9000):
            print(*compiled(*map(int, sys.argv[1:]), energy, num_chains))
