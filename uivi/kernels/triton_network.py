"""Layers, energies and forces of the fused kernel, on tiles in registers. Importing it needs Triton.

Tiles are transposed, (features, chains): the weights are then the left factor of every product, and one
bfloat16 tile of w2 in shared memory serves the forward product and, read transposed, the backward one.

Precisions, by Triton's names: "tf32x3" is float32 but for its last bits, "bf16x3" has 17 bits, "bf16" 8.
`no_type_check` keeps run-time type checkers off functions that Python does not run.
"""

from typing import no_type_check

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]


@triton.jit
@no_type_check
def tile(array, row, column, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STRIDE: tl.constexpr):
    """Elements (row, column) of a matrix in memory, 0 beyond its ends; the index arrays must broadcast."""
    return tl.load(array + row * STRIDE + column, mask=(row < ROWS) & (column < COLUMNS), other=0.0)


@triton.jit
@no_type_check
def _relu(x):
    return tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
@no_type_check
def grouped(WIDTH: tl.constexpr, G: tl.constexpr):
    """The indices 0 to WIDTH as (groups, 1, WIDTH / groups): the columns of `_contract`'s matrix."""
    return tl.arange(0, G)[:, None, None] * (WIDTH // G) + tl.arange(0, WIDTH // G)[None, None, :]


@triton.jit
@no_type_check
def _contract(groups, x, PRECISION: tl.constexpr):
    """The product with x of a matrix of few rows, given as (groups, rows, columns / groups).

    With one group a warp the warps share the sum; a plain product would have each warp do all of it.
    """
    parts = tl.reshape(x, (groups.shape[0], groups.shape[2], x.shape[1]))
    return tl.sum(tl.dot(groups, parts, input_precision=PRECISION), 0)


@triton.jit
@no_type_check
def _first_layer(
    unit,
    x,
    w1,
    first_bias,
    chain,
    N: tl.constexpr,
    E: tl.constexpr,
    H: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Some units of the first layer before the ReLU, from float32 weights in memory."""
    weight = tile(w1, unit[:, None], tl.arange(0, x.shape[0])[None, :], H, E, E)
    bias = tile(first_bias, chain[None, :], unit[:, None], N, H, H)
    return tl.dot(weight, x, input_precision=PRECISION) + bias


@triton.jit
@no_type_check
def second_layer(
    x,
    w1,
    first_bias,
    w2,
    w2_high,
    w2_low,
    second_bias,
    chain,
    N: tl.constexpr,
    E: tl.constexpr,
    H: tl.constexpr,
    CHUNK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The second layer before the ReLU, with a matrix read (from L2) in blocks of CHUNK columns.

    That is float32 w2; for "bf16x3" it is w2_low, what w2_high, a tile on the chip, lacks of w2.
    """
    WIDTH: tl.constexpr = second_bias.shape[0]
    row = tl.arange(0, WIDTH)
    second = tl.zeros((WIDTH, x.shape[1]), tl.float32) + second_bias
    for k in range(0, WIDTH, CHUNK):
        column = k + tl.arange(0, CHUNK)
        part = _relu(_first_layer(column, x, w1, first_bias, chain, N, E, H, PRECISION))
        if PRECISION == "bf16x3":
            block = tile(w2_low, row[:, None], column[None, :], H, H, H)
            second = tl.dot(block, part.to(tl.bfloat16), acc=second)
        else:
            block = tile(w2, row[:, None], column[None, :], H, H, H)
            second = tl.dot(block, part, acc=second, input_precision=PRECISION)
    if PRECISION == "bf16x3":
        first = _relu(_first_layer(row, x, w1, first_bias, chain, N, E, H, PRECISION))
        high = first.to(tl.bfloat16)
        second = tl.dot(w2_high, (first - high.to(tl.float32)).to(tl.bfloat16), acc=second)
        second = tl.dot(w2_high, high, acc=second)
    return second


@triton.jit
@no_type_check
def log_density(
    x, second, w3, centre, precision, D: tl.constexpr, H: tl.constexpr, G: tl.constexpr, PRECISION: tl.constexpr
):
    """Of each chain, from the second layer before the ReLU."""
    latent = tl.arange(0, centre.shape[0])[None, :, None]
    w3_groups = tile(w3, latent, grouped(second.shape[0], G), D, H, H)
    rest = centre - _contract(w3_groups, _relu(second), PRECISION)
    return -0.5 * tl.sum(precision * rest * rest, 0) - 0.5 * tl.sum(x * x, 0)


@triton.jit
@no_type_check
def resident_force(x, bias, w1, w1_groups, w2, w2_back, second_bias, w3_groups, w3_back, centre, precision):
    """The gradient of the log density, with bfloat16 factors that are all on the chip."""
    first = tl.dot(w1, x.to(tl.bfloat16)) + bias
    second = tl.dot(w2, _relu(first).to(tl.bfloat16)) + second_bias
    rest = centre - _contract(w3_groups, _relu(second).to(tl.bfloat16), "ieee")
    back = tl.dot(w3_back, (precision * rest).to(tl.bfloat16))
    back = tl.dot(w2_back, tl.where(second > 0, back, 0.0).to(tl.bfloat16))
    return _contract(w1_groups, tl.where(first > 0, back, 0.0).to(tl.bfloat16), "ieee") - x


@triton.jit
@no_type_check
def streamed_force(
    x,
    w1,
    first_bias,
    w2,
    w2_high,
    w2_low,
    second_bias,
    w3,
    centre,
    precision,
    chain,
    N: tl.constexpr,
    E: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    CHUNK: tl.constexpr,
    G: tl.constexpr,
    FORCE: tl.constexpr,
):
    """The same gradient with float32 factors: w2 does not fit on the chip and is read twice."""
    WIDTH: tl.constexpr = second_bias.shape[0]
    unit, noise, latent = tl.arange(0, WIDTH), tl.arange(0, x.shape[0]), tl.arange(0, centre.shape[0])
    second = second_layer(x, w1, first_bias, w2, w2_high, w2_low, second_bias, chain, N, E, H, CHUNK, FORCE)
    w3_groups = tile(w3, latent[None, :, None], grouped(WIDTH, G), D, H, H)
    w3_back = tile(w3, latent[None, :], unit[:, None], D, H, H)
    rest = centre - _contract(w3_groups, _relu(second), FORCE)
    back = tl.where(second > 0, tl.dot(w3_back, precision * rest, input_precision=FORCE), 0.0)
    force = -x
    for k in range(0, WIDTH, CHUNK):
        column = k + tl.arange(0, CHUNK)
        part = _first_layer(column, x, w1, first_bias, chain, N, E, H, FORCE)
        block = tile(w2, unit[:, None], column[None, :], H, H, H)
        part_back = tl.where(part > 0, tl.dot(tl.trans(block), back, input_precision=FORCE), 0.0)
        w1_part = tile(w1, column[None, :], noise[:, None], H, E, E)
        force = tl.dot(w1_part, part_back, acc=force, input_precision=FORCE)
    return force
