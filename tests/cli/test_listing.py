"""`uivi list` says what each experiment takes and needs."""

import io
import pathlib
import re

import pytest
from rich.console import Console

from uivi.cli.listing import listing
from uivi.paper import EXPERIMENTS, GROUPS

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def printed(width):
    console = Console(file=io.StringIO(), width=width)
    console.print(listing())
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 140])
def test_every_experiment_with_its_times_and_data(width):
    text = printed(width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for experiment in EXPERIMENTS.values():
        # From its name to the empty line behind it.
        part = re.search(rf"^{re.escape(experiment.name)} .*?\n\s*\n", text, re.DOTALL | re.MULTILINE)
        assert part, experiment.name
        for preset, takes in experiment.takes.items():
            row = next(line for line in part[0].splitlines() if f" {preset} " in line)
            assert f" {takes.cores or '–'} " in row
            assert f" {takes.gpu or '–'} " in row
        assert (f"data: {experiment.dataset}" if experiment.dataset else "needs no data") in part[0]
    for name in GROUPS:
        assert re.search(rf"^{name} ", text, re.MULTILINE)
    assert "A dash was never measured" in " ".join(text.split())


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda experiment: experiment.name)
def test_every_preset_has_its_times(experiment):
    assert experiment.takes.keys() == experiment.recipes.keys()


def seconds(text):
    number, unit = text.split()
    return float(number) * {"s": 1, "min": 60}[unit]


@pytest.mark.parametrize(
    ("name", "row"), [("logreg-mnist", "MNIST regression"), ("vae-mnist", "VAE"), ("vae-fashion", "VAE")]
)
def test_times_on_two_cores_are_those_of_an_update(name, row):
    found = re.search(rf"\| {row}, UIVI, paper's chain \| ([\d.]+) \|", (DOCS / "speed.md").read_text())
    expected = float(found[1]) / 1e3 * EXPERIMENTS[name].recipes["paper"]["uivi"].num_steps
    assert seconds(EXPERIMENTS[name].takes["paper"].cores) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("name", GROUPS["toy"])
def test_times_of_the_toys_are_those_of_the_docs(name):
    title = EXPERIMENTS[name].title
    found = re.search(rf"\| {title} \| uivi \(paper\) \|.*\| ([\d.]+) \|\n", (DOCS / "paper.md").read_text())
    assert seconds(EXPERIMENTS[name].takes["paper"].cores) == pytest.approx(float(found[1]), abs=0.5)


def cell(preset_times):
    """The cell of the docs: the times of the presets `default` and `paper`, or one dash for none at all."""
    return " / ".join(time or "–" for time in preset_times) if any(preset_times) else "–"


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda experiment: experiment.name)
def test_the_docs_have_the_same_table(experiment):
    found = re.search(rf"\| `{experiment.name}` \|.*\|", (DOCS / "cli.md").read_text())
    takes = [experiment.takes[name] for name in ("default", "paper") if name in experiment.takes]
    cells = [text.strip() for text in found[0].strip("|").split("|")]
    assert cells[1] == (f"`{experiment.dataset}`" if experiment.dataset else "no data")
    assert cells[3:] == [cell([t.cores for t in takes]), cell([t.gpu for t in takes])]
