"""How programs that run a few times only are compiled."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx

P = ParamSpec("P")
R = TypeVar("R")

_READY_MADE: dict[str, Any] = {"compiler_options": {"xla_gpu_enable_triton_gemm": False}}


def seldom_jit(function: Callable[P, R]) -> Callable[P, R]:
    """`eqx.filter_jit` for evaluation, by products that are ready made.

    On a GPU XLA compiles and times dozens of forms of every product: half a minute to a minute for a program of
    evaluation. This leaves the products to cuBLAS. Not to be called inside another compiled function.
    """
    return eqx.filter_jit(function, **_READY_MADE)
