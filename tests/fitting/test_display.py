"""What a modeller sees: the printed posterior, its HTML, its plots."""

import xml.etree.ElementTree as ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import uivi
from tests.tiny import explicit_settings, implicit_settings, log_density
from uivi.fitting import display, plots, tables

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
    found = uivi.evaluation.check.Check.from_json({**fitted.check().to_json(), "advice": advice})
    lines = display.text(posterior, found, posterior._variables()).splitlines()
    assert len(lines) <= display.MOST_LINES
    assert max(map(len, lines)) <= 120
    assert lines[0].startswith("verdict: ")


def test_long_vectors_are_shortened():
    printed = made({"theta": (100,), "mu": ()}).summary()
    shown = sum(line.startswith("theta[") for line in printed.splitlines())
    assert f"... {100 - shown} more" in printed
    assert "mu " in printed


def test_columns_are_aligned_and_the_numbers_are_those_of_the_draws(fitted):
    lines = fitted.summary().splitlines()
    head = next(i for i, line in enumerate(lines) if line.split()[:2] == ["mean", "sd"])
    rows = lines[head + 1 : head + 3]
    assert {len(line) for line in rows} == {len(lines[head])}
    draws = np.asarray(fitted.evaluate(jax.random.key(0), tables.NUM_DRAWS).z)
    for row, column in zip(rows, draws.T, strict=True):
        expected = [column.mean(), column.std(), *np.quantile(column, tables.QUANTILES)]
        np.testing.assert_allclose([float(x) for x in row.split()[1:6]], expected, atol=0.006)


def test_the_table_is_made_once(fitted, monkeypatch):
    fitted.summary()
    monkeypatch.setattr(tables, "variables", None)
    assert str(fitted) == fitted.summary()


def test_errors_need_reliable_weights_and_find_the_wrong_variable():
    draws = np.random.default_rng(0).normal(size=(4_000, 2))
    weights = np.exp(0.5 * draws[:, 1])
    found = tables._errors(draws, weights / weights.sum())
    assert found[0] < 0.1
    assert found[1] > 0.4
    assert np.isnan(tables._errors(draws, None)).all()
    assert np.isnan(tables._errors(np.ones((9, 1)), np.full(9, 1 / 9))).all()


def test_repr_is_one_line(fitted):
    assert repr(fitted).startswith("<Posterior: SemiImplicit, 2 dimensions")
    assert "\n" not in repr(fitted)


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
    assert fitted.plot_check(dark=True).get_facecolor()[:3] == (0, 0, 0)
    with pytest.raises(ValueError, match=r"expected names among \['z'\].*got \['w'\]"):
        fitted.plot(["w"])


def test_rounds_are_marked_in_the_history():
    history = {"step": [1, 2, 3], "round": [0, 0, 1], "elbo_lower": [None, -2.0, -1.0]}
    axis = plots.bound(history, dark=False).axes[0]
    assert "end of a round" in [text.get_text() for text in axis.get_legend().get_texts()]
    with pytest.raises(ValueError, match="expected a history with a bound"):
        plots.bound({"step": [1]}, dark=False)


def test_a_file_without_its_density_has_no_errors(tmp_path):
    explicit = uivi.fit(log_density, 2, key=jax.random.key(0), **explicit_settings())
    explicit.save(tmp_path / "fit")
    assert "error" not in uivi.load(tmp_path / "fit").summary()
