"""The tables of `uivi list`."""

import itertools

from rich import box
from rich.console import Group
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from uivi.paper import EXPERIMENTS, GROUPS, AbstractContest, Experiment, Takes

NOTE = (
    "Times are for the updates of one fit by uivi (of one setting for logreg-iterations); the evaluation comes "
    "on top. They come from two cores of a CPU and from one NVIDIA H200, which fits both data sets of the VAEs "
    "at once. Those of logreg and vae on a CPU, of the toys on the H200 and of logreg's default there are the "
    "measured time of an update times the number of updates; the others are whole fits. A dash was never "
    "measured. --quick takes far fewer updates. `uivi data list` shows which data are here; missing ones are "
    "downloaded if they are public."
)
NAME = 27
"""Width of the first column."""


def listing() -> Group:
    """Returns the table of experiments, that of groups, and what the columns mean."""
    experiments = _table(Column("experiment", width=NAME), "preset", "2 cores", "GPU", "methods")
    for experiment in EXPERIMENTS.values():
        _add(experiments, experiment)
    groups = _table("group", "experiments")
    for name, names in GROUPS.items():
        groups.add_row(name, ", ".join(names))
    return Group(experiments, "", groups, "", Text(NOTE))


def _add(table: Table, experiment: Experiment | AbstractContest) -> None:
    """Adds a row for each preset, beside the name, what the experiment shows, and the data that it needs."""
    data = f"data: {experiment.dataset}" if experiment.dataset else "needs no data"
    below = (Padding(text, (0, 0, 0, 2)) for text in (experiment.reference, data))
    names = [Text(experiment.name, "bold"), *below]
    presets = [
        (preset, *_times(experiment.takes[preset]), ", ".join(recipes))
        for preset, recipes in experiment.recipes.items()
    ]
    rows = list(itertools.zip_longest(names, presets))
    for name, preset in rows:
        table.add_row(name, *(preset or ()), end_section=name is rows[-1][0])


def _times(takes: Takes) -> tuple[str, str]:
    return takes.cores or "–", takes.gpu or "–"


def _table(*headers: str | Column) -> Table:
    # Narrow gaps and no edges leave room for the longest name of a method on 80 columns.
    return Table(*headers, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
