"""Bayesian networks on tables: splits, the model against its formula, errors, the page."""

import dataclasses
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import uivi
from tests.paper.samples import networks
from uivi import datasets, paper
from uivi._types import Status
from uivi.datasets.records import Dataset
from uivi.datasets.records import Split as Rows
from uivi.evaluation import verdict
from uivi.paper import EXPERIMENTS, GROUPS, Trials, report
from uivi.paper.networks import experiments, models
from uivi.paper.networks.contenders import MeanField, Ours, Sivi
from uivi.paper.networks.published import OTHERS, PUBLISHED, best, of_uivi
from uivi.paper.networks.section import mean_and_error
from uivi.paper.networks.splits import split, standardised
from uivi.paper.samplers.contenders import AbstractContender, Entry
from uivi.paper.samplers.outcomes import Fitted

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 3)) * [1, 5, 0] + [0, 2, 7], RNG.normal(3.0, 2.0, size=40)


@pytest.fixture
def table(monkeypatch):
    """A table of forty rows in place of every data set."""
    data = Dataset("boston", "forty rows", "nowhere", Rows(X[:36], Y[:36]), None, Rows(X[36:], Y[36:]), None)
    monkeypatch.setattr(datasets, "load", lambda name: data)
    experiments._made.cache_clear()
    yield
    experiments._made.cache_clear()


def test_every_seed_splits_all_rows_anew(table):
    first, again, other = (split("boston", seed, 0.2) for seed in (0, 0, 1))
    assert (first.x.shape, first.test_x.shape) == ((32, 3), (8, 3))
    np.testing.assert_array_equal(first.test_y, again.test_y)
    assert not np.array_equal(first.test_y, other.test_y)
    for rows in (first, other):
        np.testing.assert_allclose(rows.x.mean(0), 0, atol=1e-12)
        np.testing.assert_allclose(rows.x.std(0), [1, 1, 0], atol=1e-12)
        np.testing.assert_allclose([rows.y.mean(), rows.y.std()], [0, 1], atol=1e-12)
        # Values on one scale, that of the training rows: all rows are there, each once.
        every = rows.unit * np.concatenate([rows.y, rows.test_y])
        np.testing.assert_allclose(np.diff(np.sort(every)), np.diff(np.sort(Y)), atol=1e-9)


def log_density(named, rows):
    """The posterior of the network by SciPy, with the Jacobians of the logarithms of its precisions."""
    total = sum(
        scipy.stats.gamma.logpdf(np.exp(named[name]), 1.0, scale=1 / rate) + named[name]
        for name, rate in (("inner", 1.0), ("outer", 1.0), ("noise", 0.1))
    )
    for name in ("first", "bias", "last", "offset"):
        total += scipy.stats.norm.logpdf(named[name]).sum()
    inner, outer, noise = (np.exp(-0.5 * named[name]) for name in ("inner", "outer", "noise"))
    hidden = np.maximum(rows.x @ (inner * named["first"]) + inner * named["bias"], 0)
    mean = hidden @ (outer * named["last"]) + named["offset"]
    return total + scipy.stats.norm.logpdf(rows.y, mean, noise).sum()


@pytest.mark.parametrize("batch_size", [None, 8])
def test_the_posterior_is_the_formula(batch_size):
    rows = standardised(X[:32], Y[:32], X[32:], Y[32:])
    target = models.posterior(rows, 2, batch_size)
    assert target.dim == 3 * 2 + 2 + 2 + 1 + 3
    on_all = jax.jit(lambda z: target.log_density(z))
    on_batch = jax.jit(lambda z, site: target.log_joint(z, site))
    for key in jax.random.split(jax.random.key(0), 3):
        z = 0.5 * jax.random.normal(key, (target.dim,))
        named = {name: np.asarray(value, np.float64) for name, value in target.unflatten(z).items()}
        np.testing.assert_allclose(on_all(z), log_density(named, rows), rtol=2e-5)
        if batch_size is None:
            continue
        # All minibatches of an epoch together are all rows.
        sites = (target.sites(key, jnp.asarray(step)) for step in range(4))
        found = [on_batch(z, jax.tree.map(lambda x: x[0], site)) for site in sites]
        np.testing.assert_allclose(np.mean(found), log_density(named, rows), rtol=2e-5)
        assert np.ptp(found) > 1


def test_scores_are_in_the_units_of_the_data():
    rows = standardised(X[:32], Y[:32], X[32:], Y[32:])
    target = models.posterior(rows, 2, None)
    # Draws without weights predict the mean of the training values, whose noise is known.
    offset, log_precision = 0.25, -1.0
    example = target.model.example | {"offset": jnp.asarray(offset), "noise": jnp.asarray(log_precision)}
    draw = np.asarray(jax.flatten_util.ravel_pytree(example)[0])
    found = models.scores(target, np.stack([draw, draw]), rows)
    mean = Y[:32].mean() + offset * Y[:32].std()
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((Y[32:] - mean) ** 2)), rel=1e-5)
    assert found["rmse_in_sds"] == pytest.approx(found["rmse"] / Y[:32].std())
    noise = Y[:32].std() * np.exp(-0.5 * log_precision)
    assert found["nll"] == pytest.approx(-scipy.stats.norm.logpdf(Y[32:], mean, noise).mean(), rel=1e-5)


class Fake(AbstractContender):
    """A Gaussian that is nobody's fit."""

    @property
    def is_paced(self):
        return False

    @property
    def words(self):
        return "a fake"

    def require(self):
        pass

    def compete(self, key, target, allowance, shown):
        family, history = uivi.ExplicitGaussian.create(target.dim), {"step": [7], "nonfinite": [0.0]}
        fit = uivi.Posterior(family, target.model.example, Status.DONE, history, 0.0, target=target)
        fit.estimator, fit.est_state = uivi.estimators.StickingTheLanding(), ()
        return Entry(Fitted(fit), 2.5, {})


def contest_of(contenders, **changes):
    found = dataclasses.replace(EXPERIMENTS["networks-boston"], recipes={"updates": contenders}, **changes)
    return dataclasses.replace(found, protocol=found.protocol._replace(width=2))


def trials_of(out, contest, method="uivi", seeds=(0,)):
    return Trials.create(contest, preset="updates", method=method, seeds=seeds, effort="smoke", out=out)


def test_every_seed_is_judged_on_its_own_split(table, tmp_path, monkeypatch):
    monkeypatch.setattr(verdict, "NUM_DRAWS", 100)
    contest = contest_of({"uivi": Fake()})
    (result,) = paper.run(trials_of(tmp_path, contest, seeds=(0, 1)), progress=False)
    assert result["config"]["task"]["protocol"] == {
        "words": "50 ReLUs, a tenth are test rows",
        "width": 2,
        "test_share": 0.1,
        "batch_size": None,
    }
    first, second = (seed["scores"]["rmse"] for seed in result["seeds"])
    assert first != second
    assert report.one_line(result).startswith("networks-boston updates-uivi (smoke): RMSE ")


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [None, 8])
@pytest.mark.parametrize("method", experiments.CONTENDERS)
def test_every_method_smokes(method, batch_size, table, tmp_path):
    contest = contest_of({method: experiments.CONTENDERS[method]}, batch_size=batch_size)
    (result,) = paper.run(trials_of(tmp_path, contest, method), progress=False)
    assert result["status"] == ["DONE"]
    assert result["config"]["num_steps"] == 4
    assert result["seeds"][0]["failed"] is False


def test_only_the_mean_field_has_a_family_of_its_own():
    assert Ours().options(14) == {}
    assert set(Sivi().options(14)) == {"estimator"}
    family = MeanField().options(14)["family"]
    assert isinstance(family, uivi.ExplicitGaussian)
    assert family.dim == 14


def test_published_errors():
    assert GROUPS["networks"] == tuple(PUBLISHED)
    assert paper.WHOLE["networks"] == ("updates",)
    assert (best("networks-boston", "rmse"), best("networks-boston", "nll")) == (2.555, 2.477)
    assert of_uivi("networks-protein", "nll") == 3.029
    assert best("networks-yacht-narrow", "nll") is None
    for name, found in PUBLISHED.items():
        is_narrow = EXPERIMENTS[name].protocol.width == 10
        assert all((each.rmse or 0) < 1 and each.nll is None for each in found) is is_narrow


def test_the_docs_have_the_same_errors():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "networks.md").read_text()
    table = page.partition("## Published errors")[2].partition("## ")[0]
    rows = [line for line in table.splitlines() if re.search(r"\d", line)]
    for row, (name, found) in zip(rows, PUBLISHED.items(), strict=True):
        assert row.startswith(f"| {EXPERIMENTS[name].title} |")
        theirs = [(each.rmse, each.nll) for each in found if each.method != OTHERS]
        own = [(each.rmse, each.nll) for each in found if each.method == OTHERS]
        expected = [error for errors in zip(*theirs, strict=True) for error in errors if error is not None]
        expected += [error for errors in own for error in errors if error is not None]
        assert [float(number) for number in re.findall(r"\d+\.\d+", row)] == expected
    assert all(f"| `{name}` |" in page for name in experiments.CONTENDERS)


def test_the_page_has_errors_beside_published_ones(write):
    assert mean_and_error([]) == (None, None)
    assert mean_and_error([2.0]) == (2.0, None)
    mean, error = mean_and_error([1.0, 2.0, 3.0, 6.0])
    assert (mean, error) == (3.0, pytest.approx(np.std([1, 2, 3, 6], ddof=1) / 2))
    narrow = networks(name="networks-yacht-narrow", title="Yacht, 10 units")
    page = write(networks(), networks("gaussian"), narrow)
    # In the units of the data or in standard deviations, by the protocol; a worse error is marked.
    for text in ("0.800 ± 0.100", "0.884", "<td class='flag'>1.500 ± 0.100", "1.432", "0.080 ± 0.010", "0.130"):
        assert text in page, text
    assert len(re.findall("<h3>", page)) >= 2
    line = "networks-yacht updates-uivi: RMSE 0.800 ± 0.100, NLL 1.500 ± 0.100, 2 seeds"
    assert report.one_line(networks()).startswith(line)
