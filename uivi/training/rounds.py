"""How long a fit runs."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

from uivi import _checks
from uivi.evaluation.history import CLOSE, NEAR, SHORT, History, gain_of_last_round, last

MOST_UPDATES = 10**9
"""Largest number of updates. Far more than any fit needs, and a step count in 32 bits holds it."""


@dataclasses.dataclass(frozen=True)
class Rounds:
    """Rounds of updates, each twice as long as the one before, until the fit is good enough or gains no more.

    The learning rate falls to zero in every round, so the ends of rounds can be compared. A fit ends at once if
    importance weights find it good and close to the posterior. Any other ends after a round without a gain,
    which covers at least as many updates as there were before it. A fit that only just falls short has some
    more rounds: what it lacks hardly shows in the ELBO.

    Attributes:
        first: number of updates in the first round.
        number: largest number of rounds.
        gain: nats that a round must gain, beyond one standard error, for another to follow.
        good_gain: the same for a fit that does not fall short. By default as much as a good verdict allows.
        number_if_near: number of rounds for a fit that only just falls short, whatever they gain.
    """

    first: int = 1_500
    number: int = 4
    gain: float = 0.03
    good_gain: float = 0.1
    number_if_near: int = 3

    def __post_init__(self):
        """Checks the numbers."""
        _checks.positive_int("first", self.first)
        _checks.positive_int("number", self.number)
        _checks.positive_int("number_if_near", self.number_if_near)
        # Powers of two beyond 64 rounds would fill the memory before they can be compared.
        if self.number > 64 or self.most > MOST_UPDATES:
            most = f"2^{self.number} times {self.first:,}" if self.number > 64 else f"{self.most:,}"
            raise ValueError(
                f"expected at most {MOST_UPDATES:,} updates, got {most}: give a smaller `num_steps` (a fit "
                "rarely needs more than 100,000)"
            )

    @classmethod
    def of(cls, num_steps: "int | Rounds") -> "Rounds":
        """Returns rounds as they are, and a number of updates as a single round."""
        if isinstance(num_steps, Rounds):
            return num_steps
        return cls(_checks.positive_int("num_steps", num_steps), 1)

    @property
    def ends(self) -> tuple[int, ...]:
        """Number of updates at the end of each round."""
        return tuple(self.first * (2**i - 1) for i in range(1, self.number + 1))

    @property
    def most(self) -> int:
        """Number of updates if all rounds are run."""
        return self.ends[-1]

    def round(self, update: int) -> int:
        """Returns the round (from 0) of an update (from 1)."""
        return sum(update > end for end in self.ends[:-1])

    def schedule(self, rate: float) -> optax.Schedule:
        """Returns a cosine decay to zero in every round: from `rate` in the first, then from half of it.

        A later round has more updates and less to change. The full rate would first undo the last round.
        """
        begins = np.array((0, *self.ends[:-1]), np.int32)

        def schedule(count: Any) -> Any:
            number = jnp.sum(jnp.asarray(count) >= begins) - 1
            length = self.first * 2.0 ** number.astype(float)
            share = jnp.minimum((count - jnp.asarray(begins)[number]).astype(float) / length, 1.0)
            first = jnp.where(number == 0, rate, 0.5 * rate)
            return 0.5 * first * (1 + jnp.cos(jnp.pi * share))

        return schedule

    def is_over(self, history: History, *, can_raise: bool = False) -> bool:
        """Returns whether the fit ends here: after the last round, or after one that gained too little.

        Args:
            history: columns recorded so far.
            can_raise: whether the fit goes on with more effort; see `effort`.
        """
        done = history["step"][-1] if history else 0
        if done >= self.most:
            return True
        if done not in self.ends:
            return False
        if last(history, CLOSE):
            return True
        if gain_of_last_round(history) is None:
            return False
        is_short_by_little = last(history, SHORT) and last(history, NEAR)
        if is_short_by_little and self.ends.index(done) + 1 < self.number_if_near:
            return False
        return not (can_raise or self._has_gained(history))

    def effort(self, history: History, most: int) -> int:
        """Returns the effort of the next update: one more after each round at whose end the fit falls short.

        Args:
            history: columns recorded so far. Nothing else decides, so a resumed fit makes the same choices.
            most: largest effort.
        """
        if not history.get("effort"):
            return 0
        is_end = history["step"][-1] in self.ends
        return min(history["effort"][-1] + (is_end and bool(last(history, SHORT))), most)

    def _has_gained(self, history: History) -> bool:
        """Whether the last of several rounds has raised the bound enough for another to follow."""
        gain, stderr = gain_of_last_round(history) or (0.0, 0.0)
        return gain > (self.gain if last(history, SHORT) else self.good_gain) + stderr
