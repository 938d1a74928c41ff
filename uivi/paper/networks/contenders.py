"""The methods on a network: `uivi.fit` as its users call it, and others with as many updates."""

import abc
import time
from typing import Any

import equinox as eqx

import uivi
from uivi import presets
from uivi._types import Key, Status
from uivi.estimators import StickingTheLanding
from uivi.families import ExplicitGaussian
from uivi.paper.experiment import SMOKE_STEPS
from uivi.paper.networks.models import needs_numpyro
from uivi.paper.samplers.contenders import AbstractContender, Allowance, Entry
from uivi.paper.samplers.outcomes import Fitted
from uivi.targets.base import AbstractSingleSiteTarget
from uivi.training.progress import AbstractReporter

NUM_STEPS, QUICK_STEPS = 3_000, 300
"""Updates of every fit, and at quick effort. They were chosen as docs/networks.md says."""


class AbstractMethod(eqx.Module):
    """What `uivi.fit` is asked to do beside the default."""

    @property
    @abc.abstractmethod
    def words(self) -> str:
        """What it is, for the report."""

    @abc.abstractmethod
    def options(self, dim: int) -> dict[str, Any]:
        """Returns the options of `uivi.fit`, given the size of z."""


class Ours(AbstractMethod):
    """Family, start, estimator and optimiser of `uivi.fit`."""

    @property
    def words(self) -> str:
        """What it is."""
        return f"`uivi.fit(model, num_steps={NUM_STEPS:_})`: its own family, start and estimator"

    def options(self, dim: int) -> dict[str, Any]:
        """Has no option."""
        del dim
        return {}


class Sivi(AbstractMethod):
    """SIVI on the family and the start of `uivi.fit`."""

    @property
    def words(self) -> str:
        """What it is."""
        return "SIVI with S = 64 and L = 100, the family and the start of `uivi.fit`"

    def options(self, dim: int) -> dict[str, Any]:
        """Leaves family and start to `uivi.fit`."""
        del dim
        return {"estimator": presets.default_sivi()}


class MeanField(AbstractMethod):
    """A Gaussian with independent coordinates, from N(0, I)."""

    @property
    def words(self) -> str:
        """What it is."""
        return "a Gaussian with independent coordinates, from N(0, I), S = 64"

    def options(self, dim: int) -> dict[str, Any]:
        """Makes the Gaussian."""
        return {"family": ExplicitGaussian.create(dim), "estimator": StickingTheLanding()}


class Fit(AbstractContender):
    """A fit with a fixed number of updates.

    Attributes:
        method: what is fitted, and how.
    """

    method: AbstractMethod

    @property
    def is_paced(self) -> bool:
        """All have the same number of updates."""
        return False

    @property
    def words(self) -> str:
        """What the method is."""
        return self.method.words

    def require(self) -> None:
        """Needs NumPyro, in which the network is written."""
        needs_numpyro()

    def compete(
        self, key: Key, target: AbstractSingleSiteTarget, allowance: Allowance, shown: AbstractReporter
    ) -> Entry:
        """Calls `uivi.fit`."""
        steps = {"full": NUM_STEPS, "quick": QUICK_STEPS, "smoke": SMOKE_STEPS}[allowance.effort]
        began, options = time.perf_counter(), self.method.options(target.dim)
        posterior = uivi.fit(target, key=key, num_steps=steps, progress=shown, **options)
        if posterior.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return Entry(Fitted(posterior), time.perf_counter() - began, posterior.phases)
