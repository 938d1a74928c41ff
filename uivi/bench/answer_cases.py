"""The cases of the part `answer`: what is fitted, by which method, and how far draws are from a reference."""

import abc
import dataclasses
import importlib
import importlib.util
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

import uivi
from uivi._types import Key, Latent, Scalar
from uivi.integrations._optional import needs
from uivi.targets import Banana, Multimodal, XShaped
from uivi.targets.toys import AbstractToy
from uivi.training.progress import AbstractReporter

NUM_DRAWS = 4_000
"""Number of draws of each method that are compared with the reference."""
CHAINS, WARMUP, KEPT = 4, 1_000, 1_000
"""Chains of NUTS, and the warm-up transitions and draws of each."""
FREEDOM, CORRELATION = 5.0, 0.8
"""Degrees of freedom and correlation of the Student t."""


class AbstractCase(abc.ABC):
    """A posterior that both methods sample, and draws to compare theirs with."""

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """Size of the unconstrained latent vector."""

    @abc.abstractmethod
    def fit(self, key: Key, reporter: AbstractReporter) -> uivi.Posterior:
        """Calls `uivi.fit` with its defaults."""

    @abc.abstractmethod
    def nuts(self, key: Key) -> Any:
        """Runs NumPyro's NUTS with its defaults, and returns the `MCMC` object."""

    @abc.abstractmethod
    def reference(self) -> PyTree:
        """Returns independent draws of the posterior, in the structure of both methods' draws."""

    @abc.abstractmethod
    def flat(self, draws: PyTree) -> Float[np.ndarray, "S K"]:
        """Returns draws as the rows of a matrix, with a column for each number that is compared."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DensityCase(AbstractCase):
    """A log density with an exact sampler.

    Attributes:
        log_density: the log density, up to a constant.
        exact: draws one exact sample.
        size: size of its argument.
    """

    log_density: Callable[[Latent], Scalar]
    exact: Callable[[Key], Latent]
    size: int = 2

    @property
    def dim(self) -> int:
        """Size of the argument."""
        return self.size

    def fit(self, key: Key, reporter: AbstractReporter) -> uivi.Posterior:
        """Fits the density as a plain function."""
        return uivi.fit(self.log_density, self.size, key=key, progress=reporter)

    def nuts(self, key: Key) -> Any:
        """Starts all chains uniformly from -2 to 2, as NumPyro does in a model."""
        start_key, run_key = jax.random.split(key)
        start = jax.random.uniform(start_key, (CHAINS, self.size), minval=-2.0, maxval=2.0)
        mcmc = _mcmc(potential_fn=lambda z: -self.log_density(z))
        mcmc.run(run_key, init_params=start)
        return mcmc

    def reference(self) -> PyTree:
        """Draws two exact samples of `NUM_DRAWS`, which differ by their noise only."""
        return jax.vmap(self.exact)(jax.random.split(jax.random.key(2019), 2 * NUM_DRAWS))

    def flat(self, draws: PyTree) -> Float[np.ndarray, "S K"]:
        """Returns the draws, which are a matrix already."""
        return np.asarray(draws)


@dataclasses.dataclass(frozen=True)
class ModelCase(AbstractCase):
    """A NumPyro model with its data and the draws of a long run.

    Attributes:
        model: a `benchmarks.models.Model`.
    """

    model: Any

    @property
    def dim(self) -> int:
        """Size of the unconstrained vector."""
        return int(self.model.metadata()["dim"])

    def fit(self, key: Key, reporter: AbstractReporter) -> uivi.Posterior:
        """Fits the model as its user would."""
        data = {"model_args": self.model.args, "model_kwargs": self.model.kwargs}
        return uivi.fit(self.model.model, key=key, progress=reporter, **data)

    def nuts(self, key: Key) -> Any:
        """Runs the model as it is written."""
        mcmc = _mcmc(self.model.model)
        mcmc.run(key, *self.model.args, **self.model.kwargs)
        return mcmc

    def reference(self) -> PyTree:
        """Reads the stored draws."""
        return self.model.reference()

    def flat(self, draws: PyTree) -> Float[np.ndarray, "S K"]:
        """Joins the sites of the reference, in their own (constrained) space."""
        sites = [np.asarray(draws[name]) for name in self.model.moments()[0]]
        return np.concatenate([site.reshape(len(site), -1) for site in sites], 1)


def _mcmc(model: Callable | None = None, potential_fn: Callable | None = None) -> Any:
    """Returns four vectorised chains of NUTS for a model or a potential."""
    with needs("NumPyro", extra="numpyro"):
        from numpyro.infer import MCMC, NUTS
    return MCMC(
        NUTS(model, potential_fn),
        num_warmup=WARMUP,
        num_samples=KEPT,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )


def _student_density(z: Latent) -> Scalar:
    quadratic = (z[0] ** 2 + z[1] ** 2 - 2 * CORRELATION * z[0] * z[1]) / (1 - CORRELATION**2)
    return -0.5 * (FREEDOM + 2) * jnp.log1p(quadratic / FREEDOM)


def _student_draw(key: Key) -> Latent:
    normal_key, scale_key = jax.random.split(key)
    u = jax.random.normal(normal_key, (2,))
    correlated = jnp.stack([u[0], CORRELATION * u[0] + math.sqrt(1 - CORRELATION**2) * u[1]])
    return correlated / jnp.sqrt(jax.random.chisquare(scale_key, FREEDOM) / FREEDOM)


def _toy(toy: AbstractToy) -> DensityCase:
    """Hides the toy behind a plain function, so that the fit knows no more than a user's density tells."""
    return DensityCase(log_density=lambda z: toy.log_joint(z), exact=toy.sample)


DENSITIES: dict[str, DensityCase] = {
    "student": DensityCase(log_density=_student_density, exact=_student_draw),
    "banana": _toy(Banana()),
    "multimodal": _toy(Multimodal()),
    "xshaped": _toy(XShaped()),
}
MODELS = ("schools_noncentred", "schools_centred", "logistic", "walk_poisson", "groups_1000")
"""Names in `benchmarks.models`, a package of the repository that is not installed with `uivi`."""
NAMES = ("student", *MODELS, "banana", "multimodal", "xshaped")
QUICK = ("student", "schools_noncentred")


def why_skipped(name: str) -> str:
    """Returns why a case cannot run here; an empty text if it can."""
    if name in DENSITIES:
        return ""
    for package, advice in (
        ("benchmarks.models", "run this from the root of the repository"),
        ("numpyro", "pip install 'uivi[numpyro]'"),
    ):
        if not _is_there(package):
            return f"{package} cannot be imported: {advice}"
    return ""


def _is_there(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # a package above it is missing
        return False


def load_case(name: str) -> AbstractCase:
    """Returns the case of this name."""
    if name in DENSITIES:
        return DENSITIES[name]
    return ModelCase(importlib.import_module("benchmarks.models").MODELS[name])
