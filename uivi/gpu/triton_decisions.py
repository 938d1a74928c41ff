"""The end of a move in the fused kernels: acceptance and step size. Importing this module needs Triton."""

from typing import no_type_check

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

ARRIVED = tl.constexpr(1 << 16)
"""Added to the lane's counter by every program that has made the move.

A program also adds its number of accepted moves. The sum of those stays below 2^16, so the upper bits count
programs and the lower bits count accepted moves: one atomic operation does both.
"""


@triton.jit
@no_type_check
def lane_and_part(counters, PROGRAMS: tl.constexpr, ADAPTED: tl.constexpr):
    """Returns the lane of this program, and its number among the PROGRAMS of the lane.

    Programs that wait for each other are numbered in the order of their starts. So every lane that has started,
    except the last, has all its programs on the chip and will end. The hardware promises no order of program
    ids: numbered by these, each of several lanes could wait for a program that finds no processor.
    """
    number = tl.program_id(0)
    if ADAPTED > 0 and PROGRAMS > 1:
        number = tl.atomic_add(counters, 1, sem="relaxed")
    # 64 bits, because offsets into the arrays of many lanes may exceed 2^31.
    return (number // PROGRAMS).to(tl.int64), number % PROGRAMS


@triton.jit
@no_type_check
def sum_of_programs(counter, PROGRAMS: tl.constexpr):
    """Waits until all programs of the lane have added to the counter, and returns their sum without ARRIVED.

    The counter is all that passes between programs, so relaxed atomics suffice: no other access is ordered.
    """
    # Adding 0 reads the counter where the atomics act, in L2. A plain load could see a stale copy, or be
    # hoisted out of the loop.
    total = tl.atomic_add(counter, 0, sem="relaxed")
    while total < PROGRAMS * ARRIVED:
        total = tl.atomic_add(counter, 0, sem="relaxed")
    return total - PROGRAMS * ARRIVED


@triton.jit
@no_type_check
def decide(gain, end_value, uniform, moving):
    """Returns for each chain the acceptance probability, whether it accepts, and 1 if its end is not finite.

    Chains that do not move accept, because their end is where they are.
    """
    # A comparison with NaN is false, so a gain or a value that is NaN or infinite counts as a rejection.
    probability = tl.where(tl.abs(gain) < float("inf"), tl.exp(tl.minimum(gain, 0.0)), 0.0)
    bad = tl.where(tl.abs(end_value) < float("inf"), 0.0, 1.0)
    return probability, (uniform < probability) | (moving == 0), bad


@triton.jit
@no_type_check
def record(outputs, at, probability, accept, bad, moving):
    """Writes the results of `decide`."""
    probability_out, accepted_out, bad_out = outputs
    tl.store(probability_out + at, probability, mask=moving)
    tl.store(accepted_out + at, accept.to(tl.float32), mask=moving)
    tl.store(bad_out + at, bad, mask=moving)


@triton.jit
@no_type_check
def changed_step(
    step_size,
    num_accepted,
    counter,
    N: tl.constexpr,
    RATE: tl.constexpr,
    TARGET: tl.constexpr,
    PROGRAMS: tl.constexpr,
):
    """Returns the step size after an adapted move, by the share of the lane's N chains that accepted it."""
    if PROGRAMS > 1:
        num_accepted = sum_of_programs(counter, PROGRAMS)
    share = num_accepted.to(tl.float32) / N
    return step_size * (1 + RATE * (share - TARGET) / TARGET)
