"""What a modeller sees: the printed posterior, its HTML, its plots."""

import dataclasses
import re
import xml.etree.ElementTree as ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import uivi
from tests.tiny import explicit_settings, implicit_settings, log_density
from uivi.evaluation import verdict
from uivi.evaluation.check import number_lines
from uivi.evaluation.look import BATCH, look
from uivi.evaluation.wide import Pooled
from uivi.fitting import display, plots, tables

EPS = float(np.finfo(np.float32).eps)
SHAPES = {
    "one number": {"x": ()},
    "many numbers": {f"x{i}": () for i in range(60)},
    "long vectors": {"a": (100,), "b": (3,), "c": (50, 4)},
    "long names": {"a" * 300: (40,), "<b>[/]": ()},
}


@pytest.fixture(scope="module")
def fitted():
    return uivi.fit(log_density, 2, key=jax.random.key(0), **implicit_settings())


def made(shapes, size=64):
    """A posterior of independent normal variables, without a density."""
    example = {name: jnp.zeros(shape) for name, shape in shapes.items()}
    dim = sum(leaf.size for leaf in jax.tree.leaves(example))
    return uivi.Posterior(uivi.ExplicitGaussian.create(dim), example, uivi.Status.DONE, {}, 0.0)


@pytest.mark.parametrize("advice", [(), ("word " * 200,) * 9], ids=["no advice", "much advice"])
@pytest.mark.parametrize("name", SHAPES)
def test_forty_lines_are_enough_for_any_family(name, advice, fitted):
    posterior = made(SHAPES[name])
    found = uivi.evaluation.Check.from_json({**fitted.check().to_json(), "advice": advice})
    lines = display.text(posterior, found, posterior._variables()).splitlines()
    assert len(lines) <= display.MOST_LINES
    assert max(map(len, lines)) <= display.WIDTH
    assert lines[0].startswith("verdict: ")


def test_how_a_fit_ended_is_said_only_if_it_ended_early(fitted):
    assert fitted.summary().splitlines()[-2].endswith(" s)")
    interrupted = dataclasses.replace(fitted, status=uivi.Status.INTERRUPTED)
    assert "interrupted before the last update" in " ".join(interrupted.summary().split())


def test_details_have_the_seconds_of_each_phase(fitted):
    timed = dataclasses.replace(fitted, phases={"compiling": 2.04, "updates": 11.0})
    lines = timed.summary(details=True).splitlines()
    assert lines[-1] == "  seconds             compiling 2.0, updates 11.0"
    numbers = number_lines(fitted.check())
    assert lines[-1 - len(numbers) : -1] == numbers, "verdict and advice are at the top already"
    assert made({"mu": ()}).summary(details=True) == made({"mu": ()}).summary()


def test_long_vectors_are_shortened():
    printed = made({"theta": (100,), "mu": ()}).summary()
    shown = sum(line.startswith("theta[") for line in printed.splitlines())
    assert f"... {100 - shown} more" in printed
    assert "mu " in printed


def test_entries_with_long_names_can_be_told_apart():
    rows = made({"a" * 40: (12,)}).summary().splitlines()
    labels = [line.split()[0] for line in rows if line.startswith("aaa")]
    assert labels[::11] == [f"{'a' * 20}...{'a' * 6}[0]", f"{'a' * 20}...{'a' * 5}[11]"]


def test_columns_are_aligned_and_the_numbers_are_those_of_the_draws(fitted):
    lines = fitted.summary().splitlines()
    head = next(i for i, line in enumerate(lines) if line.split()[:2] == ["mean", "sd"])
    rows = lines[head + 1 : head + 3]
    assert {len(line) for line in rows} == {len(lines[head])}
    pooled = tables._pooled(fitted, fitted.check())
    draws = pooled.z[~pooled.is_wide]
    for row, column in zip(rows, draws.T, strict=True):
        expected = [column.mean(), column.std(), *np.quantile(column, tables.QUANTILES)]
        np.testing.assert_allclose([float(x) for x in row.split()[1:6]], expected, atol=0.006)


def test_the_table_is_made_once(fitted, monkeypatch):
    fitted.summary()
    monkeypatch.setattr(tables, "variables", None)
    assert str(fitted) == fitted.summary()


def test_errors_need_reliable_weights_and_find_the_wrong_variable():
    draws = np.random.default_rng(0).normal(size=(4_000, 2))
    ours, theirs = np.full(4_000, 1 / 4_000), np.exp(0.5 * draws[:, 1])
    found = tables._errors(draws, (theirs / theirs.sum(), ours), EPS)
    assert found[0] < 0.1
    assert found[1] > 0.4
    assert np.isnan(tables._errors(draws, None, EPS)).all()
    assert np.isnan(tables._errors(np.ones((9, 1)), (np.full(9, 1 / 9), np.full(9, 1 / 9)), EPS)).all()


@pytest.mark.parametrize(("slope", "expected"), [(0.0, 0.0), (0.5, 0.5)])
def test_wide_draws_count_in_errors(slope, expected):
    """Half of the draws are of N(0, 1), half of N(0, 4), and the posterior is N(slope, 1)."""
    rng = np.random.default_rng(1)
    is_wide = np.arange(40_000) >= 20_000
    z = (rng.normal(size=40_000) * np.where(is_wide, 2.0, 1.0))[:, None]
    log_q = -0.5 * z[:, 0] ** 2
    log_r = np.logaddexp(log_q, -0.125 * z[:, 0] ** 2 - np.log(2.0)) - np.log(2.0)
    log_p = -0.5 * (z[:, 0] - slope) ** 2
    log_p[is_wide & (z[:, 0] < -4)] = -np.inf  # outside the support
    weights = tables._weights(Pooled(z, log_p, log_q, log_r, is_wide), None)
    assert weights is not None
    np.testing.assert_allclose(tables._errors(z, weights, EPS), expected, atol=0.03)
    assert tables._weights(Pooled(z, np.where(is_wide, log_p, np.nan), log_q, log_r, is_wide), None) is None


def test_errors_come_from_the_draws_that_decided_the_check(fitted):
    found = fitted.check()
    fit = (fitted.family, fitted.target, fitted.estimator, fitted.est_state)
    for number, options in ((tables.NUM_DRAWS, {}), (8 * BATCH, {"first": verdict.FIRST_OF_MORE})):
        given = dataclasses.replace(found, weights=found.weights._replace(num_draws=number))
        expected = look(jax.random.key(0), *fit, num_draws=number, **options).pooled
        np.testing.assert_array_equal(tables._pooled(fitted, given).z, expected.z)


def test_the_check_decides_whether_weights_are_reliable(fitted):
    pooled = tables._pooled(fitted, None)
    bad = dataclasses.replace(fitted.check(), weights=fitted.check().weights._replace(pareto_k=0.9))
    assert tables._weights(pooled, bad) is None
    table = [v._replace(errors=np.full(len(v.labels), np.nan)) for v in fitted._variables()]
    assert "the importance weights are not reliable" in display.text(fitted, bad, table)
    assert "not reliable" not in fitted.summary()


def test_decimals_are_those_that_the_draws_are_worth_and_points_are_below_one_another():
    def rows(*numbers):
        unknown = np.full(len(numbers), np.nan)
        labels = [f"x[{i}]" for i in range(len(numbers))]
        variable = tables.Variable("x", labels, np.zeros((3, len(numbers))), np.array(numbers), unknown)
        return [cells for _, cells, _ in display._rows([variable], 9)]

    small, large = [0.4321, 1.2345, -1.0, -0.001, 2.0], [1234.56, 456.7, 1.0, 2.0, -0.4]
    assert rows(small, large) == [
        ["0.43", "1.23", "-1.00", "0.00", "2.00"],
        ["1235   ", "457   ", "1   ", "2   ", "0   "],
    ]
    # Similar scales share their number of decimals.
    assert [row[1] for row in rows([1.0, 0.996, 1, 1, 1], [1.0, 5.67, 1, 1, 1])] == ["1.00", "5.67"]
    assert rows([np.nan, np.nan, 1, 1, 1])[0][:3] == ["nan", "nan", "1"]
    assert rows([3e8, 1e7, 3e8, 3e8, 3e8])[0][0] == "3e+08"
    # As many digits as tell the quantiles apart.
    assert rows([3e8, 10.0, 3e8 - 16, 3e8, 3e8 + 16])[0] == [
        "300000000",
        "10",
        "299999984",
        "300000000",
        "300000016",
    ]


def test_a_models_variables_come_in_its_own_order():
    def model():
        z = numpyro.sample("z", dist.Normal(0.0, 1.0))
        b = numpyro.sample("b", dist.Normal(0.0, 1.0))
        numpyro.deterministic("a", z + b)

    target = uivi.integrations.numpyro.target(model, ())
    assert tables._order(target) == ["z", "b", "a"]
    family = uivi.ExplicitGaussian.create(2)
    posterior = uivi.Posterior(family, jnp.zeros(2), uivi.Status.DONE, {}, 0.0, target=target, is_model=True)
    assert [v.name for v in posterior._variables()] == ["z", "b", "a"]


def test_repr_is_one_line(fitted):
    assert repr(fitted).startswith("<Posterior: SemiImplicit, 2 dimensions")
    assert "\n" not in repr(fitted)
    assert repr(made({"mu": ()})) == "<Posterior: ExplicitGaussian, 1 dimension>"


def test_the_name_of_an_entry_is_not_folded(fitted):
    (variable,) = fitted._variables()
    named = variable._replace(labels=["weights[0, 0, 0]", "weights[0, 0, 1]"])
    printed = display.text(fitted, fitted.check(), [named])
    assert re.search(r"^  \(weights\[0, 0, [01]\]\)$", printed, re.MULTILINE)
    assert display.NOT_FOLDED not in printed


@pytest.mark.parametrize("name", SHAPES)
def test_html_is_well_formed_and_escaped(name):
    drawn = made(SHAPES[name])._repr_html_()
    root = ElementTree.fromstring(drawn)
    assert "<b>" not in drawn
    assert root.findall(".//svg/rect")


def test_plots(fitted):
    for figure in (
        fitted.plot(), fitted.plot(["z[1]"]), fitted.plot("z", most=1, dark=True), fitted.plot_check(),
        fitted.plot_history(dark=True),
    ):  # fmt: skip
        figure.canvas.draw()
    long = made({"a" * 40: (2,), "$x^{": ()}).plot()
    assert {axis.get_title() for axis in long.axes} - {""} == {
        "aaaaaaaa...aaaaaa[0]",
        "aaaaaaaa...aaaaaa[1]",
        "\\$x^{",
    }
    assert fitted.plot_check(dark=True).get_facecolor()[:3] == (0, 0, 0)
    with pytest.raises(ValueError, match=r"expected names among \['z'\].*got \['w'\]"):
        fitted.plot(["w"])
    with pytest.raises(ValueError, match=r"or entries such as z\[0\], got \[\]"):
        fitted.plot([])


def test_an_amortised_posterior_says_what_to_do():
    net = uivi.networks.MLP.create(jax.random.key(0), 1, 2, context_dim=3, width=4)
    conditional = uivi.families.Gaussian(net, uivi.families.RawScale.create(2))
    family = uivi.SemiImplicit(uivi.families.StandardNormal(1), conditional)
    posterior = uivi.Posterior(family, jnp.zeros(1), uivi.Status.DONE, {}, 0.0)
    for shown in (str(posterior), posterior._repr_html_()):
        assert "unknown. An amortised posterior is judged on data" in " ".join(shown.split())
    with pytest.raises(ValueError, match="plot draws for one data point"):
        posterior.plot()


def test_rounds_are_marked_in_the_history():
    history = {"step": [1, 2, 3], "round": [0, 0, 1], "elbo_lower": [None, -2.0, -1.0]}
    figure = plots.bound(history, dark=False)
    assert "end of a round" in [text.get_text() for text in figure.legends[0].get_texts()]
    with pytest.raises(ValueError, match="expected a history with a bound"):
        plots.bound({"step": [1]}, dark=False)


def test_a_file_without_its_density_has_no_errors(tmp_path):
    explicit = uivi.fit(log_density, 2, key=jax.random.key(0), **explicit_settings())
    explicit.save(tmp_path / "fit")
    again = uivi.load(tmp_path / "fit")
    assert "error" not in again.summary()
    shown = again.plot_check().axes[0].texts
    assert "unknown:\nthe file has no log density" in [text.get_text() for text in shown]
