"""What a contender hands back, and how it is judged: fits by bounds, chains by their own diagnostics."""

import abc
import dataclasses
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from uivi._jax import ordinary_promotion, without_nan_checks
from uivi._types import Key
from uivi.fitting.posterior import Posterior
from uivi.integrations._optional import needs
from uivi.paper.methods import judging
from uivi.paper.methods.judging import Budget
from uivi.paper.samplers.benchmarks import Evidence
from uivi.targets import Rescaled


class AbstractOutcome(abc.ABC):
    """What a contender has found."""

    @property
    @abc.abstractmethod
    def status(self) -> str:
        """The name of the status with which it ended."""

    @property
    @abc.abstractmethod
    def updates(self) -> int:
        """Number of updates; 0 for a method without any."""

    @property
    @abc.abstractmethod
    def history(self) -> dict[str, list[Any]]:
        """Columns recorded on the way; empty for a method without a history."""

    @abc.abstractmethod
    def draws(self, key: Key, number: int) -> Float[np.ndarray, "S D"]:
        """Returns draws on the scale of the target; fewer than `number` if there are no more."""

    @abc.abstractmethod
    def judge(self, key: Key, evidence: Evidence | None, budget: Budget) -> dict[str, Any]:
        """Returns what the method can be judged by, whatever the target, for JSON."""


@dataclasses.dataclass(frozen=True)
class Fitted(AbstractOutcome):
    """A fit by `uivi.fit`.

    Attributes:
        posterior: the fit, with its check.
        rescaled: the target as it was fitted, if that is on another scale.
    """

    posterior: Posterior
    rescaled: Rescaled | None = None

    @property
    def status(self) -> str:
        """The status of the fit."""
        return self.posterior.status.name

    @property
    def updates(self) -> int:
        """Number of updates of the fit."""
        return self.posterior.history["step"][-1]

    @property
    def history(self) -> dict[str, list[Any]]:
        """The history of the fit."""
        return self.posterior.history

    def draws(self, key: Key, number: int) -> Float[np.ndarray, "S D"]:
        """Returns independent draws of q."""
        drawn = np.asarray(self.posterior.sample_flat(key, number), np.float64)
        return drawn if self.rescaled is None else self.rescaled.originals(drawn)

    def judge(self, key: Key, evidence: Evidence | None, budget: Budget) -> dict[str, Any]:
        """Returns bounds and weights by the judge of all methods, and the check that a user sees."""
        with without_nan_checks():
            found = judging.judge(key, self.posterior, budget)
        log_z, stderr = (None, 0.0) if evidence is None else (evidence.log_z, evidence.stderr)
        return judging.values(found, log_z, stderr) | {"own": self.posterior.check().to_json()}


@dataclasses.dataclass(frozen=True)
class Chains(AbstractOutcome):
    """Draws of Markov chains.

    Attributes:
        z: draws by chain.
        warmup: transitions of each chain before them.
        thinning: transitions for each draw that is kept.
        divergences: number of divergent transitions among the kept draws.
    """

    z: Float[np.ndarray, "C S D"]
    warmup: int
    thinning: int
    divergences: int

    @property
    def status(self) -> str:
        """Chains are always done."""
        return "DONE"

    @property
    def updates(self) -> int:
        """Chains have no updates."""
        return 0

    @property
    def history(self) -> dict[str, list[Any]]:
        """Chains have no history."""
        return {}

    def draws(self, key: Key, number: int) -> Float[np.ndarray, "S D"]:
        """Returns draws of all chains in random order, each once at most."""
        every = np.asarray(self.z, np.float64).reshape(-1, self.z.shape[-1])
        order = np.asarray(jax.random.permutation(key, len(every)))
        return every[order[:number]]

    def judge(self, key: Key, evidence: Evidence | None, budget: Budget) -> dict[str, Any]:
        """Returns the largest R-hat and the smallest effective sample size. Chains have no bounds."""
        del key, evidence, budget
        with needs("NumPyro", extra="numpyro"):
            from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
        chains, kept, _ = self.z.shape
        with ordinary_promotion(), np.errstate(all="ignore"):
            z = np.asarray(self.z, np.float64)
            r_hat, ess = float(np.max(split_gelman_rubin(z))), float(np.min(effective_sample_size(z)))
        return {
            "chains": {
                "r_hat": r_hat,
                "ess": ess,
                "number": chains,
                "warmup": self.warmup,
                "kept": kept,
                "thinning": self.thinning,
                "divergences": self.divergences,
            },
            "failed": not np.isfinite(r_hat),
        }
