"""Force and energy of the fused kernel, on tiles in registers. Importing it needs Triton.

Tiles are (chains, features). A warp's part of such a product is, as it stands, the left factor of its next
one: only what all warps need goes through shared memory. The w2 on the chip has 11 bits ("high"); what it
lacks of the weights ("low") is streamed, scaled by `SCALE` so as to stay clear of float16's subnormals.

`no_type_check` keeps run-time type checkers off functions that Python does not run.
"""

from typing import no_type_check

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

SCALE = tl.constexpr(2048.0)
"""Of low pieces: 2^11. `moves` has it too."""


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
def _relu(x):
    return tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
@no_type_check
def grouped_units(WIDTH: tl.constexpr, G: tl.constexpr):
    """The unit that each (group, place) of `_groups` holds, of shape (G, WIDTH / G, 1)."""
    place = tl.arange(0, WIDTH // G)
    unit = tl.arange(0, G)[:, None] * 8 + (place // 8 * (8 * G) + place % 8)[None, :]
    return unit[:, :, None]


@triton.jit
@no_type_check
def _groups(x, G: tl.constexpr):
    """(chains, units) as (G, chains, units / G): with G warps, the units that each warp holds already.

    A warp holds columns 8 w to 8 w + 7 of each 8 G, so this moves nothing.
    """
    REPEATS: tl.constexpr = x.shape[1] // (8 * G)
    parts = tl.trans(tl.reshape(x, (x.shape[0], REPEATS, G, 8)), (2, 0, 1, 3))
    return tl.reshape(parts, (G, x.shape[0], REPEATS * 8))


@triton.jit
@no_type_check
def _sum_groups(parts):
    """Of (G, rows, columns), over G of at most 16.

    The split brings all groups of an element into one thread. `tl.sum` would shuffle, and leave the state of
    the chains with a copy in each warp: more registers than there are.
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
def _contract(x, groups, PRECISION: tl.constexpr):
    """The product of x with a matrix of few columns, given as (G, units / G, columns): each warp its share."""
    return _sum_groups(tl.dot(_groups(x, groups.shape[0]), groups, input_precision=PRECISION))


@triton.jit
@no_type_check
def force_at(x, bias, w1, w1_groups, w2, w2_back, second_bias, w3_groups, w3, centre, pull, unscale):
    """The gradient of the log density, with float16 factors that are all on the chip.

    `pull` is the precision divided by `unscale`, the square root of its largest entry.
    """
    first = tl.dot(x.to(tl.float16), w1) + bias
    second = tl.dot(_relu(first).to(tl.float16), w2) + second_bias
    rest = centre - _contract(_relu(second).to(tl.float16), w3_groups, "ieee")
    back = tl.dot((pull * rest).to(tl.float16), w3)
    back = tl.dot(tl.where(second > 0, back, 0.0).to(tl.float16), w2_back)
    back = tl.where(first > 0, back, 0.0).to(tl.float16)
    return _contract(back, w1_groups, "ieee") * unscale - x


@triton.jit
@no_type_check
def _chunk(x, k, CHUNK: tl.constexpr):
    """Columns k CHUNK to (k + 1) CHUNK of a tile in registers with at most 16 such chunks."""
    chunks = tl.trans(tl.reshape(x, (x.shape[0], x.shape[1] // CHUNK, CHUNK)), (0, 2, 1))
    for _ in tl.static_range(4):
        if chunks.shape[2] > 1:
            pairs = tl.reshape(chunks, (chunks.shape[0], CHUNK, chunks.shape[2] // 2, 2))
            even, odd = tl.split(pairs)
            chunks = tl.where(k % 2 == 0, even, odd)
            k = k // 2
    return tl.reshape(chunks, (chunks.shape[0], CHUNK))


@triton.jit
@no_type_check
def second_layer(x, bias, w1, w1_low, w2, w2_low, second_bias, H: tl.constexpr, CHUNK: tl.constexpr):
    """The second layer before the ReLU to 22 bits; w2_low is read (from L2) in blocks of CHUNK columns."""
    WIDTH: tl.constexpr = second_bias.shape[1]
    x_high, x_low = pieces(x)
    first = tl.dot(x_high, w1_low, acc=tl.dot(x_low, w1)) * (1.0 / SCALE)
    high, low = pieces(_relu(tl.dot(x_high, w1, acc=first + bias)))
    unit = tl.arange(0, WIDTH)
    small = tl.zeros((x.shape[0], WIDTH), tl.float32)
    for k in range(tl.cdiv(H, CHUNK)):
        column = k * CHUNK + tl.arange(0, CHUNK)
        block = tile(w2_low, unit[:, None], column[None, :], H, H, H)
        small = tl.dot(_chunk(high, k, CHUNK), tl.trans(block), acc=small)
    # In a loop, so that the energy uses w2 once: see `w2_back` in `moves_kernel`.
    second = small
    for piece in range(2):
        is_high = piece == 1
        factor = tl.where(is_high, high, low)
        second = tl.where(is_high, second * (1.0 / SCALE) + second_bias, second)
        second = tl.dot(factor, w2, acc=second)
    return second


@triton.jit
@no_type_check
def second_layer_tf32(x, bias, w1, w2, second_bias, E: tl.constexpr, H: tl.constexpr, CHUNK: tl.constexpr):
    """The same with Triton's "tf32x3" products and float32 weights from L2: slower, with float32's range."""
    WIDTH: tl.constexpr = second_bias.shape[1]
    noise, unit = tl.arange(0, x.shape[1]), tl.arange(0, WIDTH)
    weight = tile(w1, unit[None, :], noise[:, None], H, E, E)
    first = _relu(tl.dot(x, weight, input_precision="tf32x3") + bias)
    second = tl.zeros((x.shape[0], WIDTH), tl.float32) + second_bias
    for k in range(tl.cdiv(H, CHUNK)):
        column = k * CHUNK + tl.arange(0, CHUNK)
        block = tile(w2, unit[:, None], column[None, :], H, H, H)
        second = tl.dot(_chunk(first, k, CHUNK), tl.trans(block), acc=second, input_precision="tf32x3")
    return second


@triton.jit
@no_type_check
def output(second, w3_groups, w3_groups_low):
    """The output layer to 22 bits, from the second layer before the ReLU."""
    high, low = pieces(_relu(second))
    high, low = _groups(high, w3_groups.shape[0]), _groups(low, w3_groups.shape[0])
    small = tl.dot(high, w3_groups_low, acc=tl.dot(low, w3_groups)) * (1.0 / SCALE)
    return _sum_groups(tl.dot(high, w3_groups, acc=small))


@triton.jit
@no_type_check
def output_tf32(second, w3, D: tl.constexpr, H: tl.constexpr, LATENT: tl.constexpr, G: tl.constexpr):
    """The same with "tf32x3" products."""
    latent = tl.arange(0, LATENT)[None, None, :]
    groups = tile(w3, latent, grouped_units(second.shape[1], G), D, H, H)
    return _contract(_relu(second), groups, "tf32x3")


@triton.jit
@no_type_check
def log_density(x, rest, precision):
    """Of each chain."""
    return -0.5 * tl.sum(precision * rest * rest, 1) - 0.5 * tl.sum(x * x, 1)
