"""The Triton program behind `fused_moves`. Importing this module needs Triton.

Tiles are transposed, (features, chains): the weights are then the left factor of every product, and one
bfloat16 copy of w2 in shared memory serves the forward product and, read transposed, the backward one.
`no_type_check` keeps run-time type checkers off functions that Python does not run.
"""

from typing import no_type_check

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]


@triton.jit
@no_type_check
def _tile(array, row, column, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STRIDE: tl.constexpr):
    """Elements (row, column) of a matrix in memory, 0 beyond its ends; the index arrays must broadcast."""
    return tl.load(array + row * STRIDE + column, mask=(row < ROWS) & (column < COLUMNS), other=0.0)


@triton.jit
@no_type_check
def _relu(x):
    return tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
@no_type_check
def _grouped(WIDTH: tl.constexpr, G: tl.constexpr):
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
    k,
    x,
    w1,
    first_bias,
    chain,
    N: tl.constexpr,
    E: tl.constexpr,
    H: tl.constexpr,
    CHUNK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Units k to k + CHUNK of the first layer before the ReLU, in float32."""
    unit = k + tl.arange(0, CHUNK)[:, None]
    weight = _tile(w1, unit, tl.arange(0, x.shape[0])[None, :], H, E, E)
    bias = _tile(first_bias, chain[None, :], unit, N, H, H)
    return tl.dot(weight, x, input_precision=PRECISION) + bias


@triton.jit
@no_type_check
def _second_layer(
    x,
    w1,
    first_bias,
    w2,
    second_bias,
    chain,
    N: tl.constexpr,
    E: tl.constexpr,
    H: tl.constexpr,
    CHUNK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The second layer before the ReLU; float32 w2 is read (from L2) in blocks of CHUNK columns."""
    WIDTH: tl.constexpr = second_bias.shape[0]
    second = tl.zeros((WIDTH, x.shape[1]), tl.float32) + second_bias
    for k in range(0, WIDTH, CHUNK):
        first = _first_layer(k, x, w1, first_bias, chain, N, E, H, CHUNK, PRECISION)
        block = _tile(w2, tl.arange(0, WIDTH)[:, None], k + tl.arange(0, CHUNK)[None, :], H, H, H)
        second = tl.dot(block, _relu(first), acc=second, input_precision=PRECISION)
    return second


@triton.jit
@no_type_check
def _value(
    x, second, w3, centre, precision, D: tl.constexpr, H: tl.constexpr, G: tl.constexpr, ENERGY: tl.constexpr
):
    """The log density of each chain, from the second layer before the ReLU."""
    latent = tl.arange(0, centre.shape[0])[None, :, None]
    w3_groups = _tile(w3, latent, _grouped(second.shape[0], G), D, H, H)
    rest = centre - _contract(w3_groups, _relu(second), ENERGY)
    return -0.5 * tl.sum(precision * rest * rest, 0) - 0.5 * tl.sum(x * x, 0)


@triton.jit
@no_type_check
def _resident_force(x, bias, w1, w1_groups, w2, w2_back, second_bias, w3_groups, w3_back, centre, precision):
    """The gradient of the log density, with bfloat16 products and all weights on the chip."""
    first = tl.dot(w1, x.to(tl.bfloat16)) + bias
    second = tl.dot(w2, _relu(first).to(tl.bfloat16)) + second_bias
    rest = centre - _contract(w3_groups, _relu(second).to(tl.bfloat16), "ieee")
    back = tl.dot(w3_back, (precision * rest).to(tl.bfloat16))
    back = tl.dot(w2_back, tl.where(second > 0, back, 0.0).to(tl.bfloat16))
    return _contract(w1_groups, tl.where(first > 0, back, 0.0).to(tl.bfloat16), "ieee") - x


@triton.jit
@no_type_check
def _streamed_force(
    x,
    w1,
    first_bias,
    w2,
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
    second = _second_layer(x, w1, first_bias, w2, second_bias, chain, N, E, H, CHUNK, FORCE)
    unit, noise, latent = tl.arange(0, WIDTH), tl.arange(0, x.shape[0]), tl.arange(0, centre.shape[0])
    w3_groups = _tile(w3, latent[None, :, None], _grouped(WIDTH, G), D, H, H)
    w3_back = _tile(w3, latent[None, :], unit[:, None], D, H, H)
    rest = centre - _contract(w3_groups, _relu(second), FORCE)
    back = tl.where(second > 0, tl.dot(w3_back, precision * rest, input_precision=FORCE), 0.0)
    force = -x
    for k in range(0, WIDTH, CHUNK):
        first = _first_layer(k, x, w1, first_bias, chain, N, E, H, CHUNK, FORCE)
        column = k + tl.arange(0, CHUNK)[None, :]
        block = _tile(w2, unit[:, None], column, H, H, H)
        first_back = tl.where(first > 0, tl.dot(tl.trans(block), back, input_precision=FORCE), 0.0)
        force = tl.dot(_tile(w1, column, noise[:, None], H, E, E), first_back, acc=force, input_precision=FORCE)
    return force


@triton.jit
@no_type_check
def moves_kernel(
    eps,
    momenta,
    uniforms,
    step,
    first_bias,
    w1,
    w2,
    w2_bf16,
    b2,
    w3,
    centre,
    precision,
    eps_out,
    probability_out,
    accepted_out,
    bad_out,
    N: tl.constexpr,
    T: tl.constexpr,
    L: tl.constexpr,
    E: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    NOISE: tl.constexpr,
    WIDTH: tl.constexpr,
    LATENT: tl.constexpr,
    ROWS: tl.constexpr,
    CHUNK: tl.constexpr,
    G: tl.constexpr,
    FORCE: tl.constexpr,
    ENERGY: tl.constexpr,
):
    """T moves of ROWS chains of one lane; program (lane, tile of chains).

    The arrays are those of `MoveInputs` and `Moves` with a leading lane axis. N, T, L leapfrogs, E, H and
    D are the true sizes, NOISE, WIDTH and LATENT the padded ones of E, H and D.
    """
    lane = tl.program_id(0).to(tl.int64)
    momenta += lane * T * N * E
    uniforms += lane * T * N
    first_bias += lane * N * H
    w1 += lane * H * E
    w2 += lane * H * H
    w3 += lane * D * H
    eps_out += lane * T * N * E
    probability_out += lane * T * N
    accepted_out += lane * T * N
    bad_out += lane * T * N

    chain = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    noise, unit, latent = tl.arange(0, NOISE), tl.arange(0, WIDTH), tl.arange(0, LATENT)
    step_size = tl.load(step + lane)
    x = _tile(eps + lane * N * E, chain[None, :], noise[:, None], N, E, E)
    goal = _tile(centre + lane * N * D, chain[None, :], latent[:, None], N, D, D)
    weights = tl.load(precision + lane * D + latent, mask=latent < D, other=0.0)[:, None]
    second_bias = tl.load(b2 + lane * H + unit, mask=unit < H, other=0.0)[:, None]
    # What only a bfloat16 force uses is not loaded for the others: the compiler drops it.
    bias = _tile(first_bias, chain[None, :], unit[:, None], N, H, H)
    w1_low = _tile(w1, unit[:, None], noise[None, :], H, E, E).to(tl.bfloat16)
    w3_back = _tile(w3, latent[None, :], unit[:, None], D, H, H).to(tl.bfloat16)
    w1_groups = _tile(w1, _grouped(WIDTH, G), noise[None, :, None], H, E, E).to(tl.bfloat16)
    w3_groups = _tile(w3, latent[None, :, None], _grouped(WIDTH, G), D, H, H).to(tl.bfloat16)
    w2_low = _tile(w2_bf16 + lane * H * H, unit[:, None], unit[None, :], H, H, H)
    w2_back = tl.trans(w2_low)

    value = tl.zeros((ROWS,), tl.float32)
    force = tl.zeros((NOISE, ROWS), tl.float32)
    # Move -1 stays at the start (step and momentum 0), and so finds the force and the value there.
    for move in range(-1, T):
        is_move = move >= 0
        moving = chain < tl.where(is_move, N, 0)
        state_at = move * N * E + chain[None, :] * E + noise[:, None]
        state_mask = moving[None, :] & (noise[:, None] < E)
        h = tl.where(is_move, step_size, 0.0)
        start = tl.load(momenta + state_at, mask=state_mask, other=0.0)
        end, momentum, end_force = x, start, force
        for _ in range(L if is_move else 1):
            momentum += 0.5 * h * end_force
            end += h * momentum
            if FORCE == "bf16":
                end_force = _resident_force(
                    end,
                    bias,
                    w1_low,
                    w1_groups,
                    w2_low,
                    w2_back,
                    second_bias,
                    w3_groups,
                    w3_back,
                    goal,
                    weights,
                )
            else:
                end_force = _streamed_force(
                    end, w1, first_bias, w2, second_bias, w3, goal, weights, chain, N, E, H, D, CHUNK, G, FORCE
                )
            momentum += 0.5 * h * end_force
        second = _second_layer(end, w1, first_bias, w2, second_bias, chain, N, E, H, CHUNK, ENERGY)
        end_value = _value(end, second, w3, goal, weights, D, H, G, ENERGY)
        gain = end_value - value + 0.5 * tl.sum(start * start - momentum * momentum, 0)
        # A comparison with NaN is false: gains and values that are not finite end here.
        probability = tl.where(tl.abs(gain) < float("inf"), tl.exp(tl.minimum(gain, 0.0)), 0.0)
        bad = tl.where(tl.abs(end_value) < float("inf"), 0.0, 1.0)
        uniform = tl.load(uniforms + move * N + chain, mask=moving, other=0.0)
        accept = (uniform < probability) | (chain >= tl.where(is_move, N, 0))
        x = tl.where(accept[None, :], end, x)
        force = tl.where(accept[None, :], end_force, force)
        value = tl.where(accept, end_value, value)
        tl.store(eps_out + state_at, x, mask=state_mask)
        tl.store(probability_out + move * N + chain, probability, mask=moving)
        tl.store(accepted_out + move * N + chain, accept.to(tl.float32), mask=moving)
        tl.store(bad_out + move * N + chain, bad, mask=moving)
