"""How JAX compiles and promotes: the settings that the rest of the package shares."""

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jaxtyping import PyTree
from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
R = TypeVar("R")

LESS_OPTIMISED: dict[str, Any] = {"xla_backend_optimization_level": 1}
"""LLVM's level 1 instead of 3. It halves the time that a CPU program takes to compile, and the result is as
fast: the loops are XLA's own, and matrix products come from a library."""
_PLAIN: dict[str, Any] = {"xla_backend_optimization_level": 0}
_READY_MADE: dict[str, Any] = LESS_OPTIMISED | {"xla_gpu_enable_triton_gemm": False}


def seldom_jit(function: Callable[P, R]) -> Callable[P, R]:
    """`eqx.filter_jit` for programs that run only a few times, such as evaluations.

    On a GPU, XLA compiles and times dozens of variants of every matrix product, which takes up to a minute for
    an evaluation. This leaves the products to cuBLAS. Inside another compiled function, the result is the
    function itself.
    """
    return _jit(function, _READY_MADE)


def once_jit(function: Callable[P, R]) -> Callable[P, R]:
    """`seldom_jit` for small programs that run once or twice: XLA does not optimise them at all."""
    return _jit(function, _READY_MADE | _PLAIN)


def _jit(function: Callable[P, R], compiler_options: dict[str, Any]) -> Callable[P, R]:
    options: dict[str, Any] = {"compiler_options": compiler_options}
    compiled = eqx.filter_jit(function, **options)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        # JAX refuses compiler options of a nested call.
        chosen = function if _is_traced() else compiled
        return chosen(*args, **kwargs)

    call.__dict__["compiled"] = compiled
    return call


def _is_traced() -> bool:
    """Whether this code runs inside a function that JAX compiles. Only the long name of JAX tells."""
    return getattr(core, "unsafe_am_i_under_a_jit_DO_NOT_USE")()  # noqa: B009 - not in its public interface


def one_blas_thread() -> contextlib.AbstractContextManager:
    """Keeps BLAS to one thread while the context lasts.

    JAX takes triangular solves and Cholesky factors on a CPU from SciPy's OpenBLAS. Its threads spin while they
    wait for the next call, on the cores that XLA needs. On two cores, an update of 100 dimensions takes half
    the time without them.
    """
    return load_blas().limit(limits=1, user_api="blas")


@functools.cache
def load_blas() -> ThreadpoolController:
    """Imports the library and returns what limits its threads."""
    importlib.import_module("scipy.linalg")  # the library must be loaded before it can be found
    return ThreadpoolController()


def is_key(leaf: Any) -> bool:
    """Whether this is a typed random key, or an array of them, which NumPy cannot hold."""
    is_array = isinstance(leaf, jax.Array | jax.ShapeDtypeStruct)
    return is_array and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def strongly_typed(tree: PyTree) -> PyTree:
    """Strips weak types. A weakly typed carry would compile its program a second time."""
    strip = lambda x: jax.lax.convert_element_type(x, x.dtype) if eqx.is_inexact_array(x) else x
    return jax.tree.map(strip, tree)


def is_transformed() -> bool:
    """Whether this code runs inside `jax.jit`, `vmap`, `grad` or another transformation."""
    return core.get_opaque_trace_state() != _untransformed()


@functools.cache
def _untransformed() -> Any:
    # A new thread is outside of all transformations, wherever this is called first.
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(core.get_opaque_trace_state).result()


@contextlib.contextmanager
def without_nan_checks() -> Iterator[None]:
    """Lets numbers be NaN or infinite, whatever `jax_debug_nans` and NumPy's warnings say.

    Trial steps and draws may leave the support of a density. A fit looks for such numbers by itself.
    """
    with jax.debug_nans(new_val=False), jax.debug_infs(new_val=False), np.errstate(all="ignore"):
        yield


@contextlib.contextmanager
def ordinary_promotion() -> Iterator[None]:
    """JAX's ordinary promotion rules, which BlackJAX, NumPyro, Optax and PyTensor need.

    The user may have made the rules strict.
    """
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield
