"""The role of a contest: something to fit for each seed, the programs that compete, and their judge."""

import abc
from typing import Any, NamedTuple

from uivi.paper.experiment import Effort, Takes
from uivi.paper.samplers.contenders import AbstractContender
from uivi.paper.samplers.outcomes import AbstractOutcome
from uivi.targets.base import AbstractSingleSiteTarget

PACER = "uivi"
"""The contender that the others wait for: they get what it took."""


class Judged(NamedTuple):
    """What a judge says of one fit.

    Attributes:
        values: numbers, for JSON.
        exhibit: data of the figures, for JSON.
    """

    values: dict[str, Any]
    exhibit: dict[str, Any]


class AbstractContest(abc.ABC):
    """A problem, and the programs that compete on it.

    Attributes:
        name: name on the command line.
        title: human-readable name.
        reference: what is fitted.
        recipes: contenders by preset, then by name.
        takes: how long a fit takes, by preset.
        dataset: name of the data set, or None.
        kind: section of the report that shows it.
        share: what the contenders may spend, in words.
        is_timed: whether seconds decide. Every fit then compiles, as a user's first call does.
        stand_in: always None: the problem is never replaced by another.
        program: always None: every fit is a program of its own.
    """

    name: str
    title: str
    reference: str
    recipes: dict[str, dict[str, AbstractContender]]
    takes: dict[str, Takes]
    dataset: str | None
    kind: str
    share: str
    is_timed: bool
    stand_in: None
    program: None

    @abc.abstractmethod
    def target(self, seed: int) -> AbstractSingleSiteTarget:
        """Returns what is fitted for a seed. Data sets are loaded here."""

    @abc.abstractmethod
    def judge(self, seed: int, outcome: AbstractOutcome, effort: Effort) -> Judged:
        """Judges a fit, with the same random numbers for all contenders and seeds."""

    @abc.abstractmethod
    def describe(self, effort: Effort) -> dict[str, Any]:
        """Returns the data set, what is known, and the budget of the judge, for JSON."""
