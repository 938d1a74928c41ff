"""One contest for each table and protocol: the same methods, on ten random splits."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import numpy as np

from uivi import datasets
from uivi._jax import without_nan_checks
from uivi.paper.experiment import Effort, Takes
from uivi.paper.networks.contenders import NUM_STEPS, Fit, MeanField, Ours, Sivi
from uivi.paper.networks.models import posterior, scores
from uivi.paper.networks.splits import Split, split
from uivi.paper.samplers.contenders import AbstractContender
from uivi.paper.samplers.contest import AbstractContest, Judged
from uivi.paper.samplers.outcomes import AbstractOutcome, Fitted
from uivi.targets.model import AbstractModelTarget

PRESET = "updates"
DRAWS: dict[Effort, int] = {"full": 4_096, "quick": 1_024, "smoke": 64}
"""Number of draws whose predictions are averaged."""

CONTENDERS: dict[str, AbstractContender] = {
    "uivi": Fit(Ours()),
    "sivi": Fit(Sivi()),
    "gaussian": Fit(MeanField()),
}
"""The methods by name."""


class Protocol(NamedTuple):
    """How others have split the tables, and their network.

    Attributes:
        words: what it is.
        width: number of hidden units.
        test_share: share of the test rows.
    """

    words: str
    width: int
    test_share: float


WIDE = Protocol("50 ReLUs, a tenth are test rows", 50, 0.1)
NARROW = Protocol("10 ReLUs, a fifth are test rows", 10, 0.2)
"""The usual protocol, and that of PVI's authors."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Splits(AbstractContest):
    """A table that every seed splits anew, and the methods that compete on it.

    Attributes:
        name: name on the command line.
        title: human-readable name.
        reference: the protocol in words.
        protocol: size of the network, and of the test part.
        batch_size: rows of a minibatch; None if every update sees all of them.
        dataset: name of the data set.
        recipes: methods by preset, then by name.
        takes: how long a fit takes, by preset.
        kind: section of the report that shows it.
        share: what all methods have, in words.
        is_timed: whether seconds decide.
        stand_in: always None: a table is never replaced by another.
        program: always None: every fit is a program of its own.
    """

    name: str
    title: str
    reference: str
    protocol: Protocol
    batch_size: int | None
    dataset: str
    recipes: dict[str, dict[str, AbstractContender]]
    takes: dict[str, Takes]
    kind: str = "networks"
    share: str = f"{NUM_STEPS:,} updates"
    is_timed: bool = False
    stand_in: None = None
    program: None = None

    def target(self, seed: int) -> AbstractModelTarget:
        """Returns the posterior on the training rows of a seed."""
        return self._problem(seed)[1]

    def judge(self, seed: int, outcome: AbstractOutcome, effort: Effort) -> Judged:
        """Returns the errors on the test rows, and the check that a user sees."""
        assert isinstance(outcome, Fitted)
        rows, target = self._problem(seed)
        # A fit that failed is scored like any other, with whatever numbers it gives.
        with without_nan_checks():
            draws = outcome.draws(jax.random.key(2), DRAWS[effort])
            own = outcome.posterior.check()
            values = {"scores": scores(target, draws, rows), "own": own.to_json()}
        return Judged(values | {"failed": not np.isfinite(values["scores"]["nll"])}, {})

    def describe(self, effort: Effort) -> dict[str, Any]:
        """Returns data set, protocol and the number of draws."""
        data = {"dataset": self.dataset, "description": datasets.DATASETS[self.dataset].description}
        how = self.protocol._asdict() | {"batch_size": self.batch_size}
        return data | {"protocol": how, "draws": DRAWS[effort]}

    def _problem(self, seed: int) -> tuple[Split, AbstractModelTarget]:
        return _made(self.dataset, seed, self.protocol, self.batch_size)


@functools.lru_cache(maxsize=1)
def _made(
    dataset: str, seed: int, protocol: Protocol, batch_size: int | None
) -> tuple[Split, AbstractModelTarget]:
    """Makes the problem of a seed once for its fit and its judge."""
    rows = split(dataset, seed, protocol.test_share)
    return rows, posterior(rows, protocol.width, batch_size)


def _contest(name: str, title: str, dataset: str, protocol: Protocol, batch_size: int | None = None) -> Splits:
    return Splits(
        name=f"networks-{name}",
        title=title,
        reference=protocol.words,
        protocol=protocol,
        batch_size=batch_size,
        dataset=dataset,
        recipes={PRESET: CONTENDERS},
        takes={PRESET: Takes()},
    )


BATCH_SIZE = 512
"""Rows of a minibatch of Protein."""

NETWORKS = (
    _contest("boston", "Boston", "boston", WIDE),
    _contest("concrete", "Concrete", "concrete", WIDE),
    _contest("yacht", "Yacht", "yacht", WIDE),
    _contest("protein", "Protein", "protein", WIDE, BATCH_SIZE),
    _contest("concrete-narrow", "Concrete, 10 units", "concrete", NARROW),
    _contest("yacht-narrow", "Yacht, 10 units", "yacht", NARROW),
    _contest("protein-narrow", "Protein, 10 units", "protein", NARROW, BATCH_SIZE),
)

GROUP = tuple(each.name for each in NETWORKS)
"""What `uivi run networks` runs."""
