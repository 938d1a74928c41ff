"""JAX's promotion rules, as other libraries need them."""

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def ordinary_promotion() -> Iterator[None]:
    """BlackJAX, NumPyro and PyTensor rely on JAX's ordinary rules, which the user may have made strict."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield
