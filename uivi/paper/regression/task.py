"""Fitting and judging Bayesian multinomial logistic regression (Section 4.2)."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from uivi import datasets
from uivi._types import Key
from uivi.evaluation import likelihood
from uivi.evaluation.annealing import AIS
from uivi.evaluation.bounds import BoundValue, Side
from uivi.evaluation.classification import predict
from uivi.families import SemiImplicit
from uivi.fitting.posterior import Posterior
from uivi.paper.experiment import AbstractTask, Effort, Recipe
from uivi.targets.regression import LabelledRows, SoftmaxRegression
from uivi.training.monitors import AbstractMonitor
from uivi.training.update import FitState, Method, sites_key


@dataclasses.dataclass(frozen=True)
class Budget:
    """Draws and intervals of the evaluation: the paper's at full effort."""

    elbo_every: int = 100
    elbo_draws: int = 100
    elbo_mixing: int = 10_000
    test_every: int = 1_000
    test_draws: int = 8_000
    final_draws: int = 1_000
    sandwich_draws: int = 32
    sandwich: AIS = dataclasses.field(default_factory=lambda: AIS(1_000))
    test_rows: int | None = None


BUDGETS: dict[Effort, Budget] = {
    "full": Budget(),
    "quick": Budget(10, 20, 500, 50, 100, 50, 4, AIS(50, num_grid=8, num_moves=8), 2_000),
    "smoke": Budget(2, 3, 5, 2, 3, 4, 2, AIS(3, num_grid=2, num_moves=2), 50),
}


class ElboCurve(AbstractMonitor):
    """The paper's ELBO estimate on the minibatch of the moment, and the same from below."""

    every: int = eqx.field(static=True)
    num_draws: int = eqx.field(static=True)
    num_mixing: int = eqx.field(static=True)

    @eqx.filter_jit
    def __call__(self, method: Method, state: FitState) -> dict[str, Array]:
        """Both sides; the draws and the fresh ε are shared."""
        del method
        target, family = state.target, state.family
        site = jax.tree.map(lambda x: x[0], target.sites(sites_key(state), state.step))
        log_joint = lambda z: target.log_joint(z, site)  # noqa: E731
        budget = (self.num_draws, self.num_mixing)
        terms, _ = likelihood.evaluate_terms(self.key(state), family, log_joint, None, *budget)
        low, high = likelihood.log_marginals(terms, self.num_mixing)
        from_below = terms.log_joint - high
        return {
            "elbo_lower": jnp.mean(from_below),
            "elbo_lower_stderr": jnp.std(from_below) / jnp.sqrt(self.num_draws),
            "elbo_paper": jnp.mean(terms.log_joint - low),
        }


class TestCurve(AbstractMonitor):
    """Predictions on held-out rows."""

    held_out: LabelledRows
    every: int = eqx.field(static=True)
    num_draws: int = eqx.field(static=True)

    def __call__(self, method: Method, state: FitState) -> dict[str, Array]:
        """All scores of `predict`."""
        del method
        assert isinstance(state.target, SoftmaxRegression)
        scores = predict(self.key(state), state.family, state.target, self.held_out, self.num_draws)
        return {f"test_{name}": value for name, value in scores._asdict().items()}


class RegressionTask(AbstractTask):
    """A data set with labels: ELBO from both sides, predictions on its test split."""

    def __init__(self, dataset: str, batch_size: int, divisor: float, effort: Effort):
        """Load the data set."""
        self.data = datasets.load(dataset)
        train, test, classes = self.data.train, self.data.test, self.data.num_classes
        if train.y is None or test.y is None or classes is None:
            raise ValueError(f"expected a data set with labels, got {dataset}")
        self.features, self.labels, self.num_classes = train.x, train.y, classes
        self.budget = BUDGETS[effort]
        self.batch_size, self.divisor = batch_size, divisor
        kept = slice(self.budget.test_rows)
        x = np.asarray(test.x[kept], np.float32) / np.float32(divisor)
        self.test = (jnp.asarray(x), jnp.asarray(test.y[kept]))

    def target(self, key: Key, recipe: Recipe) -> SoftmaxRegression:
        """All training rows."""
        del key, recipe
        return SoftmaxRegression.create(
            self.features,
            self.labels,
            num_classes=self.num_classes,
            batch_size=self.batch_size,
            divisor=self.divisor,
        )

    def monitors(self, num_steps: int, recipe: Recipe) -> Sequence[AbstractMonitor]:
        """ELBO and test curves."""
        del num_steps, recipe
        b = self.budget
        return (
            ElboCurve(b.elbo_every, b.elbo_draws, b.elbo_mixing),
            TestCurve(held_out=self.test, every=b.test_every, num_draws=b.test_draws),
        )

    def evaluate(self, key: Key, fit: Posterior, recipe: Recipe) -> dict[str, Any]:
        """ELBO on all the data: by fresh ε, and by annealing from and to the generating ε; predictions."""
        del recipe
        keys, b = jax.random.split(key, 3), self.budget
        assert isinstance(fit.target, SoftmaxRegression)
        scores = predict(keys[1], fit.family, fit.target, self.test, b.test_draws)
        values: dict[str, Any] = {f"test_{k}": float(v) for k, v in scores._asdict().items()}
        terms = _terms(keys[0], fit.family, fit.target, b.final_draws, b.elbo_mixing)
        low, high = likelihood.log_marginals(terms, b.elbo_mixing)
        values["elbo_lower"] = _value("lower", terms.log_joint - high)
        values["elbo_paper"] = _value("upper", terms.log_joint - low)
        if isinstance(fit.family, SemiImplicit):
            below, above = _information(keys[2], fit.family, b.sandwich_draws, b.sandwich)
            given = terms.log_joint - terms.own
            values["ais_lower"] = _value("lower", given, below)
            values["ais_upper"] = _value("upper", given, above)
            values["information"] = {"lower": float(jnp.mean(below)), "upper": float(jnp.mean(above))}
        return values

    def exhibit(self, key: Key, fit: Posterior) -> dict[str, Any]:
        """Nothing but the curves."""
        del key, fit
        return {}

    def describe(self) -> dict[str, Any]:
        """Data and budget."""
        budget = dataclasses.asdict(self.budget) | {"sandwich": repr(self.budget.sandwich)}
        return {"dataset": self.data.name, "description": self.data.description, "budget": budget}


@eqx.filter_jit
def _terms(key: Key, family, target: SoftmaxRegression, num_draws: int, num_mixing: int):
    return likelihood.evaluate_terms(key, family, target.log_density, None, num_draws, num_mixing)[0]


@eqx.filter_jit
def _information(key: Key, family: SemiImplicit, num_draws: int, settings: AIS) -> tuple[Array, Array]:
    """Log q(z|ε) - log q(z) of draws (z, ε), too low and too high in expectation.

    log q(z) = log ∫ q(ε) q(z|ε) dε by annealing: the ε that made z is an exact draw of q(ε|z), so the backward
    chain bounds it from above, and the forward chain from below.
    """

    def one(key: Key):
        draw_key, chain_key = jax.random.split(key)
        draw = family.sample(draw_key)
        log_prob = family.conditional.log_prob_of(draw.z)
        result = settings.sandwich(chain_key, family.mixing, log_prob, draw.eps, 1)
        own = log_prob(draw.eps)
        assert result.upper is not None
        return own - result.upper, own - result.lower

    return jax.vmap(one)(jax.random.split(key, num_draws))


def _value(side: Side, *parts: Array) -> dict[str, Any]:
    """The sum of the means of independent parts, with its standard error, for JSON."""
    values = [np.asarray(part, np.float64) for part in parts]
    variance = sum(v.var(ddof=1) / v.size for v in values)
    mean = float(sum(v.mean() for v in values))
    return BoundValue("ELBO on all data", side, mean, float(np.sqrt(variance)), values[0].size)._asdict()
