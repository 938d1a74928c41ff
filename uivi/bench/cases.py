"""What is timed: problems of the paper's sizes, and the methods on each; on random data."""

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
NUM_ROWS, NUM_CLASSES, PIXELS = 10_000, 10, 784
NOT_FUSED = "not fused"


@dataclasses.dataclass(frozen=True)
class Case:
    """One method on one problem.

    Attributes:
        problem: banana, logreg or vae.
        method: for people.
        family: from a key and the size of z.
        estimator: of the gradient.
        optimizer: from a number of updates.
        updates: of one timed call.
    """

    problem: str
    method: str
    family: Callable[[Key, int], AbstractFamily]
    estimator: AbstractEstimator
    optimizer: Callable[[int], optax.GradientTransformation]
    updates: int

    def start(self, precision: str | None) -> tuple[Method, FitState]:
        """The method and its first state."""
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
    """The same estimator, its chain without the fused kernel."""
    if not isinstance(estimator, UIVI) or not isinstance(estimator.sampler, HMC):
        return estimator
    return UIVI(estimator.num_draws, dataclasses.replace(estimator.sampler, is_fused=False))


_banana = functools.partial(Case, "banana", optimizer=presets.paper_optimizer, updates=1_000)
_regression = functools.partial(Case, "logreg", optimizer=presets.paper_optimizer, updates=20)
_autoencoder = functools.partial(Case, "vae", optimizer=vae.paper_optimizer, updates=20)

_ALL = (
    _banana("uivi, paper's chain", presets.paper_family, presets.paper_uivi()),
    _banana("uivi, default", presets.default_family, presets.default_uivi(), updates=100),
    _banana("sivi, L = 100", presets.paper_family, SIVI(1, 100)),
    _regression("uivi, paper's chain", regression.paper_family, regression.paper_uivi()),
    _regression(f"uivi, paper's chain, {NOT_FUSED}", regression.paper_family, plain(regression.paper_uivi())),
    _regression("uivi, default", regression.default_family, regression.default_uivi()),
    _regression("sivi, L = 200", regression.paper_family, regression.paper_sivi()),
    _regression("explicit", regression.default_explicit_family, Explicit(1)),
    _autoencoder("uivi, paper's chain", vae.paper_family, vae.paper_uivi()),
    _autoencoder(f"uivi, paper's chain, {NOT_FUSED}", vae.paper_family, plain(vae.paper_uivi())),
    _autoencoder("uivi, default", vae.default_family, vae.default_uivi(), optimizer=vae.default_optimizer),
    _autoencoder("sivi, L = 100", vae.paper_family, vae.paper_sivi()),
    _autoencoder("explicit", vae.paper_explicit_family, vae.paper_explicit()),
)


def cases() -> list[Case]:
    """Those that differ on this device."""
    return [case for case in _ALL if gpu.is_available() or NOT_FUSED not in case.method]
