"""The commands for data sets: `uivi data list`, `get` and `verify`."""

import pathlib
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from uivi import _checks, datasets
from uivi.cli.busy import Busy, busy
from uivi.datasets import DATASETS, DatasetStatus, Spec, State

app = typer.Typer(no_args_is_help=True, help="Find, download and check the data sets.")
console = Console(markup=False, highlight=False)  # paths and messages may contain brackets

COLOURS = {State.FOUND: "green", State.MISSING: "yellow", State.CORRUPT: "bold red"}


@app.command("list")
def list_datasets() -> None:
    """List the data sets with their sizes and locations. Nothing is read or downloaded."""
    location = Column("location", overflow="fold")  # a path that is cut is of no use
    table = Table("name", "description", "sizes", location, title="data sets")
    for name, spec in DATASETS.items():
        paths = datasets.find(name)
        absent = f"not found: uivi data get {name}" if spec.public else "not found, not public: set UIVI_DATA"
        table.add_row(name, spec.description, _sizes(spec), str(paths[0].parent) if paths else absent)
    console.print(table)


@app.command("get")
def get_dataset(
    name: Annotated[str, typer.Argument(help="Name of a data set; `uivi data list` shows them.")],
    *,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress bar.")] = False,
) -> None:
    """Download a data set to the cache, unless it is found locally, and print the paths of its files."""
    with busy(console, quiet=quiet) as says:
        paths = fetch(name, says, quiet=quiet)
    for path in paths:
        typer.echo(path)


def fetch(name: str, says: Busy, *, quiet: bool) -> list[pathlib.Path]:
    """Downloads what is missing of a data set, checks its files, and returns their paths."""
    if datasets.find(name):
        says.phase(f"checking the data set {name}")
    elif DATASETS[name].public:
        # The download shows a bar of its own.
        says.note(f"downloading the data set {name}")
    paths = datasets.fetch(name, progress=not quiet)
    says.rest()
    return paths


@app.command("verify")
def verify_datasets(
    names: Annotated[list[str] | None, typer.Argument(help="Names of data sets. Default: all.")] = None,
) -> None:
    """Check the content of the local data sets. The exit code is 1 if any is corrupt."""
    chosen = [_checks.known_name("data set", name, DATASETS) for name in names or DATASETS]
    found = []
    with busy(console) as says:
        for name in chosen:
            says.phase(f"checking the data set {name}")
            found += datasets.verify([name])
            says.rest()
            _print_status(found[-1])
    if any(status.state is State.CORRUPT for status in found):
        raise typer.Exit(1)


def _print_status(status: DatasetStatus) -> None:
    mark = (str(status.state), COLOURS[status.state])
    where = f" {status.where}" if status.where else ""
    console.print(Text.assemble(f"{status.name}: ", mark, where), soft_wrap=True)
    console.print(f"    {status.note}", soft_wrap=True)


def _sizes(spec: Spec) -> str:
    rows = ", ".join(f"{split} {shape[0]:,}" for split, shape in spec.sizes.items())
    return f"{rows}; {spec.sizes['train'][1]} features"
