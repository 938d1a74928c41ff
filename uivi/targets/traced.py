"""A function that is traced once: a program without data, and the data as its arguments.

Compiled code belongs to the program, not to the function. Two fits of the same program share it, with the same
data or with other data of the same shapes. A function that now computes something else gets a new program.
"""

import hashlib
import re
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun
from jaxtyping import PyTree

from uivi._jax import is_key
from uivi._types import Key, Latent, Scalar
from uivi.targets.base import AbstractGlobalTarget, AbstractTarget
from uivi.targets.density import Density
from uivi.targets.model import AbstractModelTarget, ModelTarget
from uivi.trainable import NonTrainable


class _Program:
    """A jaxpr that is equal to every other one of the same function with the same text."""

    def __init__(self, function: Hashable, jaxpr: Jaxpr, out_tree: Any):
        self.jaxpr, self.out_tree = jaxpr, out_tree
        # Constants inside nested calls are not part of the text, and are compared by identity.
        self._inner = tuple(_inner_constants(jaxpr))
        # The function as well as the text: the text shows the name of a derivative rule, not what it does.
        self._key = (function, str(jaxpr), tuple(map(id, self._inner)), out_tree)
        self._hash = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Program) and self._key == other._key)


class TracedFunction(eqx.Module):
    """A function of one array.

    Attributes:
        constants: the arrays that the function closes over.
        program: what it computes.
    """

    constants: tuple[NonTrainable, ...]
    program: _Program = eqx.field(static=True)

    @classmethod
    def create(
        cls, function: Callable, argument: jax.ShapeDtypeStruct, owner: Hashable = None
    ) -> "TracedFunction":
        """Traces `function`.

        Args:
            function: any JAX function of one array.
            argument: shape and dtype of the array.
            owner: what identifies the function in place of its own identity.
        """
        closed, shape = jax.make_jaxpr(function, return_shape=True)(argument)
        program = _Program(function if owner is None else owner, closed.jaxpr, jax.tree.structure(shape))
        return cls(tuple(NonTrainable(jax.device_put(x)) for x in closed.consts), program)

    def __call__(self, argument: jax.Array) -> PyTree:
        """Evaluates the function."""
        closed = ClosedJaxpr(self.program.jaxpr, [constant() for constant in self.constants])
        return jax.tree.unflatten(self.program.out_tree, jaxpr_as_fun(closed)(argument))


class TracedTarget(AbstractGlobalTarget):
    """A posterior without minibatches, traced.

    Attributes:
        function: its log density.
        size: size of the latent vector, D.
    """

    function: TracedFunction
    size: int = eqx.field(static=True)

    @property
    def dim(self) -> int:
        """Size of the latent vector, D."""
        return self.size

    def log_joint(self, z: Latent, site: tuple) -> Scalar:
        """Returns the log density."""
        del site
        return self.function(z)


def traced(target: AbstractTarget) -> AbstractTarget:
    """Returns a `Density` or `ModelTarget` as a `TracedTarget`, and any other target as it is."""
    if isinstance(target, Density):
        owner = target.function
    elif isinstance(target, ModelTarget):
        owner = target.model.source
    else:
        return target
    argument = jax.ShapeDtypeStruct((target.dim,), jax.dtypes.canonicalize_dtype(float))
    return TracedTarget(TracedFunction.create(target.log_density, argument, owner), target.dim)


def traced_constrain(target: AbstractModelTarget) -> TracedFunction:
    """Returns the map from z to a model's variables."""
    argument = jax.ShapeDtypeStruct((target.dim,), jax.dtypes.canonicalize_dtype(float))
    return TracedFunction.create(target.constrain, argument, target.model.source)


def digest(target: AbstractTarget) -> str:
    """Returns a hash of what a target computes, with all its numbers and data: the same in every process.

    The gradient belongs to it: a derivative rule of the user's own changes the fit, but not the log density.
    """

    def compute(key: Key, z: Latent) -> PyTree:
        site = jax.tree.map(lambda x: x[0], target.sites(key, jnp.zeros((), jnp.int32)))
        return target.context(site), jax.value_and_grad(target.log_joint)(z, site)

    argument = jax.ShapeDtypeStruct((target.dim,), jax.dtypes.canonicalize_dtype(float))
    closed = jax.make_jaxpr(compute)(jax.eval_shape(lambda: jax.random.key(0)), argument)
    # The text names functions by their addresses, which differ between processes.
    found = hashlib.sha256(re.sub(r"0x[0-9a-f]+", "", str(closed.jaxpr)).encode())
    for value in (*closed.consts, *_inner_constants(closed.jaxpr), *_literals(closed.jaxpr)):
        array = np.asarray(jax.random.key_data(value) if is_key(value) else value)
        found.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return found.hexdigest()


def _literals(jaxpr: Jaxpr) -> Iterator[Any]:
    """Yields the numbers that are written into a program: its text shortens large arrays."""
    for equation in jaxpr.eqns:
        yield from (variable.val for variable in equation.invars if isinstance(variable, Literal))
        for inner in _programs(equation):
            yield from _literals(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)


def _programs(equation: Any) -> Iterator[ClosedJaxpr | Jaxpr]:
    """Yields the programs that an operation calls."""
    values = list(equation.params.values())
    for value in jax.tree.leaves(values, is_leaf=lambda x: isinstance(x, ClosedJaxpr)):
        if isinstance(value, ClosedJaxpr | Jaxpr):
            yield value


def _inner_constants(jaxpr: Jaxpr) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        for inner in _programs(equation):
            if isinstance(inner, ClosedJaxpr):
                yield from inner.consts
            yield from _inner_constants(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)
