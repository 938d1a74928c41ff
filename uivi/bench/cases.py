"""The cases that are timed: every method on problems of the paper's sizes, with random data."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import numpy as np
import optax

from uivi import gpu, presets
from uivi._types import Key
from uivi.estimators import SIVI, UIVI, AbstractEstimator, Explicit
from uivi.families import AbstractFamily
from uivi.presets import regression, vae
from uivi.reverse import HMC
from uivi.targets import AbstractTarget, Banana, BernoulliVAE, Rows, SoftmaxRegression
from uivi.training.update import FitState, Method, initial_state

STEPS = 100_000
"""Length of the learning-rate schedules. Cases never run that long."""
NUM_ROWS, NUM_CLASSES, PIXELS = 10_000, 10, 784
NOT_FUSED = "not fused"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One method on one problem.

    Attributes:
        problem: banana, logreg or vae.
        method: human-readable name.
        family: builds the family from a key and the size of z.
        estimator: gradient estimator.
        optimizer: builds the optimiser from the number of updates.
        updates: number of updates in one timed call.
    """

    problem: str
    method: str
    family: Callable[[Key, int], AbstractFamily]
    estimator: AbstractEstimator
    optimizer: Callable[[int], optax.GradientTransformation]
    updates: int

    def start(self, precision: str | None) -> tuple[Method, FitState]:
        """Returns the method and its initial state."""
        family_key, run_key = jax.random.split(jax.random.key(0))
        method = Method(self.estimator, self.optimizer(STEPS), precision)
        target = PROBLEMS[self.problem]()
        return method, initial_state(run_key, method, self.family(family_key, target.dim), target)


def _logreg() -> AbstractTarget:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (NUM_ROWS, PIXELS)).astype(np.uint8)
    labels = rng.integers(0, NUM_CLASSES, NUM_ROWS)
    return SoftmaxRegression.create(x, labels, num_classes=NUM_CLASSES, batch_size=2_000, divisor=255.0)


def _vae() -> AbstractTarget:
    images = (np.random.default_rng(0).random((NUM_ROWS, PIXELS)) < 0.2).astype(np.uint8)
    return BernoulliVAE(vae.default_decoder(jax.random.key(0), images), Rows.create(images), vae.BATCH_SIZE)


PROBLEMS: dict[str, Callable[[], AbstractTarget]] = {
    "banana": Banana,
    "logreg": functools.cache(_logreg),
    "vae": functools.cache(_vae),
}


def plain(estimator: AbstractEstimator) -> AbstractEstimator:
    """Returns the same estimator, whose chain does not use the fused kernel."""
    if not isinstance(estimator, UIVI) or not isinstance(estimator.sampler, HMC):
        return estimator
    return UIVI(estimator.num_draws, dataclasses.replace(estimator.sampler, is_fused=False))


_banana = functools.partial(
    Case,
    problem="banana",
    family=presets.paper_family,
    optimizer=presets.paper_optimizer,
    updates=1_000,
)
_regression = functools.partial(
    Case,
    problem="logreg",
    family=regression.paper_family,
    optimizer=presets.paper_optimizer,
    updates=20,
)
_autoencoder = functools.partial(
    Case, problem="vae", family=vae.paper_family, optimizer=vae.paper_optimizer, updates=20
)

CASES = (
    _banana(method="uivi, paper's chain", estimator=presets.paper_uivi()),
    _banana(
        method="uivi, default",
        family=presets.default_family,
        estimator=presets.default_uivi(),
        updates=100,
    ),
    _banana(method="sivi, L = 100", estimator=SIVI(num_draws=1, num_mixing=100)),
    _regression(method="uivi, paper's chain", estimator=regression.paper_uivi()),
    _regression(method=f"uivi, paper's chain, {NOT_FUSED}", estimator=plain(regression.paper_uivi())),
    _regression(method="uivi, default", family=regression.default_family, estimator=regression.default_uivi()),
    _regression(method="sivi, L = 200", estimator=regression.paper_sivi()),
    _regression(method="explicit", family=regression.default_explicit_family, estimator=Explicit(1)),
    _autoencoder(method="uivi, paper's chain", estimator=vae.paper_uivi()),
    _autoencoder(method=f"uivi, paper's chain, {NOT_FUSED}", estimator=plain(vae.paper_uivi())),
    _autoencoder(
        method="uivi, default",
        family=vae.default_family,
        estimator=vae.default_uivi(),
        optimizer=vae.default_optimizer,
    ),
    _autoencoder(method="sivi, L = 100", estimator=vae.paper_sivi()),
    _autoencoder(method="explicit", family=vae.paper_explicit_family, estimator=vae.paper_explicit()),
)


def available_cases() -> list[Case]:
    """Returns the cases of this device. Without fused kernels, both forms of a chain are the same case."""
    return [case for case in CASES if gpu.is_available() or NOT_FUSED not in case.method]
