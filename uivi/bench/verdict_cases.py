"""The cases of the part `verdict`: fits that fail, and fits that are right."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import uivi
from uivi import presets
from uivi.bench import verdict_densities as known
from uivi.bench.verdict_densities import Density, Draw
from uivi.families import Gaussian, RawScale, SemiImplicit, StandardNormal
from uivi.networks import MLP
from uivi.targets import Banana, Multimodal, XShaped
from uivi.targets.toys import AbstractToy

Settings = Callable[[], dict[str, Any]]
"""Returns the arguments of `uivi.fit` that are not its defaults."""
FEW = 50
"""Number of updates of a fit that ends far too early."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A posterior and how it is fitted.

    Attributes:
        name: a short name.
        dim: size of z.
        log_density: the log density, up to a constant.
        exact: draws one exact sample; None if there is no simple way, or no such distribution.
        settings: what differs from the defaults.
        sd: the standard deviation of every coordinate, where tails are too heavy for that of a sample.
    """

    name: str
    dim: int
    log_density: Density
    exact: Draw | None = None
    settings: Settings = dict
    sd: float | None = None


# --- ways to fit ----------------------------------------------------------------------------------------------


def _mean_field(dim: int, num_steps: int = 2_000) -> Settings:
    """Fits an explicit Gaussian without correlations, from the origin."""
    return lambda: {"family": uivi.ExplicitGaussian.create(dim), "num_steps": num_steps}


def _few(num_steps: int = FEW) -> Settings:
    """Ends a fit with defaults far too early."""
    return lambda: {"num_steps": num_steps}


def _own_family(dim: int) -> Settings:
    """Fits the default family from the origin, as a family of the user's own."""
    return lambda: {"family": presets.default_family(jax.random.key(9), dim), "num_steps": 1_500}


def _at_rate(rate: float) -> Settings:
    return lambda: {"optimizer": optax.adam(rate), "num_steps": 300}


def _stuck_chain() -> dict[str, Any]:
    return {"estimator": presets.paper_uivi(initial_step=1e-6), "num_steps": 50}


def _one_direction() -> dict[str, Any]:
    """Bends q in one direction only."""
    net = MLP.create(jax.random.key(3), 1, 2, width=4, depth=1)
    family = SemiImplicit(StandardNormal(1), Gaussian(net, RawScale.create(2)))
    return {"family": family, "num_steps": 1_500}


def _paper() -> dict[str, Any]:
    return {
        "family": presets.paper_family(jax.random.key(0), 2),
        "estimator": presets.paper_uivi(),
        "optimizer": presets.paper_optimizer(20_000),
        "num_steps": 20_000,
    }


def _sivi() -> dict[str, Any]:
    return {"estimator": presets.default_sivi(), "num_steps": 3_000}


# --- fits that fail -------------------------------------------------------------------------------------------


def _toy(name: str, toy: AbstractToy, settings: Settings = dict) -> Case:
    """Hides the toy behind a plain function, so that the fit knows no more than a user's density tells."""
    return Case(name, 2, lambda z: toy.log_joint(z), toy.sample, settings)


_FAR = known.regression(20.0, 0.0007)
_CORNERS = np.array([[-6.0, 0.0], [6.0, 0.0]])
_EIGHT = 10 * np.stack([np.cos(np.arange(8) * np.pi / 4), np.sin(np.arange(8) * np.pi / 4)], 1)
_LINE = np.array([[-20.0], [20.0]]) * np.ones((1, 5))

FAILURES: tuple[Case, ...] = (
    Case("far regression, mean field", 4, *_FAR, _mean_field(4)),
    Case("far regression, 50 updates", 4, *_FAR, _mean_field(4, FEW)),
    Case("sd 1e-5, own family", 2, known.normal(0.0, 1e-5), known.normal_draw(2, 0.0, 1e-5), _own_family(2)),
    Case("magnitude 1e30", 2, lambda z: -1e30 * jnp.sum(z**2), known.normal_draw(2, 0.0, 7e-16)),
    Case("constant 1e8", 2, known.shifted(known.normal(), 1e8), known.normal_draw(2)),
    Case("constant 1e9", 2, known.shifted(known.normal(), 1e9), known.normal_draw(2)),
    Case("constant -1e8, one step", 3, known.shifted(known.normal(2.0), -1e8), known.normal_draw(3, 2.0)),
    Case("two opposite quadrants", 2, known.quadrants, known.quadrants_draw),
    Case("parabola, sd 10", 2, *known.parabola(10.0, 0.1)),
    Case("funnel, sd 3", 10, *known.funnel(10, 3.0)),
    Case("funnel, sd 5, 3-d", 3, *known.funnel(3, 5.0)),
    Case("two modes at 6", 2, *known.mixture(_CORNERS, 1.0, np.array([0.5, 0.5]))),
    Case("two modes, 68:32", 2, *known.mixture(_CORNERS, 1.0, np.array([0.68, 0.32]))),
    Case("two modes at 20, 5-d", 5, *known.mixture(_LINE, 1.0, np.array([0.7, 0.3]))),
    Case("eight modes at 10", 2, *known.mixture(_EIGHT, 0.5, np.ones(8) / 8)),
    Case("thin ring", 2, *known.ring(10.0, 0.1)),
    Case("Cauchy", 2, known.student(2, 1.0)[0]),
    Case("Student, 1.5 degrees, mean field", 2, known.student(2, 1.5)[0], None, _mean_field(2)),
    Case("Student, 2.2 degrees, 5-d", 5, *known.student(5, 2.2), sd=math.sqrt(11)),
    Case("uniform square", 2, lambda z: jnp.where(jnp.max(jnp.abs(z)) < 1, 0.0, -jnp.inf), None),
    Case("half normal, none outside", 2, known.half_normal(-np.inf), known.half_normal_draw),
    Case("half normal, -1e10 outside", 2, known.half_normal(-1e10), known.half_normal_draw),
    Case("NaN beyond 1.5", 2, known.nan_beyond(1.5)),
    Case("improper in one direction", 2, lambda z: -0.5 * z[0] ** 2 + 1e-6 * z[1]),
    Case("unbounded", 2, lambda z: 0.5 * jnp.sum(z**2)),
    Case("periodic", 2, lambda z: 3 * jnp.sum(jnp.cos(z))),
    Case("banana, mean field", 2, lambda z: Banana().log_joint(z), Banana().sample, _mean_field(2)),
    Case("correlation .95, mean field", 2, *known.correlated(2, 0.95), _mean_field(2)),
    Case("X, 30 updates", 2, lambda z: XShaped().log_joint(z), XShaped().sample, _few(30)),
    Case("two modes at 3, one direction", 2, *known.mixture(_CORNERS / 2, 0.5, np.ones(2) / 2), _one_direction),
    Case("learning rate 3", 2, known.normal(), known.normal_draw(2), _at_rate(3.0)),
    Case("learning rate 1e-9", 2, known.normal(5.0, 0.1), known.normal_draw(2, 5.0, 0.1),
         lambda: {"optimizer": optax.adam(1e-9), **_own_family(2)()}),
    Case("score half missing", 2, known.stopped, known.stopped_draw),
    Case("wrong derivative", 2, known.wrong_derivative, known.normal_draw(2)),
    Case("steps", 2, known.steps),
    Case("mean 1e4, sd .005", 1, known.normal(1e4, 0.005), known.normal_draw(1, 1e4, 0.005)),
    Case("mean 1e6, sd 1, 3-d", 3, known.normal(1e6, 0.5), known.normal_draw(3, 1e6, 0.5)),
    Case("banana, paper's chain stuck", 2, lambda z: Banana().log_joint(z), Banana().sample, _stuck_chain),
    Case("50 dimensions, 20 updates of mean field", 50, *known.correlated(50, 0.9), _mean_field(50, 20)),
)  # fmt: skip


RIGHT: tuple[Case, ...] = (
    Case("normal, 1-d", 1, known.normal(), known.normal_draw(1)),
    Case("normal, 2-d", 2, known.normal(), known.normal_draw(2)),
    Case("normal, 20-d", 20, known.normal(), known.normal_draw(20)),
    Case("normal, 100-d", 100, known.normal(), known.normal_draw(100)),
    Case("normal, 300-d", 300, known.normal(), known.normal_draw(300)),
    Case("correlation .95", 2, *known.correlated(2, 0.95)),
    Case("chain of 30, correlation .9", 30, *known.correlated(30, 0.9)),
    Case("scales 1e-3 to 1e3", 4, known.normal(0.0, np.array([1e-3, 0.1, 10.0, 1e3])),
         known.normal_draw(4, 0.0, np.array([1e-3, 0.1, 10.0, 1e3]))),
    Case("mean 1000", 3, known.normal(1e3), known.normal_draw(3, 1e3)),
    Case("constant 1e4", 2, known.shifted(known.normal(), 1e4), known.normal_draw(2)),
    Case("constant -1e5", 2, known.shifted(known.normal(), -1e5), known.normal_draw(2)),
    _toy("banana", Banana()),
    _toy("multimodal", Multimodal()),
    _toy("X", XShaped()),
    _toy("banana, SIVI", Banana(), _sivi),
    Case("Student, 5 degrees", 2, *known.student(2, 5.0)),
    Case("Student, 8 degrees, 5-d", 5, *known.student(5, 8.0)),
    Case("parabola, sd 1", 2, *known.parabola(1.0, 0.5)),
    Case("funnel, sd 1, 5-d", 5, *known.funnel(5, 1.0)),
    Case("two modes that touch", 2, *known.mixture(_CORNERS / 4, 1.0, np.array([0.6, 0.4]))),
    Case("three modes that touch", 2, *known.mixture(
        2 * _EIGHT[[0, 3, 5]] / 10, 1.0, np.array([0.5, 0.3, 0.2]))),
    Case("gamma, log scale", 2, *known.log_gamma(2.0)),
    Case("beta, logit scale", 2, *known.logit_beta(2.0, 5.0)),
    Case("skew normal", 2, *known.skew_normal(3.0)),
    Case("regression", 4, *known.regression(1.0, 1.0)),
    Case("regression, precise and far", 4, *_FAR),
    Case("logistic regression", 5, known.logistic(200, 5)),
    Case("Poisson regression", 4, known.poisson(100, 4)),
    Case("eight schools", 10, known.schools),
    Case("normal, mean field", 2, known.normal(), known.normal_draw(2), _mean_field(2)),
    Case("regression, own family", 4, *known.regression(0.0, 1.0), _own_family(4)),
    Case("wide ring", 2, *known.ring(1.5, 0.7)),
    Case("normal, the paper's preset", 2, known.normal(), known.normal_draw(2), _paper),
)  # fmt: skip
