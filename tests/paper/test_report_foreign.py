"""The report shows or refuses files that it did not write itself, and never fails on one."""

import copy
import html
import json
import random
import re

import pytest

from tests.paper.samples import FIGURES, MAKERS, TITLES, count_images, logreg, printed
from uivi.paper import report
from uivi.paper.report import loading
from uivi.paper.report.sections import SECTIONS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"half": ', "expected a complete result in .* delete it and run again"),
        ('{"config": {"experiment": "banana"}}', "expected a result of this version of uivi"),
        (json.dumps(logreg(kind="lgreg")), "config.kind is 'lgreg'"),
        ("[1, 2]", r"\[1, 2\] in place of named entries"),
        ("null", "null in place of named entries"),
        ("[" * 100_000, "broken JSON"),
        (json.dumps(logreg() | {"seeds": []}), r"seeds is '\[\]'"),
        (json.dumps(logreg() | {"seeds": None}), "without seeds"),
        (json.dumps(logreg() | {"seeds": [3]}), "seeds is"),
        (json.dumps(logreg(history=None)), "without history"),
        (json.dumps(logreg(history={"step": [1, 2], "seconds": [1]})), "history is"),
        (json.dumps(logreg(history={"step": ["x"], "seconds": [1]})), "history is"),
        (json.dumps(logreg(lanes=0)), "lanes is '0'"),
        (json.dumps(logreg(published=[])), r"published is '\[\]'"),
    ],
)
def test_what_cannot_be_read(text, message, tmp_path):
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        report.write_page(tmp_path)
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "result.json").write_text(json.dumps(logreg()))
    page = report.write_page(tmp_path).read_text()
    assert TITLES["logreg"] in page
    assert page.count("class='warning'") == 1
    assert re.search(message, html.unescape(page))


@pytest.mark.parametrize("kind", SECTIONS)
def test_methods_experiments_and_presets_that_nobody_knows(kind, write):
    run = MAKERS[kind]()
    run["config"] |= {"experiment": "another", "preset": "mine", "method": "own"}
    page = write(run)
    assert count_images(page) == FIGURES[kind]
    assert "another" in page
    assert report.one_line(run)
    assert "mine-own" in printed(report.table([run])).replace("\n", "")


@pytest.mark.parametrize("name", ["$x^2", "a_b^{c", "$\\frac{1}{$", "\\$5$ $", "<script>alert(1)</script>"])
@pytest.mark.parametrize("kind", SECTIONS)
def test_names_are_texts_and_no_markup(kind, name, write):
    run = MAKERS[kind](title=name)
    run["config"] |= {"experiment": name, "method": name, "preset": name}
    page = write(run)
    assert count_images(page) == FIGURES[kind]
    assert "<script" not in page
    assert html.escape(name) in page


ODD: tuple = (None, [], {}, "x", "$x^2", -1, 0, 1e308, float("nan"), True, 10**30)
ODD += ([1, 2], {"a": 1}, ["x"], [[1]], [{}])
CHANGES = 60
"""Number of changed results of each kind. All are on one page, which takes a second or two."""


def places(value, above=()):
    """Returns the place of every entry of a result; of long lists, the first two."""
    inside = (
        value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    )
    found = [(*above, name) for name, _ in inside]
    return found + [place for name, part in inside for place in places(part, (*above, name))]


def changed(result, place, value):
    """Returns the result with another value at one place."""
    result = copy.deepcopy(result)
    part = result
    for name in place[:-1]:
        part = part[name]
    part[place[-1]] = value
    return result


@pytest.mark.parametrize("kind", SECTIONS)
def test_odd_values_anywhere_are_shown_or_refused(kind, tmp_path):
    chance = random.Random(0)
    whole = json.loads(json.dumps(MAKERS[kind]()))
    for i in range(CHANGES):
        text = json.dumps(changed(whole, chance.choice(places(whole)), chance.choice(ODD)))
        (tmp_path / str(i)).mkdir()
        (tmp_path / str(i) / "result.json").write_text(text)
    loaded = report.load_results(tmp_path)
    assert len(loaded.results) + len(loaded.faults) == CHANGES
    assert min(len(loaded.results), len(loaded.faults)) >= 5
    assert all(fault.startswith("expected a result of this version") for fault in loaded.faults)
    page = report.write_page(tmp_path).read_text()
    assert page.count("class='warning'") >= len(loaded.faults)
    assert all(report.one_line(result) for result in loaded.results)


def test_odd_values_would_fail_without_the_checks(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "SHAPE", {})
    (tmp_path / "result.json").write_text(json.dumps(logreg() | {"history": None}))
    with pytest.raises((AttributeError, TypeError)):
        report.write_page(tmp_path)
