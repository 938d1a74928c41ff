"""How the fused kernels end a move: who accepts, how the step changes. Importing this module needs Triton."""

from typing import no_type_check

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

ARRIVED = tl.constexpr(1 << 16)
"""What a program adds to the lane's counter beside its number of chains."""


@triton.jit
@no_type_check
def lane_and_part(counters, PROGRAMS: tl.constexpr, ADAPTED: tl.constexpr):
    """Which of the lane's PROGRAMS this is.

    Where they wait for each other, in the order of their starts: so all lanes but the last one that has started
    have all their programs on the chip, and will end.
    """
    number = tl.program_id(0)
    if ADAPTED > 0 and PROGRAMS > 1:
        number = tl.atomic_add(counters, 1, sem="relaxed")
    return (number // PROGRAMS).to(tl.int64), number % PROGRAMS


@triton.jit
@no_type_check
def sum_of_programs(counter, PROGRAMS: tl.constexpr):
    """What the lane's programs have added to the counter beside ARRIVED, once all have.

    The counter is all that passes between them, so the order of other accesses is free.
    """
    total = tl.atomic_add(counter, 0, sem="relaxed")
    while total < PROGRAMS * ARRIVED:
        total = tl.atomic_add(counter, 0, sem="relaxed")
    return total - PROGRAMS * ARRIVED


@triton.jit
@no_type_check
def decide(gain, end_value, uniform, moving):
    """Of each chain: the acceptance probability, whether it accepts, and 1 where the end's value is not finite.

    Chains that do not move accept: their end is where they are.
    """
    # A comparison with NaN is false: gains and values that are not finite end here.
    probability = tl.where(tl.abs(gain) < float("inf"), tl.exp(tl.minimum(gain, 0.0)), 0.0)
    bad = tl.where(tl.abs(end_value) < float("inf"), 0.0, 1.0)
    return probability, (uniform < probability) | (moving == 0), bad


@triton.jit
@no_type_check
def record(outputs, at, probability, accept, bad, moving):
    """Writes what `decide` found."""
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
    """The step after an adapted move, by the share of the lane's N chains that accepted it."""
    if PROGRAMS > 1:
        num_accepted = sum_of_programs(counter, PROGRAMS)
    share = num_accepted.to(tl.float32) / N
    return step_size * (1 + RATE * (share - TARGET) / TARGET)
