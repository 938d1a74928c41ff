"""Fits and judges Bayesian multinomial logistic regression (Section 4.2)."""

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget:
    """Draws and intervals of the evaluation. The defaults are the paper's.

    Attributes:
        elbo_every: updates between two ELBO estimates of the curve.
        elbo_draws: draws of z in each of them.
        elbo_mixing: fresh ε in every ELBO estimate, also in the final one.
        test_every: updates between two test scores of the curve.
        test_draws: draws of z in every test score, also in the final one.
        final_draws: draws of z in the final ELBO.
        sandwich_draws: draws of (z, ε) in the annealed estimate of log q(z).
        sandwich: annealing schedule.
        test_rows: number of test rows to evaluate; None for all.
    """

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
    "quick": Budget(
        elbo_every=10,
        elbo_draws=20,
        elbo_mixing=500,
        test_every=50,
        test_draws=100,
        final_draws=50,
        sandwich_draws=4,
        sandwich=AIS(50, num_grid=8, num_moves=8),
        test_rows=2_000,
    ),
    "smoke": Budget(
        elbo_every=2,
        elbo_draws=3,
        elbo_mixing=5,
        test_every=2,
        test_draws=3,
        final_draws=4,
        sandwich_draws=2,
        sandwich=AIS(3, num_grid=2, num_moves=2),
        test_rows=50,
    ),
}


class ElboCurve(AbstractMonitor):
    """The paper's ELBO estimate on the current minibatch, and a lower bound from the same draws."""

    every: int = eqx.field(static=True)
    num_draws: int = eqx.field(static=True)
    num_mixing: int = eqx.field(static=True)

    @eqx.filter_jit
    def __call__(self, method: Method, state: FitState) -> dict[str, Array]:
        """Returns both estimates. They share the draws of z and the fresh ε."""
        del method
        target, family = state.target, state.family
        site = jax.tree.map(lambda x: x[0], target.sites(sites_key(state), state.step))
        log_joint = lambda z: target.log_joint(z, site)
        budget = (self.num_draws, self.num_mixing)
        terms, _ = likelihood.evaluate_terms(self.key(state), family, log_joint, None, *budget)
        high, low = likelihood.log_marginals(terms, self.num_mixing)
        from_below = terms.log_joint - high
        return {
            "elbo_lower": jnp.mean(from_below),
            "elbo_lower_stderr": jnp.std(from_below) / jnp.sqrt(self.num_draws),
            "elbo_paper": jnp.mean(terms.log_joint - low),
        }


class TestCurve(AbstractMonitor):
    """Scores of the predictions on held-out rows."""

    held_out: LabelledRows
    every: int = eqx.field(static=True)
    num_draws: int = eqx.field(static=True)

    def __call__(self, method: Method, state: FitState) -> dict[str, Array]:
        """Returns all scores of `predict`."""
        del method
        assert isinstance(state.target, SoftmaxRegression)
        scores = predict(self.key(state), state.family, state.target, self.held_out, self.num_draws)
        return {f"test_{name}": value for name, value in scores._asdict().items()}


class RegressionTask(AbstractTask):
    """A labelled data set, judged by the ELBO from both sides and by predictions on the test split."""

    def __init__(self, effort: Effort, *, dataset: str, batch_size: int, divisor: float):
        """Loads the data set.

        Args:
            effort: selects the budget of the evaluation.
            dataset: name of a data set with labels.
            batch_size: rows in a minibatch.
            divisor: number that all features are divided by.
        """
        self.data = datasets.load(dataset)
        train, test, classes = self.data.train, self.data.test, self.data.num_classes
        if train.y is None or test is None or test.y is None or classes is None:
            raise ValueError(
                f"expected a data set with labels and test rows, got {dataset!r}: it lacks one of these"
            )
        self.features, self.labels, self.num_classes = train.x, train.y, classes
        self.budget = BUDGETS[effort]
        self.batch_size, self.divisor = batch_size, divisor
        kept = slice(self.budget.test_rows)
        x = np.asarray(test.x[kept], np.float32) / np.float32(divisor)
        self.test = (jnp.asarray(x), jnp.asarray(test.y[kept]))

    def target(self, key: Key, recipe: Recipe) -> SoftmaxRegression:
        """Returns the regression on all training rows."""
        del key, recipe
        return SoftmaxRegression.create(
            self.features,
            self.labels,
            num_classes=self.num_classes,
            batch_size=self.batch_size,
            divisor=self.divisor,
        )

    def monitors(self, num_steps: int, recipe: Recipe) -> Sequence[AbstractMonitor]:
        """Returns the monitors of the ELBO and of the test scores."""
        del num_steps, recipe
        b = self.budget
        return (
            ElboCurve(every=b.elbo_every, num_draws=b.elbo_draws, num_mixing=b.elbo_mixing),
            TestCurve(held_out=self.test, every=b.test_every, num_draws=b.test_draws),
        )

    def evaluate(self, key: Key, fit: Posterior, recipe: Recipe) -> dict[str, Any]:
        """Returns the ELBO on all the data, from fresh ε and from annealing, and the test scores."""
        del recipe
        keys, b = jax.random.split(key, 3), self.budget
        assert isinstance(fit.target, SoftmaxRegression)
        scores = predict(keys[1], fit.family, fit.target, self.test, b.test_draws)
        values: dict[str, Any] = {f"test_{k}": float(v) for k, v in scores._asdict().items()}
        terms = _terms(keys[0], fit.family, fit.target, b.final_draws, b.elbo_mixing)
        high, low = likelihood.log_marginals(terms, b.elbo_mixing)
        values["elbo_lower"] = _value("lower", terms.log_joint - high)
        values["elbo_paper"] = _value("upper", terms.log_joint - low)
        if isinstance(fit.family, SemiImplicit):
            below, above = _information(keys[2], fit.family, b.sandwich_draws, b.sandwich)
            # ELBO = E[log p(x, z) - log q(z|ε)] + E[log q(z|ε) - log q(z)]. The first mean takes all draws from
            # above. Only the second needs annealing, which is costly, so it takes few.
            given = terms.log_joint - terms.own
            values["ais_lower"] = _value("lower", given, below)
            values["ais_upper"] = _value("upper", given, above)
            values["information"] = {"lower": float(jnp.mean(below)), "upper": float(jnp.mean(above))}
        return values

    def exhibit(self, key: Key, fit: Posterior) -> dict[str, Any]:
        """Returns an empty dictionary: the figures need only the history."""
        del key, fit
        return {}

    def describe(self) -> dict[str, Any]:
        """Returns the data set and the evaluation budget."""
        budget = dataclasses.asdict(self.budget) | {"sandwich": repr(self.budget.sandwich)}
        return {"dataset": self.data.name, "description": self.data.description, "budget": budget}


@eqx.filter_jit
def _terms(key: Key, family, target: SoftmaxRegression, num_draws: int, num_mixing: int):
    return likelihood.evaluate_terms(key, family, target.log_density, None, num_draws, num_mixing)[0]


@eqx.filter_jit
def _information(key: Key, family: SemiImplicit, num_draws: int, settings: AIS) -> tuple[Array, Array]:
    """Returns log q(z|ε) - log q(z) at draws (z, ε), too low and too high in expectation.

    Annealing estimates log q(z) = log ∫ q(ε) q(z|ε) dε. The ε that generated z is an exact draw from q(ε|z), so
    the backward chain gives an upper bound. The forward chain gives a lower bound.
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
    """Returns the sum of the means of independent parts with its standard error, for JSON."""
    values = [np.asarray(part, np.float64) for part in parts]
    variance = sum(v.var(ddof=1) / v.size for v in values)
    mean = float(sum(v.mean() for v in values))
    return BoundValue("ELBO on all data", side, mean, float(np.sqrt(variance)), values[0].size)._asdict()
