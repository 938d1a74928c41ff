"""PyTensor graphs as JAX functions, without PyTensor's side effects on the user's process."""

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from uivi._jax import ordinary_promotion
from uivi.integrations._optional import needs


@contextlib.contextmanager
def settings_kept() -> Iterator[None]:
    """Undoes two side effects of importing PyMC's JAX functions: x64 mode and a request for 100 devices."""
    x64, flags = jax.config.values["jax_enable_x64"], os.environ.get("XLA_FLAGS")
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", x64)
        os.environ.pop("XLA_FLAGS", None)
        if flags is not None:
            os.environ["XLA_FLAGS"] = flags


with settings_kept(), needs("PyMC 5 or 6", extra="pymc"):
    from pymc.sampling.jax import get_jaxified_graph


def translate(inputs: Sequence[Any], outputs: Sequence[Any]) -> Callable[..., list[jax.Array]]:
    """Returns a compiled JAX function from values of `inputs` to values of `outputs`, in the user's float type.

    Raises:
        ValueError: if PyTensor cannot translate the graph.
    """
    try:
        with _pytensor_rules():
            function = get_jaxified_graph(inputs=list(inputs), outputs=list(outputs))
    except Exception as error:
        raise untranslatable(error) from error
    compiled = jax.jit(function)

    def call(*values: jax.Array) -> list[jax.Array]:
        with _pytensor_rules():
            return list(compiled(*values))

    return call


def untranslatable(error: Exception) -> ValueError:
    """Returns the error for a failed translation."""
    return ValueError(
        "expected a model that PyTensor can translate to JAX: avoid the operation named below, or register it "
        f"with pytensor.link.jax.dispatch.jax_funcify\n{type(error).__name__}: {error}"
    )


@contextlib.contextmanager
def _pytensor_rules() -> Iterator[None]:
    """Runs PyTensor's functions under JAX's ordinary promotion rules, without warnings about float64.

    PyTensor asks for float64 by name. Without x64, JAX uses float32 and would warn at each place.
    """
    with ordinary_promotion(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Explicitly requested dtype", UserWarning)
        yield
