"""Products and sums of the fused kernels, on tiles in registers. Importing this module needs Triton.

Tiles have shape (features, chains). Weights are the left factors of the tensor core products, because a right
factor may have as few as 8 columns, which fits a few chains. Hidden units have shape (G, units / G, chains):
each of the G warps has its own units of all chains, so products with w1 and w2 need no sum across warps.
Products with w2 go in steps of `STEP` units: a width of 200 takes 13 steps instead of the 16 of its padded
size.

`no_type_check` keeps run-time type checkers away from functions that Python does not run.
"""

from typing import no_type_check

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

SCALE = tl.constexpr(2048.0)
"""Factor of low pieces, 2^11, which keeps them clear of float16's subnormals. It equals `launch.LOW_SCALE`."""
STEP = tl.constexpr(16)
"""Hidden units in one step of a product: the depth of one tensor core product. It equals `moves.STEP`."""


@triton.jit
@no_type_check
def tile(array, row, column, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STRIDE: tl.constexpr):
    """Reads elements (row, column) of a matrix in memory, 0 beyond its ends. The indices must broadcast."""
    return tl.load(array + row * STRIDE + column, mask=(row < ROWS) & (column < COLUMNS), other=0.0)


@triton.jit
@no_type_check
def pieces(x):
    """Splits x into two float16 tiles with x = high + low / SCALE to 22 bits.

    A product x y is then high_x high_y + (high_x low_y + low_x high_y) / SCALE: three float16 products. The
    fourth, low_x low_y / SCALE², is at most 2^-22 of the whole.
    """
    high = x.to(tl.float16)
    # The difference is exact in float32, so the low piece loses nothing but its own rounding.
    return high, ((x - high.to(tl.float32)) * SCALE).to(tl.float16)


@triton.jit
@no_type_check
def relu(x):
    """Returns max(x, 0). NaN stays NaN, so that a trajectory with a NaN is rejected and not taken for zeros."""
    return tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
@no_type_check
def spread(weight, x, start):
    """Returns start + weight x, where every warp computes its own units from all features of x.

    `weight` has shape (G, units / G, features). `input_precision` matters for float32 factors only.
    """
    every = tl.broadcast_to(
        tl.reshape(x, (1, x.shape[0], x.shape[1])), (weight.shape[0], x.shape[0], x.shape[1])
    )
    return tl.dot(weight, every, acc=start, input_precision="tf32x3")


@triton.jit
@no_type_check
def sum_groups(parts):
    """Sums (G, rows, columns) over G, which is at most 16.

    The transpose brings all groups of an element into one thread, and the splits then add within it. `tl.sum`
    would shuffle values between threads at every level.
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
    """Splits hidden units into a tuple of (STEP, chains), the right factors of `product`."""
    return _row_steps(tl.reshape(units, (units.shape[0] * units.shape[1], units.shape[2])))


@triton.jit
@no_type_check
def _row_steps(x):
    # Triton cannot slice a tile, but it can split an axis of size 2: halve until the size is STEP.
    if x.shape[0] == STEP:
        steps = (x,)
    else:
        left, right = tl.split(tl.trans(tl.reshape(x, (2, x.shape[0] // 2, x.shape[1])), (1, 2, 0)))
        steps = _row_steps(left) + _row_steps(right)
    return steps


@triton.jit
@no_type_check
def column_steps(x):
    """Splits (G, units / G, units) into a tuple of (G, units / G, STEP), the left factors of `product`."""
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
    """Returns start + weights x over the first NUM steps.

    Even and odd steps have separate sums. Each step of a sum waits for the one before, so two sums keep the
    tensor cores twice as busy.
    """
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
    """Returns start + weight x over the steps from FIRST on, with the weight read from memory (L2)."""
    NUM: tl.constexpr = (H + STEP - 1) // STEP
    for k in range(FIRST, NUM):
        column = k * STEP + tl.arange(0, STEP)[None, None, :]
        # A tuple cannot be indexed by a loop variable, so step k is chosen by comparisons. The loop is not
        # unrolled, so that Triton pipelines its reads.
        factor = x[FIRST]
        for j in tl.static_range(FIRST + 1, NUM):
            factor = tl.where(k == j, x[j], factor)
        start = spread(tile(weight, units, column, H, H, H), factor, start)
    return start


@triton.jit
@no_type_check
def log_densities(x, rest, precision, squares):
    """Returns the log density of each chain, and half the sum of its `squares`.

    One reduction computes both where the sizes allow it, since each reduction waits for all warps.
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
    """Adds two pairs of numbers: the step of a reduction that computes two sums."""
    return a + c, b + d
