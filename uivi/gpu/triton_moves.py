"""The Triton program behind `fused_moves`. Importing this module needs Triton."""

from typing import no_type_check

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

from uivi.gpu.triton_decisions import ARRIVED, changed_step, decide, lane_and_part, record
from uivi.gpu.triton_network import (
    SCALE,
    STEP,
    column_steps,
    log_densities,
    pieces,
    product,
    relu,
    spread,
    streamed,
    sum_groups,
    tile,
    unit_steps,
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
    b2,
    w3,
    centre,
    precision,
    halves,
    eps_out,
    probability_out,
    accepted_out,
    bad_out,
    step_out,
    counters,
    N: tl.constexpr,
    T: tl.constexpr,
    L: tl.constexpr,
    E: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    ADAPTED: tl.constexpr,
    RATE: tl.constexpr,
    TARGET: tl.constexpr,
    NOISE: tl.constexpr,
    WIDTH: tl.constexpr,
    LATENT: tl.constexpr,
    ROWS: tl.constexpr,
    HELD: tl.constexpr,
    RESIDENT: tl.constexpr,
    G: tl.constexpr,
    ENERGY: tl.constexpr,
):
    """Makes T moves of ROWS chains of one lane.

    The arrays are the fields of `MoveInputs` and `Moves` with a leading lane axis. `halves` holds the float16
    weights: the high and the low piece of w2, then w1, then w3. N, T, L (leapfrog steps), E, H and D are the
    true sizes; NOISE, WIDTH and LATENT are E, H and D padded to powers of two. ADAPTED, RATE and TARGET are the
    fields of an `Adaptation`. HELD and RESIDENT place w2 on the chip, see `Tiling`. `counters` starts at 0: it
    counts the programs that have started, then, for each lane and adapted move, those that have made the move.
    """
    PROGRAMS: tl.constexpr = (N + ROWS - 1) // ROWS
    lane, part = lane_and_part(counters, PROGRAMS, ADAPTED)
    momenta += lane * T * N * E
    uniforms += lane * T * N
    first_bias += lane * N * H
    w1 += lane * H * E
    w2 += lane * H * H
    w3 += lane * D * H
    halves += lane * (2 * H * H + H * E + D * H)
    eps_out += lane * T * N * E
    outputs = (probability_out + lane * T * N, accepted_out + lane * T * N, bad_out + lane * T * N)
    step_out += lane * T
    arrivals = counters + 1 + lane * ADAPTED

    U: tl.constexpr = WIDTH // G
    NUM: tl.constexpr = (H + STEP - 1) // STEP
    chain = part * ROWS + tl.arange(0, ROWS)
    noise, latent = tl.arange(0, NOISE), tl.arange(0, LATENT)
    units = tl.arange(0, G)[:, None, None] * U + tl.arange(0, U)[None, :, None]
    units_last = tl.arange(0, G)[:, None, None] * U + tl.arange(0, U)[None, None, :]
    step_size = tl.load(step + lane)
    x = tile(eps + lane * N * E, chain[None, :], noise[:, None], N, E, E)
    goal = tile(centre + lane * N * D, chain[None, :], latent[:, None], N, D, D)
    weights = tl.load(precision + lane * D + latent, mask=latent < D, other=0.0)
    # Keeps the backward pass within float16's range: scaled like this, it starts with at most |rest| / σ. The
    # force is multiplied by `unscale` at the end, in float32.
    unscale = tl.sqrt(tl.max(weights, 0))
    weights = weights[:, None]
    second_bias = tl.load(b2 + lane * H + units, mask=units < H, other=0.0)
    second_bias = tl.broadcast_to(second_bias, (G, U, ROWS))
    bias = tile(first_bias, chain[None, None, :], units, N, H, H)
    w1_high, w1_low = pieces(tile(w1, units, noise[None, None, :], H, E, E))
    w3_high, w3_low = pieces(tile(w3, latent[None, :, None], units_last, D, H, H))
    w1_back = tile(halves + 2 * H * H, units_last, noise[None, :, None], H, E, E)
    w3_back = tile(halves + 2 * H * H + H * E, latent[None, None, :], units, D, H, H)
    # Triton keeps a tile in registers if it has a use outside the loop, otherwise in shared memory. So the
    # first HELD steps of w2_high (8 registers per thread each) get a use that makes zeros, below. They are read
    # as one transposed tile, which costs one wait instead of HELD.
    unit_middle = tl.arange(0, WIDTH)[None, :, None]
    w2_high = column_steps(tl.trans(tile(halves, units_last, unit_middle, H, H, H), (0, 2, 1)))[:HELD]
    w2_back = ()
    w2_low = ()
    for k in tl.static_range(NUM):
        column = k * STEP + tl.arange(0, STEP)[None, None, :]
        w2_back = w2_back + (tile(halves, column, units, H, H, H),)
        if k >= HELD:
            w2_high = w2_high + (tile(halves, units, column, H, H, H),)
        if k < RESIDENT:
            w2_low = w2_low + (tile(halves + H * H, units, column, H, H, H),)
    zeros = tl.zeros((G, U, ROWS), tl.float32)
    for k in tl.static_range(HELD):
        zeros = spread(w2_high[k], tl.zeros((STEP, ROWS), tl.float16), zeros)
    # The maximum depends on every product, so that none of them is removed as dead code. Its value is 0.
    zeros = tl.broadcast_to(tl.max(zeros), (G, U, ROWS))

    value = tl.zeros((ROWS,), tl.float32)
    force = tl.zeros((NOISE, ROWS), tl.float32)
    start = force
    state_mask = (chain[None, :] < N) & (noise[:, None] < E)
    # Move -1 stays at the start, with step and momentum 0, and computes the force and the log density there. A
    # separate computation before the loop would compile the whole network twice.
    for move in range(-1, T):
        is_move = move >= 0
        h = tl.where(is_move, step_size, 0.0)
        end, momentum, end_force, rest = x, start, force, goal
        for leapfrog in range(L if is_move else 1):
            # The last forward pass is accurate, for the energy. The force there uses its activations.
            is_last = (leapfrog == L - 1) | (move < 0)
            momentum += 0.5 * h * end_force
            end += h * momentum
            end_high, end_low = pieces(end)
            first = spread(w1_high, end_high, bias)
            # An accurate product adds the two products with low pieces, summed first because they are small.
            if is_last:
                if ENERGY == "f16x3":
                    small = spread(w1_low, end_high, spread(w1_high, end_low, zeros))
                    first += small * (1.0 / SCALE)
                else:
                    first = spread(tile(w1, units, noise[None, None, :], H, E, E), end, bias)
            first_high, first_low = pieces(relu(first))
            inputs = unit_steps(first_high)
            second = product(w2_high, inputs, second_bias, NUM)
            if is_last:
                if ENERGY == "f16x3":
                    small = product(w2_low, inputs, zeros, RESIDENT)
                    if RESIDENT < NUM:
                        small = streamed(halves + H * H, units, inputs, small, RESIDENT, H)
                    second += product(w2_high, unit_steps(first_low), small, NUM) * (1.0 / SCALE)
                else:
                    second = streamed(w2, units, unit_steps(relu(first)), second_bias, 0, H)
            second_high, second_low = pieces(relu(second))
            parts = tl.dot(w3_high, second_high)
            if is_last:
                if ENERGY == "f16x3":
                    small = tl.dot(w3_low, second_high, acc=tl.dot(w3_high, second_low))
                    parts += small * (1.0 / SCALE)
                else:
                    w3_full = tile(w3, latent[None, :, None], units_last, D, H, H)
                    parts = tl.dot(w3_full, relu(second), input_precision="tf32x3")
            rest = goal - sum_groups(parts)
            # The backward pass: the residual through w3, w2 and w1, set to 0 where a ReLU is flat.
            back = spread(w3_back, (weights / unscale * rest).to(tl.float16), zeros)
            back = tl.where(second_high > 0, back, 0.0).to(tl.float16)
            back = product(w2_back, unit_steps(back), zeros, NUM)
            back = tl.where(first_high > 0, back, 0.0).to(tl.float16)
            end_force = sum_groups(tl.dot(w1_back, back)) * unscale - end
            momentum += 0.5 * h * end_force
        # Read here and not ahead: no register is left to keep them in during the leapfrog steps.
        moving = chain < tl.where(is_move, N, 0)
        state_at = move * N * E + chain[None, :] * E + noise[:, None]
        uniform = tl.load(uniforms + move * N + chain, mask=moving, other=0.0)
        next_start = tl.load(momenta + state_at + N * E, mask=state_mask & (move < T - 1), other=0.0)
        end_value, gain = log_densities(end, rest, weights, start * start - momentum * momentum)
        gain += end_value - value
        probability, accept, bad = decide(gain, end_value, uniform, moving)
        is_adapted = is_move & (move < ADAPTED)
        num_accepted = tl.sum((accept & moving).to(tl.int32), 0)
        # Announce the result before the stores and wait for the other programs after them, to hide the wait.
        if ADAPTED > 0 and PROGRAMS > 1 and is_adapted:
            tl.atomic_add(arrivals + move, ARRIVED + num_accepted, sem="relaxed")
        x = tl.where(accept[None, :], end, x)
        force = tl.where(accept[None, :], end_force, force)
        value = tl.where(accept, end_value, value)
        start = next_start
        tl.store(eps_out + state_at, x, mask=state_mask & is_move)
        record(outputs, move * N + chain, probability, accept, bad, moving)
        if ADAPTED > 0 and is_adapted:
            step_size = changed_step(step_size, num_accepted, arrivals + move, N, RATE, TARGET, PROGRAMS)
        tl.store(step_out + move, step_size, mask=is_move & (part == 0))
