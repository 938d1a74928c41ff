"""Counts the floating-point operations of matrix products in a program, from its jaxpr."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr


def count_products(function: Callable, *args: Any) -> int:
    """Returns the sum of 2 m n k over the matrix products in one call of `function`.

    The body of a loop counts once per turn, or once in all if the number of turns is unknown.
    """
    return _count(jax.make_jaxpr(function)(*args).jaxpr)


def _count(program: Jaxpr) -> int:
    total = 0
    for equation in program.eqns:
        if equation.primitive.name == "dot_general":
            total += _product(equation)
        turns = equation.params["length"] if equation.primitive.name == "scan" else 1
        total += turns * sum(_count(inner) for inner in _inner(equation.params.values()))
    return total


def _product(equation: Any) -> int:
    (contracted, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval
    return 2 * math.prod(equation.outvars[0].aval.shape) * math.prod(left.shape[i] for i in contracted)


def _inner(params: Any) -> Iterator[Jaxpr]:
    for value in params:
        if isinstance(value, ClosedJaxpr):
            yield value.jaxpr
        elif isinstance(value, Jaxpr):
            yield value
        elif isinstance(value, tuple | list):
            yield from _inner(value)
