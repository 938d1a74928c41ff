"""What a log density costs, counted in its program: the same on every machine, at every load."""

import math
from collections.abc import Iterator
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from uivi.targets.base import AbstractTarget
from uivi.targets.traced import TracedTarget

_CUBIC = ("cholesky", "triangular_solve", "eigh", "lu", "qr", "svd", "householder_product")
"""Operations on matrices that cost their side for each number of the result."""
UNKNOWN_TURNS = 10
"""Turns of a loop whose number is not known before it runs."""


def operations(target: AbstractTarget) -> int:
    """Returns the rough number of operations of one evaluation of a traced target; 0 for any other."""
    return _of_jaxpr(target.function.program.jaxpr) if isinstance(target, TracedTarget) else 0


def _of_jaxpr(jaxpr: Jaxpr) -> int:
    return sum(_of_equation(equation) for equation in jaxpr.eqns)


def _of_equation(equation: JaxprEqn) -> int:
    name, params = str(equation.primitive), equation.params
    inside = sum(map(_of_jaxpr, _inner(params)))
    if inside:
        turns = {"scan": params.get("length", 1), "while": UNKNOWN_TURNS}.get(name, 1)
        return turns * inside
    shapes = [getattr(variable.aval, "shape", ()) for variable in equation.outvars]
    size = sum(math.prod(shape) for shape in shapes)
    given: tuple[int, ...] = getattr(equation.invars[0].aval, "shape", ()) if equation.invars else ()
    if name == "dot_general":
        return size * math.prod(given[axis] for axis in params["dimension_numbers"][0][0])
    if name in _CUBIC and given:
        return size * given[-1]
    # A reduction reads more than it writes.
    return max(size, math.prod(given))


def _inner(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """Yields the programs that an operation calls; of the branches of a condition, all."""
    for value in params.values():
        for each in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(each, ClosedJaxpr):
                yield each.jaxpr
            elif isinstance(each, Jaxpr):
                yield each
