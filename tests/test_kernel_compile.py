"""The fused kernel compiles for a Hopper GPU (which that needs not) and fits into its shared memory."""

import importlib.util
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from uivi.kernels import MoveInputs, Tiling
from uivi.kernels.moves import kernel_call

SHARED_MEMORY = 227 * 1024


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
@pytest.mark.parametrize(("noise", "width", "latent"), [(16, 256, 16), (64, 128, 64), (3, 20, 2)])
def test_largest_sizes_fit_on_the_chip(noise, width, latent):
    """In a process of its own: in that of the tests Triton interprets."""
    command = [sys.executable, "-m", "tests.test_kernel_compile", str(noise), str(width), str(latent)]
    made = subprocess.run(
        command,
        env=os.environ | {"TRITON_INTERPRET": "0"},
        check=True,
        timeout=300,
        capture_output=True,
        text=True,
    )
    sizes = [int(line) for line in made.stdout.split()]
    assert len(sizes) == 3
    assert max(sizes) <= SHARED_MEMORY


def shared_memory(noise: int, width: int, latent: int, energy: str, rows: int) -> int:
    """Bytes a program."""
    import triton
    from triton.backends.compiler import GPUTarget

    from uivi.kernels.triton_moves import moves_kernel

    shapes = {"eps": (9, noise), "momenta": (2, 9, noise), "uniforms": (2, 9), "step": (), "b2": (width,)}
    shapes |= {"first_bias": (9, width), "w1": (width, noise), "w2": (width, width), "w3": (latent, width)}
    shapes |= {"centre": (9, latent), "precision": (latent,)}
    lanes = MoveInputs(**{name: jnp.zeros((1, *shape)) for name, shape in shapes.items()})
    call = kernel_call(lanes, 5, energy, Tiling(rows=rows))
    names = [name for name in moves_kernel.arg_names if name not in call.constants]
    types = {name: "*fp16" if name == "w2_pieces" else "*fp32" for name in names}
    types |= dict.fromkeys(call.constants, "constexpr")
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(len(names))}
    source = triton.compiler.ASTSource(moves_kernel, types, call.constants, aligned)
    options = {"num_warps": call.tiling.num_warps, "num_stages": call.tiling.num_stages}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).metadata.shared


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    for energy, rows in (("f16x3", 16), ("f16x3", 32), ("tf32x3", 32)):
        print(shared_memory(*map(int, sys.argv[1:]), energy, rows))
