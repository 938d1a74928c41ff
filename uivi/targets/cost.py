"""What a log density costs, counted in its program: the same on every machine, at every load."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from uivi.targets.base import AbstractTarget
from uivi.targets.traced import TracedTarget

_CUBIC = ("cholesky", "triangular_solve", "eigh", "lu", "qr", "svd", "householder_product")
"""Operations on matrices that cost their side for each number of the result."""
_SLOW = {
    "pow": 10,
    "cumsum": 10,
    "erf_inv": 10,
    "cos": 25,
    "sin": 25,
    "tan": 25,
    "lgamma": 50,
    "digamma": 50,
    "polygamma": 500,
    "igamma": 500,
    "igammac": 500,
    "sort": 500,
    "regularized_incomplete_beta": 2_500,
}
"""Cost of functions that take far longer than an exponential, measured on a CPU."""
SIDE_BY_SIDE, PRODUCT = 256, 0.01
"""Number of evaluations in one program, and the cost of a multiplication inside a product of matrices, measured
on a CPU."""
UNKNOWN_TURNS = 10
"""Turns of a loop whose number is not known before it runs."""


def operations(target: AbstractTarget) -> int:
    """Returns the rough number of operations of one evaluation of a traced target; 0 for any other."""
    return int(_of_jaxpr(target.function.program.jaxpr, 1.0)) if isinstance(target, TracedTarget) else 0


def operations_side_by_side(log_density: Callable, dim: int) -> float:
    """Returns the rough number of operations of an evaluation of a log density among many others.

    Products of a matrix with many vectors at once are products of matrices, which are far cheaper.
    """
    many = jax.ShapeDtypeStruct((SIDE_BY_SIDE, dim), jax.dtypes.canonicalize_dtype(float))
    return _of_jaxpr(jax.make_jaxpr(jax.vmap(log_density))(many).jaxpr, PRODUCT) / SIDE_BY_SIDE


def _of_jaxpr(jaxpr: Jaxpr, product: float) -> float:
    return math.fsum(_of_equation(equation, product) for equation in jaxpr.eqns)


def _of_equation(equation: JaxprEqn, product: float) -> float:
    name, params = str(equation.primitive), equation.params
    inside = math.fsum(_of_jaxpr(jaxpr, product) for jaxpr in _inner(params))
    if inside:
        turns: int = {"scan": params.get("length", 1), "while": UNKNOWN_TURNS}.get(name, 1)
        return turns * inside
    size = sum(math.prod(_shape(variable)) for variable in equation.outvars)
    given = _shape(equation.invars[0]) if equation.invars else ()
    if name == "dot_general":
        axes: tuple[int, ...] = params["dimension_numbers"][0][0]
        return product * size * math.prod(given[axis] for axis in axes)
    if name in _CUBIC and given:
        return float(size * given[-1])
    # A reduction reads more than it writes.
    return float(max(size, math.prod(given)) * _SLOW.get(name, 1))


def _shape(variable: Var | Literal) -> tuple[int, ...]:
    """Returns the shape of an array, and () for what is no array, such as a token."""
    return tuple(getattr(variable.aval, "shape", ()))


def _inner(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """Yields the programs that an operation calls; of the branches of a condition, all."""
    for value in params.values():
        for each in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(each, ClosedJaxpr):
                yield each.jaxpr
            elif isinstance(each, Jaxpr):
                yield each
