"""What a recipe counts its updates in: updates, or the seconds of another method."""

import abc
import dataclasses
from collections.abc import Callable
from typing import NamedTuple

Pace = Callable[[str], float]
"""Measures the seconds of one update of a method, without compilation."""


class Granted(NamedTuple):
    """The updates that a budget grants.

    Attributes:
        updates: their number.
        seconds: measured seconds of one update of all fits of a run, by method; empty if nothing was measured.
    """

    updates: int
    seconds: dict[str, float]


@dataclasses.dataclass(frozen=True)
class AbstractBudget(abc.ABC):
    """How many updates a method gets."""

    @abc.abstractmethod
    def grant(self, method: str, number: int, pace: Pace) -> Granted:
        """Returns what a method gets where its recipe has so many updates."""

    @property
    @abc.abstractmethod
    def words(self) -> str:
        """What is equal for all methods."""


@dataclasses.dataclass(frozen=True)
class Updates(AbstractBudget):
    """The number of updates in the recipe."""

    def grant(self, method: str, number: int, pace: Pace) -> Granted:
        """Returns the number and measures nothing."""
        del method, pace
        return Granted(number, {})

    @property
    def words(self) -> str:
        """What is equal for all methods."""
        return "updates"


@dataclasses.dataclass(frozen=True)
class SecondsOf(AbstractBudget):
    """As many updates as fit into the seconds that another method takes for the number in the recipe.

    Both are timed on the machine of the run, on as many fits side by side. Compilation does not count.

    Attributes:
        method: the other method, of the same preset.
    """

    method: str

    def grant(self, method: str, number: int, pace: Pace) -> Granted:
        """Times one update of both."""
        seconds = {name: pace(name) for name in dict.fromkeys((self.method, method))}
        return Granted(max(1, round(number * seconds[self.method] / seconds[method])), seconds)

    @property
    def words(self) -> str:
        """What is equal for all methods."""
        return f"seconds of {self.method}"
