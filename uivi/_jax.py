"""How JAX compiles and promotes: the settings that the rest of the package shares."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax

P = ParamSpec("P")
R = TypeVar("R")

_READY_MADE: dict[str, Any] = {"compiler_options": {"xla_gpu_enable_triton_gemm": False}}


def seldom_jit(function: Callable[P, R]) -> Callable[P, R]:
    """`eqx.filter_jit` for programs that run only a few times, such as evaluations.

    On a GPU, XLA compiles and times dozens of variants of every matrix product, which takes up to a minute for
    an evaluation. This leaves the products to cuBLAS. Do not call the result inside another compiled function.
    """
    return eqx.filter_jit(function, **_READY_MADE)


@contextlib.contextmanager
def ordinary_promotion() -> Iterator[None]:
    """JAX's ordinary promotion rules, which BlackJAX, NumPyro and PyTensor need.

    The user may have made the rules strict.
    """
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield
