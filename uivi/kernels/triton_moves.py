"""The Triton program behind `fused_moves`. Importing this module needs Triton."""

from typing import no_type_check

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

from uivi.kernels.triton_network import (
    force_at,
    grouped_units,
    log_density,
    output,
    output_tf32,
    pieces,
    second_layer,
    second_layer_tf32,
    tile,
)


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
    w2_pieces,
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
    w2_pieces += lane * 2 * H * H
    w3 += lane * D * H
    eps_out += lane * T * N * E
    probability_out += lane * T * N
    accepted_out += lane * T * N
    bad_out += lane * T * N

    chain = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    noise, unit, latent = tl.arange(0, NOISE), tl.arange(0, WIDTH), tl.arange(0, LATENT)
    step_size = tl.load(step + lane)
    x = tile(eps + lane * N * E, chain[:, None], noise[None, :], N, E, E)
    goal = tile(centre + lane * N * D, chain[:, None], latent[None, :], N, D, D)
    weights = tl.load(precision + lane * D + latent, mask=latent < D, other=0.0)
    # Keeps the backward pass in float16's range: it starts with at most |rest| / sigma.
    unscale = tl.sqrt(tl.max(weights, 0))
    weights = weights[None, :]
    second_bias = tl.load(b2 + lane * H + unit, mask=unit < H, other=0.0)[None, :]
    bias = tile(first_bias, chain[:, None], unit[None, :], N, H, H)
    units = grouped_units(WIDTH, G)
    w1_high, w1_low = pieces(tile(w1, unit[None, :], noise[:, None], H, E, E))
    w1_groups = tile(w1, units, noise[None, None, :], H, E, E).to(tl.float16)
    w3_high = tile(w3, latent[:, None], unit[None, :], D, H, H).to(tl.float16)
    w3_groups, w3_groups_low = pieces(tile(w3, latent[None, None, :], units, D, H, H))
    # w2_back is read from shared memory, w2_high stays in the registers (128 a thread), where Triton leaves
    # it for having two uses, one in the force and one in the energy. The sum, of one element, moves nothing:
    # without it Triton takes the transposed load for a second array in shared memory, and two do not fit.
    w2_back = tl.sum(tile(w2_pieces, unit[:, None, None], unit[None, :, None], H, H, H), 2)
    w2_high = tl.trans(w2_back)
    w2_low = w2_pieces + H * H

    value = tl.zeros((ROWS,), tl.float32)
    force = tl.zeros((ROWS, NOISE), tl.float32)
    # Move -1 stays at the start (step and momentum 0), and so finds the force and the value there.
    for move in range(-1, T):
        is_move = move >= 0
        moving = chain < tl.where(is_move, N, 0)
        state_at = move * N * E + chain[:, None] * E + noise[None, :]
        state_mask = moving[:, None] & (noise[None, :] < E)
        h = tl.where(is_move, step_size, 0.0)
        start = tl.load(momenta + state_at, mask=state_mask, other=0.0)
        end, momentum, end_force = x, start, force
        for _ in range(L if is_move else 1):
            momentum += 0.5 * h * end_force
            end += h * momentum
            end_force = force_at(
                end,
                bias,
                w1_high,
                w1_groups,
                w2_high,
                w2_back,
                second_bias,
                w3_groups,
                w3_high,
                goal,
                weights / unscale,
                unscale,
            )
            momentum += 0.5 * h * end_force
        if ENERGY == "f16x3":
            second = second_layer(end, bias, w1_high, w1_low, w2_high, w2_low, second_bias, H, CHUNK)
            rest = goal - output(second, w3_groups, w3_groups_low)
        else:
            second = second_layer_tf32(end, bias, w1, w2, second_bias, E, H, CHUNK)
            rest = goal - output_tf32(second, w3, D, H, LATENT, G)
        end_value = log_density(end, rest, weights)
        gain = end_value - value + 0.5 * tl.sum(start * start - momentum * momentum, 1)
        # A comparison with NaN is false: gains and values that are not finite end here.
        probability = tl.where(tl.abs(gain) < float("inf"), tl.exp(tl.minimum(gain, 0.0)), 0.0)
        bad = tl.where(tl.abs(end_value) < float("inf"), 0.0, 1.0)
        uniform = tl.load(uniforms + move * N + chain, mask=moving, other=0.0)
        accept = (uniform < probability) | (chain >= tl.where(is_move, N, 0))
        x = tl.where(accept[:, None], end, x)
        force = tl.where(accept[:, None], end_force, force)
        value = tl.where(accept, end_value, value)
        tl.store(eps_out + state_at, x, mask=state_mask)
        tl.store(probability_out + move * N + chain, probability, mask=moving)
        tl.store(accepted_out + move * N + chain, accept.to(tl.float32), mask=moving)
        tl.store(bad_out + move * N + chain, bad, mask=moving)
