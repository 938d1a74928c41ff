"""The Triton program behind `collapsed_moves`. Importing this module needs Triton.

As in `triton_moves`, tiles have shape (features, chains), and each of the G warps has its own features. But no
weight is in shared memory. The host has put every 16 x 16 tile of every matrix into the order in which the
threads of a warp hold a left factor of a tensor core product. So a tile is one read of 16 bytes per thread,
from L1 or L2, and some tiles stay in registers. Shared memory only passes activations between the warps.
"""

from typing import no_type_check

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

from uivi.gpu.triton_decisions import ARRIVED, changed_step, decide, lane_and_part, record
from uivi.gpu.triton_network import SCALE, STEP, add_pairs, pieces, product, relu, spread, tile, unit_steps

TILE = tl.constexpr(256)
"""Elements of a 16 x 16 tile."""
NEVER = tl.constexpr(1 << 20)
"""More than any number of leapfrog steps, so that `leapfrog // NEVER` is 0, which the compiler cannot know."""


@triton.jit
@no_type_check
def packed(array, SIZE: tl.constexpr, G: tl.constexpr, BLOCKS: tl.constexpr, CACHE: tl.constexpr):
    """Reads BLOCKS tiles per warp, one below the other, as (G, 16 BLOCKS, 16).

    Thread 4 g + t has rows g and g + 8, and columns 2 t, 2 t + 1, 2 t + 8 and 2 t + 9. The index of the thread
    comes first. Otherwise Triton would spread a warp over other dimensions, and the tile would pass through
    shared memory.

    Tiles beyond SIZE rows repeat the last tile, and their units are ignored later. A mask would cost an
    instruction for each register that it may leave empty, a quarter of all instructions.
    """
    thread, group = tl.arange(0, 32)[:, None, None, None], tl.arange(0, G)[None, :, None, None]
    number = tl.minimum(group * BLOCKS + tl.arange(0, BLOCKS)[None, None, :, None], (SIZE + 15) // 16 - 1)
    at = number * TILE + thread * 8 + tl.arange(0, 8)[None, None, None, :]
    made = tl.load(array + at, cache_modifier=CACHE)
    made = tl.permute(tl.reshape(made, (8, 4, G, BLOCKS, 2, 2, 2)), (2, 3, 5, 0, 4, 1, 6))
    return tl.reshape(made, (G, 16 * BLOCKS, 16))


@triton.jit
@no_type_check
def sums(array, chains, ROWS: tl.constexpr, G: tl.constexpr, BLOCKS: tl.constexpr):
    """Reads a (G, 16 BLOCKS, 8) of float32, in the order in which a warp holds sums of tensor core products.

    Thread 4 g + t has rows g and g + 8, and columns 2 t and 2 t + 1. Columns beyond the chains are not read.
    """
    thread, group = tl.arange(0, 32)[:, None, None, None], tl.arange(0, G)[None, :, None, None]
    number = group * BLOCKS + tl.arange(0, BLOCKS)[None, None, :, None]
    at = number * (TILE // 2) + thread * 4 + tl.arange(0, 4)[None, None, None, :]
    made = tl.load(array + at, mask=thread % 4 * 2 < chains, other=0.0)
    made = tl.permute(tl.reshape(made, (8, 4, G, BLOCKS, 2, 2)), (2, 3, 4, 0, 1, 5))
    return tl.reshape(made, (G, 16 * BLOCKS, ROWS))


@triton.jit
@no_type_check
def steps_of(
    array,
    FIRST: tl.constexpr,
    LAST: tl.constexpr,
    SIZE: tl.constexpr,
    G: tl.constexpr,
    BLOCKS: tl.constexpr,
    CACHE: tl.constexpr,
):
    """Reads the steps of 16 columns of a packed matrix from FIRST to LAST, as a tuple."""
    steps = ()
    for k in tl.static_range(FIRST, LAST):
        steps = steps + (packed(array + k * (G * BLOCKS * TILE), SIZE, G, BLOCKS, CACHE),)
    return steps


@triton.jit
@no_type_check
def accurate(
    high,
    low,
    x,
    start,
    zeros,
    NUM: tl.constexpr,
    SIZE: tl.constexpr,
    G: tl.constexpr,
    BLOCKS: tl.constexpr,
    CACHE: tl.constexpr,
):
    """Returns start + weight x, with float32's accuracy except for its last bits.

    `high` is the tuple of steps of the weight's high piece, `low` the address of its low piece.
    """
    x_high, x_low = pieces(x)
    high_steps, low_steps = unit_steps(x_high), unit_steps(x_low)
    whole, left, right = start, zeros, zeros
    for k in tl.static_range(NUM):
        # Low pieces are read here: no registers are left to keep them in while the input passes between warps.
        weight = packed(low + k * (G * BLOCKS * TILE), SIZE, G, BLOCKS, CACHE)
        whole = spread(high[k], high_steps[k], whole)
        left = spread(high[k], low_steps[k], left)
        right = spread(weight, high_steps[k], right)
    # The two small products have their own sums: added to `whole` one by one, their last bits would be lost.
    return whole + (left + right) * (1.0 / SCALE)


@triton.jit
@no_type_check
def values(x, place, squares):
    """Returns the log density of each chain, and half the sum of its `squares`, by one reduction."""
    ROWS: tl.constexpr = x.shape[2]
    shape: tl.constexpr = (x.shape[0] * x.shape[1], ROWS)
    if place.shape[1] == x.shape[1]:
        rest = -0.5 * x * x + place
    else:
        # `place` has 32 units per warp, x has 16 features per warp: add its halves first.
        pairs = tl.reshape(place, (place.shape[0], 2, x.shape[1], ROWS))
        rest = tl.sum(pairs, 1) - 0.5 * x * x
    value, squares = tl.reduce((tl.reshape(rest, shape), tl.reshape(squares, shape)), 0, add_pairs)
    return value, 0.5 * squares


@triton.jit
@no_type_check
def collapsed_kernel(
    eps,
    momenta,
    uniforms,
    step,
    vectors,
    unscale,
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
    ADAPTED: tl.constexpr,
    RATE: tl.constexpr,
    TARGET: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCKS: tl.constexpr,
    HELD_FIRST: tl.constexpr,
    HELD_SECOND: tl.constexpr,
    CACHE: tl.constexpr,
    CACHE_LOW: tl.constexpr,
    G: tl.constexpr,
):
    """Makes T moves of ROWS chains of one lane.

    The arrays are the fields of `CollapsedInputs` and `Moves` with a leading lane axis, except for two.
    `vectors` holds the biases, the origin and slope / unscale, for each program, in the order of `sums`.
    `halves` holds the float16 pieces of the matrices in the order of `packed`: high pieces of w1, w2, gram, w2ᵀ
    and w1ᵀ, then low pieces of w1, w2 and gram, where gram is divided by unscale². N, T, L (leapfrog steps), E
    and H are the true sizes. ADAPTED, RATE and TARGET are the fields of an `Adaptation`, and `counters` is as
    in `moves_kernel`. A warp has BLOCKS tiles of 16 units. The other constants are the fields of
    `CollapsedTiling`.
    """
    U: tl.constexpr = 16 * BLOCKS
    WIDE: tl.constexpr = (H + STEP - 1) // STEP
    NARROW: tl.constexpr = (E + STEP - 1) // STEP
    PROGRAMS: tl.constexpr = (N + ROWS - 1) // ROWS
    SIZE1: tl.constexpr = NARROW * G * BLOCKS * TILE
    SIZE2: tl.constexpr = WIDE * G * BLOCKS * TILE
    SIZE_BACK: tl.constexpr = WIDE * G * TILE
    SIZE_SUMS: tl.constexpr = G * U * ROWS
    lane, part = lane_and_part(counters, PROGRAMS, ADAPTED)
    momenta += lane * T * N * E
    uniforms += lane * T * N
    halves += lane * (2 * SIZE1 + 5 * SIZE2 + SIZE_BACK)
    eps_out += lane * T * N * E
    outputs = (probability_out + lane * T * N, accepted_out + lane * T * N, bad_out + lane * T * N)
    step_out += lane * T
    arrivals = counters + 1 + lane * ADAPTED

    chain = part * ROWS + tl.arange(0, ROWS)
    chains = chain[None, None, :]
    noise = tl.arange(0, G)[:, None, None] * 16 + tl.arange(0, 16)[None, :, None]
    units = tl.arange(0, G)[:, None, None] * U + tl.arange(0, U)[None, :, None]
    step_size = tl.load(step + lane)
    scale = tl.load(unscale + lane)
    x = tile(eps + lane * N * E, chains, noise, N, E, E)
    vectors += (lane * PROGRAMS + part) * (4 * SIZE_SUMS)
    here = N - part * ROWS
    w1_held = steps_of(halves, 0, HELD_FIRST, H, G, BLOCKS, "")
    w2_held = steps_of(halves + SIZE1, 0, HELD_SECOND, H, G, BLOCKS, "")
    zeros = tl.zeros((G, U, ROWS), tl.float32)

    value = tl.zeros((ROWS,), tl.float32)
    force = tl.zeros((G, 16, ROWS), tl.float32)
    start = force
    state_mask = (chains < N) & (noise < E)
    # Move -1 stays at the start, with step and momentum 0, and computes the force and the log density there. A
    # separate computation before the loop would compile the whole network twice.
    for move in range(-1, T):
        is_move = move >= 0
        h = tl.where(is_move, step_size, 0.0)
        end, momentum, end_force, place = x, start, force, zeros
        for leapfrog in range(L if is_move else 1):
            # Adds 0. Without it the compiler would read all weights before the loop and spill their registers.
            w1 = halves + leapfrog // NEVER * TILE
            w2 = w1 + SIZE1
            gram = w2 + SIZE2
            w2_back = gram + SIZE2
            w1_back = w2_back + SIZE2
            w1_low = w1_back + SIZE_BACK
            w2_low = w1_low + SIZE1
            gram_low = w2_low + SIZE2
            momentum += 0.5 * h * end_force
            end += h * momentum

            # The weights of a product do not depend on its input, so their reads start before the input has
            # passed between the warps.
            biases = vectors + leapfrog // NEVER * TILE
            first = sums(biases, here, ROWS, G, BLOCKS)
            weights = w1_held + steps_of(w1, HELD_FIRST, NARROW, H, G, BLOCKS, CACHE)
            first = accurate(weights, w1_low, end, first, zeros, NARROW, H, G, BLOCKS, CACHE_LOW)
            second = sums(biases + SIZE_SUMS, here, ROWS, G, BLOCKS)
            weights = w2_held + steps_of(w2, HELD_SECOND, WIDE, H, G, BLOCKS, CACHE)
            second = accurate(weights, w2_low, relu(first), second, zeros, WIDE, H, G, BLOCKS, CACHE_LOW)
            change = relu(second) - sums(biases + 2 * SIZE_SUMS, here, ROWS, G, BLOCKS)
            along = sums(biases + 3 * SIZE_SUMS, here, ROWS, G, BLOCKS)
            weights = steps_of(gram, 0, WIDE, H, G, BLOCKS, "")
            bent = scale * accurate(weights, gram_low, change, zeros, zeros, WIDE, H, G, BLOCKS, CACHE_LOW)
            # Units beyond H may hold repeated weights, see `packed`, and must not count. In products the packed
            # weights have zero columns for them.
            place = tl.where(units < H, scale * change * (along - 0.5 * bent), 0.0)
            # The backward pass in float16: its values are divided by `scale`, and the force is multiplied by
            # it.
            weights = steps_of(w2_back, 0, WIDE, H, G, BLOCKS, "")
            back = tl.where(second > 0, along - bent, 0.0)
            back = product(weights, unit_steps(back.to(tl.float16)), zeros, WIDE)
            weights = steps_of(w1_back, 0, WIDE, E, G, 1, "")
            back = tl.where(first > 0, back, 0.0)
            still = tl.zeros((G, 16, ROWS), tl.float32)
            end_force = product(weights, unit_steps(back.to(tl.float16)), still, WIDE) * scale - end
            end_force = tl.where(noise < E, end_force, 0.0)
            momentum += 0.5 * h * end_force
        moving = chain < tl.where(is_move, N, 0)
        state_at = move * N * E + chains * E + noise
        uniform = tl.load(uniforms + move * N + chain, mask=moving, other=0.0)
        next_start = tl.load(momenta + state_at + N * E, mask=state_mask & (move < T - 1), other=0.0)
        end_value, gain = values(end, place, start * start - momentum * momentum)
        gain += end_value - value
        probability, accept, bad = decide(gain, end_value, uniform, moving)
        is_adapted = is_move & (move < ADAPTED)
        num_accepted = tl.sum((accept & moving).to(tl.int32), 0)
        # Announce the result before the stores and wait for the other programs after them, to hide the wait.
        if ADAPTED > 0 and PROGRAMS > 1 and is_adapted:
            tl.atomic_add(arrivals + move, ARRIVED + num_accepted, sem="relaxed")
        x = tl.where(accept[None, None, :], end, x)
        force = tl.where(accept[None, None, :], end_force, force)
        value = tl.where(accept, end_value, value)
        start = next_start
        tl.store(eps_out + state_at, x, mask=state_mask & is_move)
        record(outputs, move * N + chain, probability, accept, bad, moving)
        if ADAPTED > 0 and is_adapted:
            step_size = changed_step(step_size, num_accepted, arrivals + move, N, RATE, TARGET, PROGRAMS)
        tl.store(step_out + move, step_size, mask=is_move & (part == 0))
