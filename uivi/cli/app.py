"""The command line: each command calls one function of the library."""

import pathlib
import sys
from typing import Annotated

import jax
import typer
from rich.console import Console
from rich.table import Table

from uivi import __version__, _checks, bench, datasets
from uivi.cli import data as data_cli
from uivi.paper import EXPERIMENTS, GROUPS, SIDE_BY_SIDE, Effort, Experiment, Run, members, report, run
from uivi.paper.runner import UPDATE_PRECISION
from uivi.storage.archive import ArchiveError

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Unbiased implicit variational inference.")
app.add_typer(data_cli.app, name="data")
console = Console()

Out = Annotated[pathlib.Path, typer.Option(help="Directory of the results.")]


@app.command("list")
def list_experiments() -> None:
    """Show the experiments, their presets and methods."""
    table = Table("name", "what", "presets", "methods", title=f"uivi {__version__}")
    for experiment in EXPERIMENTS.values():
        methods = sorted({m for recipes in experiment.recipes.values() for m in recipes})
        table.add_row(experiment.name, experiment.reference, ", ".join(experiment.recipes), ", ".join(methods))
    for name, group in GROUPS.items():
        table.add_row(name, f"all of {', '.join(group)}", "", "")
    console.print(table)


@app.command("run")
def run_experiments(
    name: Annotated[str, typer.Argument(help="An experiment, a group such as `toy`, or `paper` for all.")],
    method: Annotated[str, typer.Option(help="uivi, sivi, explicit; several with commas; or all.")] = "",
    preset: Annotated[str, typer.Option(help="default, paper; both with a comma.")] = "",
    steps: Annotated[int | None, typer.Option(help="Number of updates instead of the preset's.")] = None,
    seed: Annotated[int, typer.Option(help="The (first) seed.")] = 0,
    seeds: Annotated[int, typer.Option(help="How many seeds, fitted side by side.")] = 1,
    out: Out = pathlib.Path("results"),
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Few updates and draws: minutes on a CPU.")] = False,
    apart: Annotated[bool, typer.Option("--apart", help="Data sets one by one, also on a GPU.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what --out holds.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bars.")] = False,
) -> None:
    """Run an experiment and write its results, a table and a page with figures.

    Without --method and --preset an experiment is run with `default` `uivi`, and the group `paper` with all
    methods of the preset `paper`.
    """
    # On a GPU JAX would round the inputs of float32 products to 10 bits.
    jax.config.update("jax_default_matmul_precision", "highest")
    _checks.known_name("experiment", name, [*EXPERIMENTS, *GROUPS])
    first = _checks.positive_int("seed + 1", seed + 1) - 1
    all_seeds = tuple(range(first, first + _checks.positive_int("seeds", seeds)))
    whole = name == "paper"
    effort: Effort = "quick" if quick else "full"
    names = members(name)
    for missing, used in zip(GROUPS.get(name, (name,)), names, strict=True):
        if missing != used:
            console.print(f"the data of {missing} is not here: running {used} instead, under that name")
    todo = [
        Run.create(group, p, m, all_seeds, out, steps, effort)
        for group in _grouped(names, together=jax.default_backend() == "gpu" and not apart)
        for p in (preset or ("paper" if whole else "default")).split(",")
        for m in _methods(group[0], p, method or ("all" if whole else "uivi"))
    ]
    for what in todo:
        for result in run(what, resume=resume, progress=not quiet):
            console.print(report.one_line(result))
    console.print(report.table(report.load_results(out)))
    console.print(f"page with figures: {report.write_page(out)}")


@app.command("bench")
def bench_device(
    out: Out = pathlib.Path("results/bench"),
    parts: Annotated[
        str, typer.Option(help=f"Some of {', '.join(bench.PARTS)}, with commas; all if empty.")
    ] = "",
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes, minutes on a CPU.")] = False,
) -> None:
    """Time updates on this device: methods, sizes, and seconds until a fit is good."""
    # Else a second run would call the loading of a kept program its compilation.
    jax.config.update("jax_enable_compilation_cache", False)  # noqa: FBT003
    names = parts.split(",") if parts else ()
    found = bench.bench(out, UPDATE_PRECISION, names, quick=quick, say=console.print)
    console.print(bench.table(found))
    console.print(f"numbers and figure: {out / 'bench.json'}, {out / 'bench.png'}")


@app.command("report")
def make_report(
    out: Annotated[pathlib.Path, typer.Argument(help="Directory of the results.")] = pathlib.Path("results"),
) -> None:
    """Turn a directory of results into one HTML page with tables and figures; nothing is fitted."""
    console.print(report.table(report.load_results(out)))
    console.print(f"page with figures: {report.write_page(out)}")


def _grouped(names: tuple[str, ...], *, together: bool) -> list[tuple[Experiment, ...]]:
    """The experiments in order; those that can run side by side in one tuple if asked for."""
    groups: list[tuple[Experiment, ...]] = []
    for name in names:
        last = groups[-1] if groups else ()
        joined = frozenset(e.name for e in last) | {name}
        if together and any(joined <= set_ for set_ in SIDE_BY_SIDE) and last:
            groups[-1] = (*last, EXPERIMENTS[name])
        else:
            groups.append((EXPERIMENTS[name],))
    return groups


def _methods(experiment: Experiment, preset: str, method: str) -> list[str]:
    _checks.known_name("preset", preset, experiment.recipes)
    return list(experiment.recipes[preset]) if method == "all" else method.split(",")


def keep_programs() -> None:
    """Keep compiled programs between runs, in the user's cache unless JAX was told where."""
    if not getattr(jax.config, "jax_compilation_cache_dir", None):
        jax.config.update("jax_compilation_cache_dir", str(datasets.cache_directory() / "programs"))


def main() -> None:
    """Run the command line; errors of ours are one message, not a traceback."""
    keep_programs()
    try:
        app()
    except (ArchiveError, OSError, RuntimeError, TypeError, ValueError) as error:
        Console(stderr=True).print(f"[bold red]error:[/] {error}", highlight=False)
        sys.exit(2)
    except KeyboardInterrupt as error:
        Console(stderr=True).print(f"[yellow]{error or 'interrupted'}[/]")
        sys.exit(130)
