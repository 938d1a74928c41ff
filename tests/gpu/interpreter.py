"""The fused kernel in Triton's interpreter, and how its moves are compared."""

import functools
import importlib.util
import os

import jax
import numpy as np
import pytest

from uivi.gpu import Moves
from uivi.gpu.launch import KernelCall
from uivi.gpu.moves import kernel_call

# Triton decides at its import whether to interpret.
os.environ["TRITON_INTERPRET"] = "1"
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed: pip install triton==3.6.0"
)


class Pointer:
    """A NumPy array with the parts of a torch tensor's interface that the interpreter uses."""

    def __init__(self, array):
        self.dtype = {"float32": "fp32", "float16": "fp16", "int32": "i32"}[array.dtype.name]
        self.data_ptr = lambda: array.ctypes.data

    def same(self, *args, **kwargs):
        return self

    untyped_storage = cpu = new_empty = set_ = storage_offset = size = stride = copy_ = same


def interpret(lanes, num_leapfrog, adaptation=None, *, energy="f16x3", tiling=None, arrived=None) -> Moves:
    """Runs `moves_kernel` on inputs with a lane axis."""
    return interpret_call(kernel_call(lanes, num_leapfrog, adaptation, energy=energy, tiling=tiling), arrived)


def interpret_call(call: KernelCall, arrived=None) -> Moves:
    """Runs one program after the other.

    With programs that wait for each other, only the first runs, and it must find the others `arrived`.
    """
    arrays = [np.array(array) for array in call.arrays]
    outputs = [np.full(out.shape, np.nan, np.float32) for out in call.out_shape[:-1]]
    counters = np.zeros(call.out_shape[-1].shape, np.int32) if arrived is None else arrived
    grid = call.grid if arrived is None else (1,)
    with np.errstate(all="ignore"):
        call.program()[grid](*map(Pointer, [*arrays, *outputs, counters]), **call.constants)
    return Moves(*outputs)


lane = functools.partial(jax.tree.map, lambda array: array[None])


def assert_same(moves: Moves, expected: Moves, tolerance: float) -> None:
    np.testing.assert_allclose(moves.eps, expected.eps, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(moves.probability, expected.probability, atol=10 * tolerance)
    np.testing.assert_array_equal(moves.accepted, expected.accepted)
    np.testing.assert_array_equal(moves.bad, expected.bad)
    np.testing.assert_allclose(moves.step, expected.step, rtol=1e-6)
