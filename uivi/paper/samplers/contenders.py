"""The contenders: whole programs that get a target and, but for `uivi`, the seconds that `uivi` took."""

import abc
import time
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
import optax

import uivi
from uivi import presets
from uivi._types import Key, Status
from uivi.estimators import AbstractEstimator, StickingTheLanding
from uivi.families import AbstractFamily, ExplicitGaussian, FullGaussian
from uivi.fitting.posterior import Posterior
from uivi.fitting.problem import problem_of
from uivi.fitting.starts.checked import checked_start
from uivi.fitting.starts.search import Start
from uivi.paper.experiment import SMOKE_STEPS, Effort
from uivi.paper.granting import pace_of
from uivi.paper.samplers.outcomes import AbstractOutcome, Fitted
from uivi.presets.methods import flow_estimator, flow_family
from uivi.targets import Rescaled
from uivi.targets.base import AbstractSingleSiteTarget
from uivi.targets.traced import traced
from uivi.training.progress import AbstractReporter
from uivi.training.rounds import Rounds
from uivi.training.update import Method, initial_state

FULL_UP_TO = 2_000
"""Largest D of a Gaussian with a full covariance. Its factor has D² numbers."""
PROBE_STEPS = 20
"""Updates of the fit that is only timed: it looks at its bound as often as a long one."""
MOST_STEPS = 1_000_000
"""Most updates of a fit at equal seconds."""
QUICK = Rounds(300, 1)
"""The updates of `uivi` at quick effort."""
FLOW_RATE = 1e-3
"""Fixed learning rate of the flow."""


class Allowance(NamedTuple):
    """What a contender may spend.

    Attributes:
        effort: full, quick or smoke.
        seconds: seconds of `uivi` for the same target and seed, all included; None for `uivi` itself.
    """

    effort: Effort
    seconds: float | None

    def forget_programs(self) -> None:
        """Forgets what was compiled: a fit compiles as a user's first one does, unless it is only tried out."""
        if self.effort != "smoke":
            jax.clear_caches()


class Entry(NamedTuple):
    """What a contender returns.

    Attributes:
        outcome: what it has found.
        seconds: seconds of the call, compilation included. Trials that only find the pace do not count.
        phases: seconds of its parts, by name.
    """

    outcome: AbstractOutcome
    seconds: float
    phases: dict[str, float]


class AbstractContender(eqx.Module):
    """A method as its user would run it, from the log density to the result."""

    @property
    @abc.abstractmethod
    def is_paced(self) -> bool:
        """Whether it gets the seconds of `uivi`."""

    @property
    @abc.abstractmethod
    def words(self) -> str:
        """What it is, for the report."""

    @abc.abstractmethod
    def require(self) -> None:
        """Raises an `ImportError` that names what to install if a package is missing."""

    @abc.abstractmethod
    def compete(
        self, key: Key, target: AbstractSingleSiteTarget, allowance: Allowance, shown: AbstractReporter
    ) -> Entry:
        """Runs the method on a target."""


class Default(AbstractContender):
    """`uivi.fit` without any option: its own start, rounds, effort and check."""

    @property
    def is_paced(self) -> bool:
        """It decides by itself when it is done."""
        return False

    @property
    def words(self) -> str:
        """What it is."""
        return "`uivi.fit(log_density, dim, key=key)` with no option"

    def require(self) -> None:
        """Needs nothing more than `uivi`."""

    def compete(
        self, key: Key, target: AbstractSingleSiteTarget, allowance: Allowance, shown: AbstractReporter
    ) -> Entry:
        """Calls `uivi.fit`. Only with less effort has it a number of updates."""
        steps = {"full": None, "quick": QUICK, "smoke": SMOKE_STEPS}[allowance.effort]
        allowance.forget_programs()
        began = time.perf_counter()
        posterior = uivi.fit(target.log_density, target.dim, key=key, num_steps=steps, progress=shown)
        return _entry(posterior, began)


class Setting(NamedTuple):
    """What a method passes to `uivi.fit`.

    Attributes:
        target: what is fitted.
        family: the family, or None for the default on a start that `uivi.fit` finds.
        estimator: the estimator.
        optimizer: the optimiser, or None for the default.
        rescaled: the target, if it is on another scale.
    """

    target: AbstractSingleSiteTarget
    family: AbstractFamily | None
    estimator: AbstractEstimator
    optimizer: optax.GradientTransformation | None = None
    rescaled: Rescaled | None = None


class AbstractRival(eqx.Module):
    """A method other than the default that `uivi.fit` runs."""

    @property
    @abc.abstractmethod
    def words(self) -> str:
        """What it is, for the report."""

    @abc.abstractmethod
    def require(self) -> None:
        """Raises an `ImportError` that names what to install if a package is missing."""

    @abc.abstractmethod
    def set_up(self, key: Key, target: AbstractSingleSiteTarget) -> Setting:
        """Returns what is passed to `uivi.fit`. A search for a start belongs here."""


class Sivi(AbstractRival):
    """SIVI on the family and the start of `uivi.fit`."""

    @property
    def words(self) -> str:
        """What it is."""
        return "SIVI with S = 64 and L = 100, the family and the start of `uivi.fit`"

    def require(self) -> None:
        """Needs nothing more than `uivi`."""

    def set_up(self, key: Key, target: AbstractSingleSiteTarget) -> Setting:
        """Leaves family and start to `uivi.fit`."""
        del key
        return Setting(target, None, presets.default_sivi())


class Gaussian(AbstractRival):
    """A Gaussian with a full covariance on the scale of the start, mean-field in too many dimensions."""

    @property
    def words(self) -> str:
        """What it is."""
        return f"a Gaussian with a full covariance up to {FULL_UP_TO:,}-d, from the same search, S = 64"

    def require(self) -> None:
        """Needs nothing more than `uivi`."""

    def set_up(self, key: Key, target: AbstractSingleSiteTarget) -> Setting:
        """Searches for a start. There q is N(0, I)."""
        found = on_start(key, target)
        make = FullGaussian if target.dim <= FULL_UP_TO else ExplicitGaussian
        return Setting(found, make.create(target.dim), StickingTheLanding(), rescaled=found)


class Flow(AbstractRival):
    """A RealNVP of FlowJAX as Agrawal & Domke (2024) recommend, on the scale of the start."""

    @property
    def words(self) -> str:
        """What it is."""
        return "a RealNVP of 10 layers, from the same search, S = 256, Adam at a fixed 0.001 (FlowJAX)"

    def require(self) -> None:
        """Needs FlowJAX."""
        import uivi.integrations.flowjax  # noqa: F401 - its error names the extra

    def set_up(self, key: Key, target: AbstractSingleSiteTarget) -> Setting:
        """Searches for a start, and makes the flow."""
        start_key, flow_key = jax.random.split(key)
        found = on_start(start_key, target)
        family = flow_family(flow_key, target.dim)
        return Setting(found, family, flow_estimator(), optax.adam(FLOW_RATE), found)


class AtEqualSeconds(AbstractContender):
    """A rival with as many updates as fit into the seconds of `uivi`, search, compilation and check included.

    What does not grow with the updates is measured on a short fit, and the pace of an update by itself.

    Attributes:
        rival: the method.
    """

    rival: AbstractRival

    @property
    def is_paced(self) -> bool:
        """It gets the seconds of `uivi`."""
        return True

    @property
    def words(self) -> str:
        """What the rival is."""
        return self.rival.words

    def require(self) -> None:
        """Needs what the rival needs."""
        self.rival.require()

    def compete(
        self, key: Key, target: AbstractSingleSiteTarget, allowance: Allowance, shown: AbstractReporter
    ) -> Entry:
        """Finds the number of updates, forgets what was compiled, and fits."""

        def fit(num_steps: int) -> Entry:
            allowance.forget_programs()
            began = time.perf_counter()
            shown.phase("searching for a start")
            setting = self.rival.set_up(key, target)
            set_up = time.perf_counter() - began
            settings: dict[str, Any] = {"family": setting.family, "estimator": setting.estimator}
            posterior = uivi.fit(
                setting.target.log_density,
                target.dim,
                key=key,
                optimizer=setting.optimizer,
                num_steps=num_steps,
                progress=shown,
                **settings,
            )
            entry = _entry(posterior, began, setting.rescaled)
            search = "searching for a start"
            return entry._replace(phases=entry.phases | {search: set_up + entry.phases.get(search, 0.0)})

        if allowance.seconds is None or allowance.effort == "smoke":
            return fit(SMOKE_STEPS)
        short = fit(PROBE_STEPS)
        shown.phase("timing an update")
        pace = _pace(self.rival.set_up(key, target))
        return fit(affordable(allowance.seconds, short.seconds, pace))


def affordable(seconds: float, short: float, pace: float) -> int:
    """Returns how many updates fit into the seconds, at least those of the short fit.

    Args:
        seconds: what there is.
        short: seconds of a fit of `PROBE_STEPS` updates.
        pace: seconds of an update.
    """
    more = int((seconds - short) / pace)
    return min(PROBE_STEPS + max(0, more), MOST_STEPS)


def on_start(key: Key, target: AbstractSingleSiteTarget) -> Rescaled:
    """Returns the target on the location and scale of the start that the search of `uivi.fit` finds."""
    problem_key, start_key = jax.random.split(key)
    problem = problem_of(target.log_density, problem_key, dim=target.dim)
    start = checked_start(start_key, problem, traced(problem.target))
    return Rescaled.create(target, np.asarray(start.loc), np.asarray(start.factor))


def _pace(setting: Setting) -> float:
    """Returns the seconds of an update. They do not depend on where a fit is."""
    target, family = setting.target, setting.family
    if family is None:
        is_full = target.dim <= presets.FULL_COVARIANCE_UP_TO
        unit = Start(np.zeros(target.dim), np.eye(target.dim) if is_full else np.ones(target.dim))
        family = presets.default_family(jax.random.key(0), target.dim, start=unit)
    optimizer = setting.optimizer or presets.default_optimizer(MOST_STEPS)
    method = Method(setting.estimator, optimizer)
    problem = problem_of(target.log_density, jax.random.key(0), dim=target.dim)
    state = initial_state(jax.random.key(0), method, family, traced(problem.target))
    return pace_of(method, state, MOST_STEPS)


def _entry(posterior: Posterior, began: float, rescaled: Rescaled | None = None) -> Entry:
    """Returns a fit with its seconds. An interrupted one is not judged."""
    seconds = time.perf_counter() - began
    if posterior.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return Entry(Fitted(posterior, rescaled), seconds, posterior.phases)
