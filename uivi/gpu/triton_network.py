"""Products and sums of the fused kernel, on tiles in registers. Importing it needs Triton.

Tiles are (features, chains): weights are the left factors of the tensor cores' products, whose right factors
have 8 columns. Hidden units are (G, units / G, chains): each of the G warps has its own units of all chains.
Products with w2 go in steps of `STEP` units, so that a width of 200 takes 13 steps, not 16.

`no_type_check` keeps run-time type checkers off functions that Python does not run.
"""

from typing import no_type_check

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

SCALE = tl.constexpr(2048.0)
"""Of low pieces, 2^11: they stay clear of float16's subnormals. `moves` has it too."""
STEP = tl.constexpr(16)
"""Units a step. `moves` has it too."""


@triton.jit
@no_type_check
def tile(array, row, column, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STRIDE: tl.constexpr):
    """Elements (row, column) of a matrix in memory, 0 beyond its ends; the index arrays must broadcast."""
    return tl.load(array + row * STRIDE + column, mask=(row < ROWS) & (column < COLUMNS), other=0.0)


@triton.jit
@no_type_check
def pieces(x):
    """Two float16 tiles with x = high + low / SCALE to 22 bits."""
    high = x.to(tl.float16)
    return high, ((x - high.to(tl.float32)) * SCALE).to(tl.float16)


@triton.jit
@no_type_check
def relu(x):
    """NaN stays NaN."""
    return tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
@no_type_check
def spread(weight, x, start):
    """Start + weight x: every warp computes its units, (G, units / G, features), from all features of x."""
    every = tl.broadcast_to(
        tl.reshape(x, (1, x.shape[0], x.shape[1])), (weight.shape[0], x.shape[0], x.shape[1])
    )
    return tl.dot(weight, every, acc=start, input_precision="tf32x3")


@triton.jit
@no_type_check
def sum_groups(parts):
    """Of (G, rows, columns), over G of at most 16.

    The split brings all groups of an element into one thread. `tl.sum` would shuffle.
    """
    total = tl.trans(parts, (1, 2, 0))
    for _ in tl.static_range(4):
        if total.shape[2] > 1:
            pairs = tl.reshape(total, (total.shape[0], total.shape[1], total.shape[2] // 2, 2))
            left, right = tl.split(pairs)
            total = left + right
    return tl.reshape(total, (total.shape[0], total.shape[1]))


@triton.jit
@no_type_check
def unit_steps(units):
    """The tuple of all (STEP, chains) of hidden units, as the right factors of `product`."""
    return _row_steps(tl.reshape(units, (units.shape[0] * units.shape[1], units.shape[2])))


@triton.jit
@no_type_check
def _row_steps(x):
    if x.shape[0] == STEP:
        steps = (x,)
    else:
        left, right = tl.split(tl.trans(tl.reshape(x, (2, x.shape[0] // 2, x.shape[1])), (1, 2, 0)))
        steps = _row_steps(left) + _row_steps(right)
    return steps


@triton.jit
@no_type_check
def column_steps(x):
    """The tuple of all (G, units / G, STEP) of a (G, units / G, units)."""
    if x.shape[2] == STEP:
        steps = (x,)
    else:
        halves = tl.reshape(x, (x.shape[0], x.shape[1], 2, x.shape[2] // 2))
        left, right = tl.split(tl.trans(halves, (0, 1, 3, 2)))
        steps = column_steps(left) + column_steps(right)
    return steps


@triton.jit
@no_type_check
def product(weights, x, start, NUM: tl.constexpr):
    """Start + weights x over the first NUM steps. Two sums, since each step of a sum waits for the last."""
    even, odd = start, 0.0 * start
    for k in tl.static_range(NUM):
        if k % 2 == 0:
            even = spread(weights[k], x[k], even)
        else:
            odd = spread(weights[k], x[k], odd)
    return even + odd


@triton.jit
@no_type_check
def streamed(weight, units, x, start, FIRST: tl.constexpr, H: tl.constexpr):
    """Start + weight x over the steps from FIRST on, with the weight read from memory (L2)."""
    NUM: tl.constexpr = (H + STEP - 1) // STEP
    for k in range(FIRST, NUM):
        column = k * STEP + tl.arange(0, STEP)[None, None, :]
        factor = x[FIRST]
        for j in tl.static_range(FIRST + 1, NUM):
            factor = tl.where(k == j, x[j], factor)
        start = spread(tile(weight, units, column, H, H, H), factor, start)
    return start


@triton.jit
@no_type_check
def log_densities(x, rest, precision, squares):
    """Of each chain: its log density, and half the sum of the squares.

    In one sum, since each sum waits for all warps.
    """
    place, noise = precision * rest * rest, x * x
    if x.shape[0] == rest.shape[0]:
        place, squares = tl.reduce((place + noise, squares), 0, add_pairs)
    else:
        noise, squares = tl.reduce((noise, squares), 0, add_pairs)
        place = tl.sum(place, 0) + noise
    return -0.5 * place, 0.5 * squares


@triton.jit
@no_type_check
def add_pairs(a, b, c, d):
    """Two sums in one reduction."""
    return a + c, b + d
